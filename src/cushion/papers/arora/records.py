"""What the items of Arora 2018 and of the note read: three kinds of records, each made once and
shared.

`vgg19`: everything of noise stability on the trained VGG-19, its initialisation beside it.
`vgg19_epochs`: the bounds of Figure 2 and the errors after each epoch that stays. `alexnets`:
cushions and contraction of the two AlexNets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cushion.data import Dataset
from cushion.measures.stability.family import StabilityOptions
from cushion.measures.table import measure, traced
from cushion.nets.loading.weights import load_net
from cushion.papers.arora.plans import ALEXNETS, LOOKS, VGG19
from cushion.papers.nets import TrainingPlan, train_plan
from cushion.papers.runner import Workshop
from cushion.theorems.capacities import figure_two, size_and_lipschitz
from cushion.theorems.net_facts import gather, look_at
from cushion.training.runs import snapshot_file

MARGIN_LEVEL = 0.05  # γ is the 5th-percentile margin
_DELTA = 0.05  # of the facts; no row that is shown here depends on it
_KEPT = (
    "name",
    "shape",
    "parameters",
    "layer_cushion",
    "activation_contraction",
    "minimal_interlayer_cushion",
    "jacobian_beta",
    "effective_parameters",
    "noise_attenuation",
    "stable_rank",
    "kernel_spectrum",
    "spectrum",
)


def vgg19(workshop: Workshop) -> dict[str, Any]:
    """{"layers", "beside" (layers of the initialisation, scaled to match), "net", "claims", "m",
    "errors", ...}.
    """
    plan, look = VGG19[workshop.size], LOOKS[workshop.size]
    options = look.options(workshop.seed)

    def make() -> dict[str, Any]:
        run, data, test = train_plan(workshop, plan)
        net = load_net(run.net)
        only = ["stability", "margins", "spectra"]
        table = measure(
            net.module, data, only=only, stability=options, init=net.init, beside="init"
        ).to_json()
        return {
            **_errors(run.metrics, data, test),
            "epochs": run.epochs,
            "layers": [_kept(layer) for layer in table["layers"]],
            "beside": [_kept(layer) for layer in table["beside"]["layers"]],
            "net": table["net"]["stability"],
            "margin_5th": table["net"]["margin_5th"],
            "claims": table["claims"],
        }

    found: dict[str, Any] = workshop.step("arora-vgg19", _settings(workshop, plan, options), make)
    return found


def vgg19_epochs(workshop: Workshop) -> list[dict[str, Any]]:
    """For each epoch that stays: errors, γ, and every row of Figure 2 (middle) in log10."""
    plan, options = VGG19[workshop.size], LOOKS[workshop.size].sparse(workshop.seed)
    made: list[dict[str, Any]] = []
    for epoch in plan.snapshots:

        def make(epoch: int = epoch) -> dict[str, Any]:
            run, data, test = train_plan(workshop, plan)
            path = Path(run.folder) / snapshot_file(epoch)
            return {"epoch": epoch, **_bounds(path, data, test, options)}

        settings = {**_settings(workshop, plan, options), "epoch": epoch, "level": MARGIN_LEVEL}
        made.append(workshop.step("arora-vgg19-epoch", settings, make))
    return made


def alexnets(workshop: Workshop) -> tuple[dict[str, Any], dict[str, Any]]:
    """The AlexNets on true and on shuffled labels, each measured on the sample that it saw."""
    options = LOOKS[workshop.size].sparse(workshop.seed)

    def look(plan: TrainingPlan) -> dict[str, Any]:
        def make() -> dict[str, Any]:
            run, data, test = train_plan(workshop, plan)
            table = measure(
                load_net(run.net).module, data, only=["stability", "margins"], stability=options
            )
            found = table.to_json()
            return {
                **_errors(run.metrics, data, test),
                "epochs": run.epochs,
                "layers": [_kept(layer) for layer in found["layers"]],
                "net": found["net"]["stability"],
                "margin_5th": found["net"]["margin_5th"],
            }

        made: dict[str, Any] = workshop.step(
            "arora-alexnet", _settings(workshop, plan, options), make
        )
        return made

    true, shuffled = ALEXNETS[workshop.size]
    return look(true), look(shuffled)


def _settings(workshop: Workshop, plan: TrainingPlan, options: StabilityOptions) -> dict[str, Any]:
    return {
        "plan": plan.to_json(),
        "options": vars(options),
        "seed": workshop.seed,
        "device": workshop.device,
    }


def _errors(metrics: dict[str, Any], data: Dataset, test: Dataset) -> dict[str, Any]:
    errors = {key: metrics[f"{key}_errors"] for key in ("train", "test")}
    return {
        "m": len(data),
        "test_m": len(test),
        "errors": errors["train"],
        "test_errors": errors["test"],
    }


def _kept(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer without what no item shows: of cushions towards single layers the smallest stays."""
    kept = {key: layer[key] for key in _KEPT}
    kept["interlayer_smoothness"] = [
        {key: value for key, value in one.items() if key != "pairs"}
        for one in layer["interlayer_smoothness"]
    ]
    return kept


def kept_layer(layer: dict[str, Any]) -> dict[str, Any]:
    """Of a layer the distributions that the figures of noise stability show, and nothing else."""
    smooth = [
        {key: one[key] for key in ("kind", "level", "inverse_spread")}
        for one in layer["interlayer_smoothness"]
        if one["kind"] == "sign-projection" and one["level"]
    ]
    minimal, beta = layer["minimal_interlayer_cushion"], layer["jacobian_beta"]
    return {
        **{key: layer[key] for key in ("name", "shape", "layer_cushion", "activation_contraction")},
        **{key: layer[key] for key in ("noise_attenuation", "kernel_spectrum")},
        "minimal_interlayer_cushion": minimal and {"unclipped": minimal["unclipped"]},
        "jacobian_beta": beta and {"spread": beta["spread"]},
        "interlayer_smoothness": smooth,
    }


def _bounds(path: Path, data: Dataset, test: Dataset, options: StabilityOptions) -> dict[str, Any]:
    """What Figure 2 plots of one net: from the functions behind `cushion bounds`."""
    net = traced(load_net(path).module, data)
    seen = look_at(net, data)
    table = measure(
        net, data, only=["stability", "norms", "paths"], stability=options, spectra=False
    )
    facts = gather(net, data, seen, table, None, delta=_DELTA, epsilon=MARGIN_LEVEL)
    assert table.net.stability is not None
    effective = table.net.stability.effective_parameters
    stability = table.net.stability.to_json()  # what is infinite is None there
    rows = [*figure_two(facts, effective), *size_and_lipschitz(facts)[:1]]
    return {
        "m": len(data),
        "test_m": len(test),
        "errors": seen.errors,
        "test_errors": look_at(net, test).errors,
        "margin": facts.margin,
        "largest_score": facts.largest_score,
        "effective_parameters": stability["effective_parameters"],
        "effective_parameters_zeta": stability["effective_parameters_zeta"],
        "parameters": facts.parameters,
        "rows": [
            {
                "name": row.name,
                "form": row.form,
                "log10": row.to_json()["capacity_log10"],
                "because": row.meaning,
            }
            for row in rows
        ],
    }
