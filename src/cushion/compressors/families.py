"""The families of compressors, a line each: importing this module registers the kinds of layers
that they store, so that every file can be read.
"""

from cushion.compressors.noise import spiked  # noqa: F401
from cushion.compressors.projection import conv_project, products, stored_vectors  # noqa: F401
from cushion.compressors.pruning import sketched  # noqa: F401
