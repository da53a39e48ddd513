"""Settings that every test shares."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch  # after the line above, which torch reads when it is loaded

# Several test processes share the cores: more threads each would only make them wait for one
# another.
torch.set_num_threads(1)
