"""Rechecks certificate files from their bytes and the data, trusting nothing else.

Plain arrays in, a verdict out: the standard library, numpy and the format's decoder, no more.
`cushion.verify` is the same with names of data sets.
"""

from cushion.verifier.check import verify

__all__ = ["verify"]
