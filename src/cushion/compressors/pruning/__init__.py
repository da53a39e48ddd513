"""Guha 2023: pruning by magnitude, discretisation, sparse matrix sketching."""
