"""What the trace says about a net: a line for each module and operation, and what it could not
account for.
"""

from __future__ import annotations

from torch import nn

from cushion.nets.tracing.assembly import Assembly
from cushion.nets.tracing.capture import HOOKS, CaptureFailed
from cushion.nets.tracing.refusals import refusal
from cushion.nets.tracing.steps import Refused
from cushion.nets.tracing.vocabulary import MODULES, plain_type
from cushion.records import SupportLine

_IDLE = Refused(
    "the logits do not depend on it",
    "delete unused parts of the net, or let it return what they compute",
)


def unread(assembly: Assembly, alive: set[int]) -> list[str]:
    """Parameters and buffers that no live draft reads; batch-norm's batch counters take no part in
    eval mode.
    """
    read = frozenset[int]().union(*(assembly.drafts[i].reads for i in alive))
    return [
        name
        for name, value in (
            *assembly.replica.named_parameters(remove_duplicate=False),
            *assembly.replica.named_buffers(remove_duplicate=False),
        )
        if id(value) not in read and not name.endswith("num_batches_tracked")
    ]


def call_lines(assembly: Assembly, into: dict[int, int]) -> list[SupportLine]:
    """One line per call, in the order of the calls; `into` says which batch-norm was folded into
    which layer.
    """
    lines = []
    for index, draft in enumerate(assembly.drafts):
        if draft.refused is not None:
            lines.append(_no(draft.name, draft.module, draft.refused))
        elif index > 0:
            role = (
                f"folded into {assembly.drafts[into[index]].name}" if index in into else draft.role
            )
            lines.append(SupportLine(draft.name, draft.module, True, role))
    return lines


def failure_lines(
    model: nn.Module, hooks: list[str], failure: CaptureFailed | None
) -> list[SupportLine]:
    """Lines for modules with hooks and for the module whose forward could not be followed."""
    modules = dict(model.named_modules())
    lines = [_no(path, type(modules[path]).__name__, HOOKS) for path in hooks]
    if failure is not None:
        lines.append(_no(failure.path, failure.module, failure.refused))
    return lines


def idle_lines(names: list[str]) -> list[SupportLine]:
    """Lines for parameters and buffers that nothing reads."""
    return [_no(name, "parameter", _IDLE) for name in names]


def module_lines(model: nn.Module, called: set[str], followed: bool) -> list[SupportLine]:
    """Lines for the modules that no call named: containers, unused ones, or all if no graph could
    be followed.
    """
    lines = []
    for path, module in model.named_modules():
        if path in called or not path or "parametrizations" in path.split("."):
            continue
        name = type(module).__name__
        own = type(module).__module__.startswith("torch.nn") and not isinstance(
            module, nn.Sequential
        )
        if plain_type(module) in MODULES:
            lines.append(
                SupportLine(
                    path, name, True, "not called in eval mode" if followed else "supported layer"
                )
            )
        elif own and not followed and not isinstance(module, (nn.ModuleList, nn.ModuleDict)):
            lines.append(_no(path, name, refusal(name)))
        else:
            lines.append(
                SupportLine(
                    path, name, True, "container" if list(module.children()) else "its own forward"
                )
            )
    return lines


def sentence(lines: list[SupportLine]) -> str:
    """All that is not understood, in one sentence."""
    return " | ".join(
        f"{line.path} ({line.module}): {line.reason}; {line.fix}"
        for line in lines
        if not line.understood
    )


def _no(path: str, module: str, refused: Refused) -> SupportLine:
    return SupportLine(path or "the net", module, False, "", refused.reason, refused.fix)
