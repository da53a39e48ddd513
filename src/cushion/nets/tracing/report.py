"""What the trace says about a net: a line for each module and operation, and what is left over."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from torch import nn

from cushion.nets.operations.vocabulary import MODULES, Refused, plain_type, refusal
from cushion.nets.tracing.assembly import Assembly
from cushion.records import Record

_IDLE = Refused("the logits do not depend on it", "delete unused parts, or return what they give")
_HOOKS = Refused(
    "it has forward hooks, which can change what it computes",
    "remove them first (torch.nn.utils.prune.remove and remove_weight_norm do so for those of "
    "torch; torch.nn.utils.parametrizations are understood)",
)


class SupportLine(Record):
    """One module or operation of a net, and whether the trace understands it."""

    path: str  # dotted module path, or the FX node name for an operation without a module
    module: str  # class or function name
    understood: bool
    # what it becomes: "affine (linear)", "folded into conv1", "relu", "dropped in eval mode", ...
    role: str
    reason: str = ""  # why not understood
    fix: str = ""  # what would fix it


class FamilyWay(Record):
    """How one family of measures sees a net, and why not by more."""

    family: str
    way: str  # trace, hooks, weights or answers; "" where it is refused
    why: str = ""


class SupportReport(Record):
    """How a net is seen. `understood` means that the trace understands every module of it."""

    lines: tuple[SupportLine, ...]
    ways: tuple[FamilyWay, ...] = ()  # by family of measures, where an example's shape is known
    instead: str = ""  # what there is of a net without such lines

    @property
    def understood(self) -> bool:
        return not self.instead and all(line.understood for line in self.lines)

    def __str__(self) -> str:
        ways = [f"{one.family}: {one.way or f'refused: {one.why}'}" for one in self.ways]
        if not ways:
            ways = ["give the shape of an example too, to see which families measure it, and how"]
        width = max((len(line.path) for line in self.lines), default=0)
        shown = [
            f"{'ok ' if line.understood else 'NO '} {line.path:<{width}}  {line.module}: "
            + (line.role if line.understood else f"{line.reason}; {line.fix}")
            for line in self.lines
        ]
        said = self.instead or (
            "the trace understands all of it"
            if self.understood
            else "the trace does not understand all of it; what needs no trace (norms, spectra, "
            "tails, margins, sharpness, noise stability) is measured all the same"
        )
        return "\n".join([*ways, "", said, *shown])


# what a refusal leaves
WITHOUT = (
    "path norms, exact pairs of layers and compressors need the trace; measures of weights, "
    "margins, sharpness and noise do not"
)
_NAMED = 3  # refusals that a sentence spells out


def sentence(lines: Iterable[SupportLine]) -> str:
    """What is not understood, in one sentence: the first module of each kind, then how many."""
    refusals = [line for line in lines if not line.understood]
    kinds = {(one.module, one.reason): one for one in reversed(refusals)}
    first = sorted(kinds.values(), key=refusals.index)[:_NAMED]
    said = " | ".join(f"{one.path} ({one.module}): {one.reason}; {one.fix}" for one in first)
    more = len(refusals) - len(first)
    return f"{said} | and {more} more, which cushion.support lists" if more else said


def refused(path: str, module: str, why: Refused) -> SupportLine:
    """The line about something that is not understood."""
    return SupportLine(path or "the net", module, False, "", why.reason, why.fix)


def hook_lines(model: nn.Module) -> list[SupportLine]:
    """Lines for the modules with forward hooks, which can change results unseen by the graph."""
    modules = model.named_modules()
    hooked = [(name, m) for name, m in modules if m._forward_hooks or m._forward_pre_hooks]
    return [refused(name, type(module).__name__, _HOOKS) for name, module in hooked]


def call_lines(assembly: Assembly, into: dict[int, int]) -> list[SupportLine]:
    """One line per call, in order; `into` says which batch-norm was folded into which layer."""
    lines = []
    for index, draft in enumerate(assembly.drafts):
        if draft.refused is not None:
            lines.append(refused(draft.name, draft.module, draft.refused))
        elif index > 0:
            target = assembly.drafts[into.get(index, index)].name
            role = f"folded into {target}" if index in into else draft.role
            lines.append(SupportLine(draft.name, draft.module, True, role))
    return lines


def idle_lines(assembly: Assembly, alive: set[int]) -> list[SupportLine]:
    """Parameters and buffers that no live draft reads, those of uncalled submodules apart; batch
    counters take no part in eval mode.
    """
    read = frozenset[int]().union(*(assembly.drafts[i].reads for i in alive))
    net, apart = assembly.replica, _uncalled(assembly, read)
    parameters = net.named_parameters(remove_duplicate=False)
    state = chain(parameters, net.named_buffers(remove_duplicate=False))
    unread = [name for name, value in state if id(value) not in read]
    idle = [name for name in unread if not name.endswith("num_batches_tracked")]
    return [
        refused(name, "parameter", _IDLE)
        for name in idle
        if not any(name.startswith(f"{path}.") for path in apart)
    ]


def _uncalled(assembly: Assembly, read: frozenset[int]) -> set[str]:
    """Paths of the submodules that take no part in eval mode: neither they nor a part of them is
    called, and no number of theirs is read. Lists of parameters and parametrizations are part of
    the module that has them.
    """
    return {
        path
        for path, module in assembly.replica.named_modules(remove_duplicate=False)
        if path
        and "parametrizations" not in path.split(".")
        and not isinstance(module, (nn.ParameterList, nn.ParameterDict))
        and assembly.called.isdisjoint(map(id, module.modules()))
        and read.isdisjoint(map(id, chain(module.parameters(), module.buffers())))
    }


def module_lines(assembly: Assembly, named: set[str]) -> list[SupportLine]:
    """Lines for modules that no call named: containers, unused ones, or all without a graph."""
    containers = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
    followed = bool(assembly.drafts)
    read = frozenset[int]().union(*(draft.reads for draft in assembly.drafts))
    apart = _uncalled(assembly, read) if followed else set()
    lines = []
    for path, module in assembly.replica.named_modules():
        if path in named or not path or "parametrizations" in path.split("."):
            continue
        name = type(module).__name__
        own = type(module).__module__.startswith("torch.nn") and not isinstance(module, containers)
        if own and not followed and plain_type(module) not in MODULES:
            lines.append(refused(path, name, refusal(name)))
            continue
        role = "container" if list(module.children()) else "its own forward"
        if plain_type(module) in MODULES:
            role = "read by another forward" if followed else "supported layer"
        if path in apart:
            role = "not called in eval mode"
        lines.append(SupportLine(path, name, True, role))
    return lines
