"""Sharpness of a net on a sample: Keskar's maximum, and the curve of expected sharpness over KL."""

from __future__ import annotations

from cushion.data import Dataset
from cushion.measures.sharpness.ascent import max_sharpness
from cushion.measures.sharpness.expected import expected_sharpness
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.sharpness.loss import all_losses
from cushion.measures.sharpness.records import Sharpness
from cushion.nets.network import Network


def measure_sharpness(
    net: Network, data: Dataset, options: SharpnessOptions | None = None, *, shared: bool = False
) -> Sharpness:
    """Both kinds (Neyshabur 2017, section 2.4), on all rows of `data` for the losses of w and of
    the ascent's end.

    `shared` draws weights for the expected sharpness, one ν for each mini-batch: slower, the same
    expectation. Neither the net nor the global random state is touched.
    """
    options = options or SharpnessOptions()
    clean = all_losses(net, data)
    return Sharpness(
        examples=len(data),
        parameters=net.parameters,
        seed=options.seed,
        maximum=max_sharpness(net, data, options, clean) if options.ascent_steps else None,
        expected=expected_sharpness(net, data, options, clean, shared=shared)
        if options.draws
        else None,
    )
