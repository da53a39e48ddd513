"""Norms of layers and their maps, path norms, spectra."""
