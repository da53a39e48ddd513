"""Compressors: from a trained net or a sample to a small description of a classifier."""
