"""What the trace says about a net: a line for each module and operation, and what it could not account for."""

from __future__ import annotations

from cushion.records import SupportLine, SupportReport
from cushion.tracing.assembly import Assembly
from cushion.tracing.capture import CaptureFailed, hooked


def refusals(assembly: Assembly, failure: CaptureFailed | None) -> str:
    """All offending modules and operations in one sentence."""
    parts = [f"{d.name} ({d.module}): {d.refused.reason}; {d.refused.fix}" for d in assembly.drafts if d.refused]
    if failure is not None:
        parts.append(f"{failure.path or 'the net itself'} ({failure.module}): {failure.refused.reason}; {failure.refused.fix}")
    return " | ".join(parts)


def unread(assembly: Assembly, alive: set[int]) -> list[str]:
    """Parameters and buffers that no live draft reads; batch counters take no part in eval mode."""
    read = frozenset().union(*(assembly.drafts[i].reads for i in alive))
    named = [
        *assembly.replica.named_parameters(remove_duplicate=False),
        *assembly.replica.named_buffers(remove_duplicate=False),
    ]
    return [name for name, t in named if id(t) not in read and not name.endswith("num_batches_tracked")]


def report(assembly: Assembly, into: dict[int, int], failure: CaptureFailed | None) -> SupportReport:
    lines = []
    for i, d in enumerate(assembly.drafts[1:], 1):
        role = f"folded into {assembly.drafts[into[i]].name}" if i in into else d.role
        r = d.refused
        lines.append(SupportLine(d.name, d.module, r is None, role, r.reason if r else "", r.fix if r else ""))
    return SupportReport(tuple(lines))
