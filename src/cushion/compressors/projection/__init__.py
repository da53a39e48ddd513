"""The compressors of Arora 2018: from a trained net to few numbers on a grid and a helper string
made from a seed.
"""

STORES = (
    "conv_project",
    "products",
    "stored_vectors",
    "matrix_project",
)  # modules with kinds of stored layers
