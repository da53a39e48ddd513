"""What `cushion measure` answers: one row per affine layer, and the whole net; no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cushion.errors import BadInput
from cushion.measures.families import FAMILIES
from cushion.measures.family import PaperClaim, composed
from cushion.records import Record, column

MEASURE_NOTE = "measure: relative, not a bound"
_SHAPES = ("shape", "input_shape", "output_shape")


class _Row(Record):
    """Own columns, and those of the families."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A column of one of the families."""


@composed(family.layer for family in FAMILIES)
class LayerMeasures(_Row):
    """One affine layer, in the order in which data passes them, with every family's columns."""

    name: str = column("the layer, as the net calls it", label="layer")
    kind: str = column(
        "linear, conv2d, batchnorm (one that no affine layer precedes); conv2d kernel: the weight "
        "as a matrix with a row a filter, where the size of the input is not known"
    )
    shape: tuple[int, ...] = column("of the weight")
    input_shape: tuple[int, ...] = column("of what the layer reads")
    output_shape: tuple[int, ...] = column("of what the layer puts out")
    parameters: int = column("weights and biases")

    @property
    def is_kernel(self) -> bool:
        """Whether the row is about a convolution's kernel and not about the map that it is."""
        return self.kind.endswith(" kernel")

    def flat(self) -> dict[str, Any]:
        """One row of a DataFrame: values, and medians where there are any; records without a value
        are tables of their own and left out, but for what their families lay flat.
        """
        row = self.to_json()
        for key, value in list(row.items()):
            if isinstance(value, dict) and "value" in value:
                row[key] = value["value"]
                if "quantiles" in value:
                    row[f"{key}_median"] = value["quantiles"]["0.5"]
            elif isinstance(value, dict | list) and key not in _SHAPES:
                del row[key]
        for family in FAMILIES:
            row |= getattr(family.layer, "flat_columns", lambda _: {})(self)
        return row


@composed(family.net for family in FAMILIES)
class NetMeasures(_Row):
    """The whole net on S, and every family's columns."""

    m: int = column("examples in S; 0 where there are no data")
    classes: int = column("scores of the net; 0 where it did not run")
    parameters: int = column("weights and biases, batch-norms folded")
    depth: int = column("affine layers")
    is_chain: bool = column("whether each layer reads the one before it alone")
    not_a_chain_because: str = column("why it is not")
    data: str = column("name of S")
    data_fingerprint: str = column("SHA-256 of S")
    way: str = column(
        "how the net was seen: by its trace, by hooks, by its weights, by its answers"
    )
    not_seen: tuple[str, ...] = column(
        "layers that hooks left out: they do something else than their kind", default=()
    )
    apart: tuple[str, ...] = column(
        "layers whose first axis does not count the examples: hooks have their norms, no cushions",
        default=(),
    )


class LeftOut(Record):
    """A family that was asked for among all and is not in the table."""

    family: str = column("its name")
    why: str = column("what it needs that the net does not give")


class MeasureTable(Record):
    """Everything `cushion measure` computed: one row per affine layer, and the whole net.

    `beside` is the same table of the net's initialisation, or of random weights, scaled to match;
    on demand. `claims` are then what papers say of trained nets, checked on this one. `left_out`
    are families that cannot see this net, or that an interrupt cut short.
    """

    layers: tuple[LayerMeasures, ...]
    net: NetMeasures
    kind: Literal["measure"] = "measure"
    note: str = MEASURE_NOTE
    beside: MeasureTable | None = None
    claims: tuple[PaperClaim, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def to_frame(self) -> Any:
        """The layer table as a pandas DataFrame (needs `pip install cushion[frames]`)."""
        try:
            import pandas
        except ImportError:
            how = "install it with: pip install 'cushion[frames]'"
            raise BadInput(f"to_frame needs pandas; {how}") from None
        return pandas.DataFrame([layer.flat() for layer in self.layers]).set_index("name")
