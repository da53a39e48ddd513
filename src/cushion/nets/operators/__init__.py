"""Linear maps between feature maps, without bias: apply, adjoint, and the norms of the true map."""

from cushion.nets.operators.conv2d import Conv2d
from cushion.nets.operators.convnd import ConvNd, convolution
from cushion.nets.operators.local_conv2d import LocalConv2d
from cushion.nets.operators.matrices import Diagonal, FlatMap, Linear
from cushion.nets.operators.operator import Operator
from cushion.nets.operators.positionwise import Positionwise

__all__ = [
    "Conv2d",
    "ConvNd",
    "Diagonal",
    "FlatMap",
    "Linear",
    "LocalConv2d",
    "Operator",
    "Positionwise",
    "convolution",
]
