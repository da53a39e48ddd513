"""Linear maps between feature maps, without bias: apply, adjoint, and the norms of the true map."""

from cushion.operators.conv2d import Conv2d
from cushion.operators.diagonal import Diagonal
from cushion.operators.linear import Linear
from cushion.operators.operator import Operator

__all__ = ["Conv2d", "Diagonal", "Linear", "Operator"]
