"""Settings that every test shares."""

from __future__ import annotations

import torch

# Several test processes share the cores: more threads each would only make them wait for one another.
torch.set_num_threads(1)
