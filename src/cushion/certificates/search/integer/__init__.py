"""Integer nets in training, and the search for the smallest bound."""
