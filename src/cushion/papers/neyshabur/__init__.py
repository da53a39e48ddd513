"""Neyshabur 2017: Figures 1 to 8."""
