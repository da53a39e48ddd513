"""Laws fitted to a layer's weights and spectrum (Shin 2021; heavy-tailed self-regularisation)."""
