"""nn.Module -> Network: torch.fx, exact batch-norm folding, coverage proved or Unsupported."""

from cushion.nets.tracing.tracer import support, trace

__all__ = ["support", "trace"]
