"""Shin 2021: Figures 1 to 3, Table 1, Propositions 1.1 and 1.2 by simulation."""
