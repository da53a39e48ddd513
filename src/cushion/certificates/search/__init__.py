"""Searches for the classifier with the smallest certified bound."""
