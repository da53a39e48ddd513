"""Linear maps between feature maps, without bias: apply, adjoint, and the norms of the true map."""

from cushion.operators.conv2d import Conv2d
from cushion.operators.diagonal import Diagonal
from cushion.operators.flat_map import FlatMap
from cushion.operators.linear import Linear
from cushion.operators.local_conv2d import LocalConv2d
from cushion.operators.operator import Operator

__all__ = ["Conv2d", "Diagonal", "FlatMap", "Linear", "LocalConv2d", "Operator"]
