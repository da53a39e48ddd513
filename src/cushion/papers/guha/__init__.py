"""Guha 2023: Tables 1 and 2, Figures 1 and 2, Theorem 5.1's sketch, Theorem 6.1's tickets."""
