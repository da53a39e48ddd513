"""Nets: loaded, traced, evaluated, linearised, perturbed."""
