"""What the trace says about a net: a line for each module and operation, and what is left over."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from cushion.nets.operations.vocabulary import MODULES, Refused, plain_type
from cushion.nets.tracing.assembly import Assembly
from cushion.nets.tracing.capture import HOOKS, CaptureFailed
from cushion.nets.tracing.refusals import refusal
from cushion.records import Record

_IDLE = Refused(
    "the logits do not depend on it",
    "delete unused parts of the net, or let it return what they compute",
)


@dataclass(frozen=True)
class SupportLine(Record):
    """One module or operation of a net, and whether the trace understands it."""

    path: str  # dotted module path, or the FX node name for an operation without a module
    module: str  # class or function name
    understood: bool
    # what it becomes: "affine (linear)", "folded into conv1", "relu", "dropped in eval mode", ...
    role: str
    reason: str = ""  # why not understood
    fix: str = ""  # what would fix it


@dataclass(frozen=True)
class SupportReport(Record):
    """Names every module and operation of a net; `understood` means that all of them are."""

    lines: tuple[SupportLine, ...]

    @property
    def understood(self) -> bool:
        return all(line.understood for line in self.lines)

    def __str__(self) -> str:
        width = max((len(line.path) for line in self.lines), default=0)
        return "\n".join(
            f"{'ok ' if line.understood else 'NO '} {line.path:<{width}}  {line.module}: "
            + (line.role if line.understood else f"{line.reason}; {line.fix}")
            for line in self.lines
        )


def unread(assembly: Assembly, alive: set[int]) -> list[str]:
    """Parameters and buffers that no live draft reads; batch counters take no part in eval mode."""
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
    """One line per call, in order; `into` says which batch-norm was folded into which layer."""
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
    """Lines for modules that no call named: containers, unused ones, or all without a graph."""
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
