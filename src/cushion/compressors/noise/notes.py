"""What a reader should know of one replacement: the paper's slips, and what is left of the net."""

from __future__ import annotations

from collections.abc import Sequence

from cushion.compressors.noise.records import LayerReplacement, ReplacementSummary


def notes_on(found: ReplacementSummary) -> tuple[str, ...]:
    """One sentence each."""
    layers = [layer for layer in found.layers if layer.is_replaced]
    signs = [] if found.form == "corrected" else _signs(found.form, layers)
    return (*signs, *_left(layers, found.settings["epsilon"]), *_noise(found, layers))


def _signs(form: str, layers: Sequence[LayerReplacement]) -> list[str]:
    """Errata a and b: signed thresholds take all large negative weights; the mean survives."""

    def beyond(layer: LayerReplacement) -> float:
        return layer.replaced_largest / (layer.tau or 1.0)

    def apart(layer: LayerReplacement) -> float:
        return abs(layer.replaced_mean - layer.noise_mean) / (layer.deviation or 1.0)

    notes = []
    if large := [layer for layer in layers if layer.replaced_largest > (layer.tau or 0.0)]:
        worst, where = (
            max(large, key=beyond),
            "Algorithm 1" if form == "algorithm" else "Appendix E",
        )
        notes.append(
            f"every large negative weight was replaced, as {where} prints it: in {worst.name} one "
            f"of {-worst.replaced_largest:.3g} went, {beyond(worst):.3g} times the threshold"
        )
    far = max(layers, key=apart)
    means = f"has the mean {far.replaced_mean:.3g} and what replaces it {far.noise_mean:.3g}"
    gap = f"{apart(far):.3g} standard deviations apart"
    return [*notes, f"the mean survives: what goes from {far.name} {means}, {gap}"]


def _left(layers: Sequence[LayerReplacement], epsilon: float | None) -> list[str]:
    """What stays, and a grid that costs a layer more than the error that τ was chosen for."""
    rest = "noise alone" if any(layer.t > 0 for layer in layers) else "a weight of zeros"
    lost = [layer for layer in layers if layer.kept > 0 and layer.nonzeros == 0]
    notes: list[str] = []

    def note(text: str, said_of: list[LayerReplacement]) -> None:
        if said_of:
            notes.append(text.format(", ".join(layer.name for layer in said_of)))

    empty = f"nothing stays in {{}} (B = 0): {rest} stands for it"
    note(empty, [one for one in layers if one.kept == 0])
    whole = "nothing was replaced in {}: every weight stays, on its grid"
    note(whole, [one for one in layers if one.replaced == 0])
    rounded = "no weight of {} is left on its grid; give more `grid` bits"
    note(rounded, [one for one in lost if one.rounded_away == one.kept])
    unread = "no weight of {} is stored: what a later layer keeps does not read its units"
    note(unread, [one for one in lost if one.rounded_away != one.kept])
    if epsilon is not None:
        coarse = f"rounding alone moves {{}} by more than ε = {epsilon:g}; give more `grid` bits"
        note(coarse, [one for one in layers if one.rounding > epsilon])
    return notes


def _noise(found: ReplacementSummary, layers: Sequence[LayerReplacement]) -> list[str]:
    """Erratum d: noise only adds error."""
    if not any(layer.t > 0 for layer in layers):
        return ["without noise (t = 0) every trial is the same net, so one was run"]
    chosen = next(one for one in found.tried if one.chosen)
    quiet = f"{chosen.asked.rpartition(', t=')[0]}, t=0"
    for one in found.tried:
        if one.grid == chosen.grid and one.asked == quiet:
            both = f"errs on {one.errors} examples and with it on {chosen.errors}"
            return [f"without noise, {quiet} {both}"]
    only = "noise only adds error to what is left out; `t` = 0 replaces by zeros"
    return [only] if found.form == "corrected" else []
