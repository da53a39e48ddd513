"""Arora 2018: Figures 1 and 2, Table 1, Figures A.1 to A.7."""
