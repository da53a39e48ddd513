"""The operations of a net, one file for each kind of layer; a line here makes one known."""

from cushion.nets.operations import constants as constants
from cushion.nets.operations.affine import Affine as Affine
from cushion.nets.operations.elementwise import ELU as ELU
from cushion.nets.operations.elementwise import Clipped as Clipped
from cushion.nets.operations.elementwise import Curve as Curve
from cushion.nets.operations.elementwise import LeakyReLU as LeakyReLU
from cushion.nets.operations.joins import Add as Add
from cushion.nets.operations.joins import Cat as Cat
from cushion.nets.operations.operation import Operation as Operation
from cushion.nets.operations.pools import AdaptiveAvgPool as AdaptiveAvgPool
from cushion.nets.operations.pools import AdaptiveMaxPool as AdaptiveMaxPool
from cushion.nets.operations.pools import AvgPool as AvgPool
from cushion.nets.operations.pools import MaxPool as MaxPool
from cushion.nets.operations.selections import Nearest as Nearest
from cushion.nets.operations.selections import Pad as Pad
from cushion.nets.operations.selections import Permute as Permute
from cushion.nets.operations.selections import Slice as Slice
from cushion.nets.operations.unitwise import Flatten as Flatten
from cushion.nets.operations.unitwise import Input as Input
from cushion.nets.operations.unitwise import ReLU as ReLU
from cushion.nets.operations.unitwise import Unflatten as Unflatten
