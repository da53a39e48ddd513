"""The operations of a net, one file each; a line here makes one known."""

from cushion.nets.operations.add import Add as Add
from cushion.nets.operations.affine import Affine as Affine
from cushion.nets.operations.avg_pools import AdaptiveAvgPool as AdaptiveAvgPool
from cushion.nets.operations.avg_pools import AvgPool as AvgPool
from cushion.nets.operations.batch_norm import batch_norm as batch_norm
from cushion.nets.operations.cat import Cat as Cat
from cushion.nets.operations.conv2d import conv2d as conv2d
from cushion.nets.operations.identity import unchanged as unchanged
from cushion.nets.operations.input import Input as Input
from cushion.nets.operations.linear import linear as linear
from cushion.nets.operations.max_pools import AdaptiveMaxPool as AdaptiveMaxPool
from cushion.nets.operations.max_pools import MaxPool as MaxPool
from cushion.nets.operations.operation import Operation as Operation
from cushion.nets.operations.pooling import Pool as Pool
from cushion.nets.operations.relu import ReLU as ReLU
from cushion.nets.operations.reshapes import Flatten as Flatten
from cushion.nets.operations.reshapes import Unflatten as Unflatten
