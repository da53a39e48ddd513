"""nn.Module -> Network: torch.fx, exact batch-norm folding, coverage proved or Unsupported."""

from cushion.tracing.tracer import support, trace

__all__ = ["support", "trace"]
