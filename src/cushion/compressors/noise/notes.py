"""What a reader should know of one replacement: the paper's slips, and what is left of the net."""

from __future__ import annotations

from collections.abc import Sequence

from cushion.compressors.noise.records import LayerReplacement, ReplacementSummary


def notes_on(found: ReplacementSummary) -> tuple[str, ...]:
    """One sentence each."""
    layers = [layer for layer in found.layers if layer.is_replaced]
    return (
        *_signs(found, layers),
        *_left(layers),
        *_rounding(found, layers),
        *_noise(found, layers),
    )


def _signs(found: ReplacementSummary, layers: Sequence[LayerReplacement]) -> list[str]:
    """Errata a and b: signed thresholds take all large negative weights; the mean survives."""
    if found.form == "corrected":
        return []
    large = [
        layer for layer in layers if layer.tau is not None and layer.replaced_largest > layer.tau
    ]
    where = "Algorithm 1" if found.form == "algorithm" else "Appendix E"
    notes = []
    if large:
        worst = max(large, key=lambda layer: layer.replaced_largest / (layer.tau or 1.0))
        notes.append(
            f"every large negative weight was replaced, as {where} prints it: in {worst.name} one "
            f"of {-worst.replaced_largest:.3g} went, "
            f"{worst.replaced_largest / (worst.tau or 1.0):.3g} times the threshold"
        )
    far = max(
        layers,
        key=lambda layer: abs(layer.replaced_mean - layer.noise_mean) / (layer.deviation or 1.0),
    )
    gap = (far.replaced_mean - far.noise_mean) / (far.deviation or 1.0)
    notes.append(
        f"the mean survives: what goes from {far.name} has the mean {far.replaced_mean:.3g} and "
        f"what replaces it {far.noise_mean:.3g}, {abs(gap):.3g} standard deviations apart"
    )
    return notes


def _left(layers: Sequence[LayerReplacement]) -> list[str]:
    notes = []
    if empty := [layer.name for layer in layers if layer.kept == 0]:
        rest = "noise alone" if any(layer.t > 0 for layer in layers) else "a weight of zeros"
        notes.append(f"nothing stays in {', '.join(empty)} (B = 0): {rest} stands for it")
    if whole := [layer.name for layer in layers if layer.replaced == 0]:
        notes.append(f"nothing was replaced in {', '.join(whole)}: every weight stays, on its grid")
    lost = [layer for layer in layers if layer.kept > 0 and layer.nonzeros == 0]
    if rounded := [layer.name for layer in lost if layer.rounded_away == layer.kept]:
        notes.append(
            f"no weight of {', '.join(rounded)} is left on its grid; give more `grid` bits"
        )
    if unread := [layer.name for layer in lost if layer.name not in rounded]:
        notes.append(
            f"no weight of {', '.join(unread)} is stored: what a later layer keeps does not read "
            "its units"
        )
    return notes


def _rounding(found: ReplacementSummary, layers: Sequence[LayerReplacement]) -> list[str]:
    """A grid that costs a layer more than the error that τ was chosen for."""
    epsilon = found.settings["epsilon"]
    coarse = [layer.name for layer in layers if epsilon is not None and layer.rounding > epsilon]
    if not coarse:
        return []
    return [
        f"rounding alone moves {', '.join(coarse)} by more than ε = {epsilon:g}; give more `grid` "
        "bits"
    ]


def _noise(found: ReplacementSummary, layers: Sequence[LayerReplacement]) -> list[str]:
    """Erratum d: noise only adds error."""
    if not any(layer.t > 0 for layer in layers):
        return ["without noise (t = 0) every trial is the same net, so one was run"]
    chosen = next(one for one in found.tried if one.chosen)
    threshold = chosen.asked.rpartition(", t=")[0]
    for one in found.tried:
        if one.grid == chosen.grid and one.asked == f"{threshold}, t=0":
            return [
                f"without noise, {one.asked} errs on {one.errors} examples and with it on "
                f"{chosen.errors}"
            ]
    if found.form == "corrected":
        return ["noise only adds error to what is left out; `t` = 0 replaces by zeros"]
    return []
