"""Diagnostics of a net on a sample. Each is a measure: relative, not a bound."""
