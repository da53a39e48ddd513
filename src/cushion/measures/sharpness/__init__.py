"""Sharpness of a net's loss in its weights: its maximum in a box and its mean under Gaussian
noise.
"""
