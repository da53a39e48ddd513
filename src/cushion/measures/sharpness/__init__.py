"""Sharpness of a net's loss in its weights: largest in a box, and mean under Gaussian noise."""
