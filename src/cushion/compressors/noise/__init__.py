"""Heavy-tailed weights: all but the large ones replaced by noise from a seed (Shin 2021)."""
