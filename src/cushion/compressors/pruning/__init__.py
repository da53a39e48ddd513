"""Guha 2023: pruning by magnitude, discretisation, sparse matrix sketching."""

STORES = ("sketched",)  # modules with kinds of stored layers
