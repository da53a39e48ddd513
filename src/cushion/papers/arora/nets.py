"""What the items of Arora 2018 and of the note read: three kinds of records, each made once and
shared, and what the pages say of the nets.

`vgg19`: everything of noise stability on the trained VGG-19, its initialisation beside it.
`vgg19_epochs`: the bounds of Figure 2 and the errors after each epoch that stays. `alexnets`:
cushions and contraction of the two AlexNets.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cushion.data import Dataset
from cushion.measures.stability.family import StabilityOptions
from cushion.measures.table import measure, traced
from cushion.nets.loading.weights import load_net
from cushion.papers.arora.paper import VGG19_TEST_ERROR
from cushion.papers.arora.plans import ALEXNETS, LOOKS, VGG19
from cushion.papers.nets import TrainingPlan, counted, held_out_error, train_plan, training_error
from cushion.papers.pages import Columns, Table
from cushion.papers.runner import Workshop
from cushion.theorems.capacities import figure_two, size_and_lipschitz
from cushion.theorems.net_facts import gather, look_at
from cushion.training.runs import snapshot_file

LAYERS_NOTE = (
    "Layers are counted from 1 and are the affine ones; every number is a measure: relative, not a "
    "bound."
)
SCALED_NOTE = (
    "The random net is the initialisation, each layer scaled to the trained layer's Frobenius "
    'norm, as the paper compares with "a Gaussian random network and then scaled properly".'
)
MARGIN_LEVEL = 0.05  # γ is the 5th-percentile margin
_DELTA = 0.05  # of the facts; no row that is shown here depends on it
_KEPT = (  # of a layer
    "name shape parameters layer_cushion activation_contraction minimal_interlayer_cushion "
    "jacobian_beta effective_parameters noise_attenuation stable_rank kernel_spectrum spectrum"
)


def vgg19(workshop: Workshop) -> dict[str, Any]:
    """{"layers", "beside" (layers of the initialisation, scaled to match), "net", "claims", "m",
    "errors", ...}.
    """
    options = LOOKS[workshop.size].options(workshop.seed)
    return _seen(workshop, "arora-vgg19", VGG19[workshop.size], options, beside=True)


def alexnets(workshop: Workshop) -> tuple[dict[str, Any], dict[str, Any]]:
    """The AlexNets on true and on shuffled labels, each measured on the sample that it saw."""
    options = LOOKS[workshop.size].sparse(workshop.seed)
    true, shuffled = (
        _seen(workshop, "arora-alexnet", plan, options) for plan in ALEXNETS[workshop.size]
    )
    return true, shuffled


def _seen(
    workshop: Workshop,
    step: str,
    plan: TrainingPlan,
    options: StabilityOptions,
    *,
    beside: bool = False,
) -> dict[str, Any]:
    """A net after training; `beside`: with its spectra, its initialisation and the claims."""

    def make() -> dict[str, Any]:
        run, data, test = train_plan(workshop, plan)
        net = load_net(run.net)
        only = ["stability", "margins", *(["spectra"] if beside else [])]
        twin: dict[str, Any] = {"init": net.init, "beside": "init"} if beside else {}
        table = measure(net.module, data, only=only, stability=options, **twin).to_json()
        found = {
            **counted(run, data, test),
            "epochs": run.epochs,
            "layers": [_kept(layer) for layer in table["layers"]],
            "net": table["net"]["stability"],
            "margin_5th": table["net"]["margin_5th"],
        }
        if beside:
            found["beside"] = [_kept(layer) for layer in table["beside"]["layers"]]
            found["claims"] = table["claims"]
        return found

    return workshop.step(step, _settings(workshop, plan, options), make)


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


def _settings(workshop: Workshop, plan: TrainingPlan, options: StabilityOptions) -> dict[str, Any]:
    where = {"seed": workshop.seed, "device": workshop.device}
    return {"plan": plan.to_json(), "options": vars(options), **where}


def _kept(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer without what no item shows: of cushions towards single layers the smallest stays."""
    smooth = [
        {key: value for key, value in one.items() if key != "pairs"}
        for one in layer["interlayer_smoothness"]
    ]
    return {key: layer[key] for key in _KEPT.split()} | {"interlayer_smoothness": smooth}


def _bounds(path: Path, data: Dataset, test: Dataset, options: StabilityOptions) -> dict[str, Any]:
    """What Figure 2 plots of one net: from the functions behind `cushion bounds`."""
    net = traced(load_net(path).module, data)
    seen = look_at(net, data)
    only = ["stability", "norms", "paths"]
    table = measure(net, data, only=only, stability=options, spectra=False)
    facts = gather(net, data, seen, table, None, delta=_DELTA, epsilon=MARGIN_LEVEL)
    assert table.net.stability is not None
    stability = table.net.stability.to_json()  # what is infinite is None there
    rows = figure_two(facts, table.net.stability.effective_parameters)
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
            for row in (*rows, *size_and_lipschitz(facts)[:1])
        ],
    }


def net_name(workshop: Workshop) -> str:
    """The VGG-19 of this size, for titles: a narrow net on some images is not the paper's."""
    plan = VGG19[workshop.size]
    return "VGG-19" if plan.width == 1 else f"VGG-19 at {plan.width:g} of its width, {plan.data}"


def vgg19_settings(workshop: Workshop, *, sparse: bool = False) -> dict[str, Any]:
    """The VGG-19, and on how many examples its layers were seen."""
    look = LOOKS[workshop.size]
    seen = (look.sparse_examples, look.sparse_probes) if sparse else (look.examples, look.probes)
    found = {"net": VGG19[workshop.size].recipe, "changed": VGG19[workshop.size].changes()}
    dear = {"examples of interlayer quantities": seen[0], "probes": seen[1]}
    return found | dear | ({} if sparse else {"draws of noise": look.draws})


def alexnet_settings(workshop: Workshop) -> dict[str, Any]:
    """The two AlexNets."""
    true, shuffled = ALEXNETS[workshop.size]
    return {
        "nets": f"{true.recipe} and {shuffled.recipe}",
        "changed": true.changes(),
        "examples of interlayer quantities": LOOKS[workshop.size].sparse_examples,
    }


def trained_table(nets: Mapping[str, Mapping[str, Any]], papers: Mapping[str, float]) -> Table:
    """How well the nets learned, beside the paper's, whose training errors are all 0."""
    columns: Columns = {
        "net": "name",
        "examples": "m",
        "epochs": "epochs",
        "training error": training_error,
        "test error": held_out_error,
        "test error, paper": "paper",
    }
    rows = [{"name": name, "paper": papers[name], **net} for name, net in nets.items()]
    return Table.of("The nets:", rows, columns)


def vgg19_table(found: Mapping[str, Any]) -> Table:
    """How well the VGG-19 learned."""
    return trained_table({"VGG-19": found}, {"VGG-19": VGG19_TEST_ERROR})
