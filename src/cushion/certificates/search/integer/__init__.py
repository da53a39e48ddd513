"""Integer nets in training: blueprints, straight-through weights, and the search for the smallest
bound.
"""
