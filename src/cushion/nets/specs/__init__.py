"""Nets as text: the grammar, the layers and shapes behind it, and other versions of a net."""

from cushion.nets.specs.grammar import parse
from cushion.nets.specs.layers import Initialisation, Shape, Spec, write_shape
from cushion.nets.specs.scaling import fit_data, scale_width

__all__ = ["Initialisation", "Shape", "Spec", "fit_data", "parse", "scale_width", "write_shape"]
