"""Generalization bounds of the literature as formulas over numbers: what a theorem needs to know of
a net, and what it says. Each file is one line of argument; docs/bounds.md derives every constant.
No torch.

Huge values are the rule, so everything is computed in natural logarithms.
"""
