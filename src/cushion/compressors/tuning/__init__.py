"""Nets trained on the grids on which they are stored, for every method alike."""
