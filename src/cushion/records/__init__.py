"""The vocabulary that stages exchange: frozen records and options whose fields say what they are.

A field's meaning never changes once released. There are two kinds of number and they never mix:
records of kind "measure" are diagnostics ("relative, not a bound"); records of kind "certificate"
hold with a stated probability and can be rechecked by `cushion verify`.

Throughout, S is the sample (m labelled examples), x^i the pre-activation output of affine layer i,
φ the ReLU and everything else between two affine layers, A^i the weights of layer i.
"""

from cushion.records.options import Options, option
from cushion.records.record import Column, Distribution, Record, column, columns_of

__all__ = ["Column", "Distribution", "Options", "Record", "column", "columns_of", "option"]
