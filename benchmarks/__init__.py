"""Ratios against bare loops and the hardware; `make bench` runs them all."""
