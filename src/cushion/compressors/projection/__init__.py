"""The compressors of Arora 2018: few numbers on a grid, and a helper string from a seed."""
