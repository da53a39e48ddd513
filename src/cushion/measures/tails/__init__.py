"""Laws fitted to the weights of a layer and to its spectrum (Shin 2021; heavy-tailed
self-regularisation).
"""
