"""Guha 2023: Tables 1 and 2, Figures 1 and 2, the sketch of Theorem 5.1, the tickets of Theorem
6.1.
"""
