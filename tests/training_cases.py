"""The little sample, recipe and comparisons that the tests of training and of runs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets.loading.weights import read_tensors
from cushion.training.recipes import Recipe
from cushion.training.training import train

RICH = "1x6x6: conv4p1 bn relu drop0.2 flatten fc12 relu fc3"
RECIPE = Recipe("rich", "test", "", RICH, "", "adam", 1e-2, batch=16, epochs=4, augment=True)


def make_data(
    m: int = 90, seed: int = 0, shape: tuple[int, ...] = (1, 6, 6), name: str = "blobs"
) -> Dataset:
    """Three classes, told apart by which third of the pixels is bright."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, m)
    size = int(np.prod(shape))
    x = random.integers(0, 120, (m, size)) + 120 * (np.arange(size) * 3 // size == y[:, None])
    return Dataset(name, x.astype(np.uint8).reshape(m, *shape), y, 3)


def tensors_of(folder: Path, name: str = "net.safetensors") -> dict[str, torch.Tensor]:
    return read_tensors(folder / name)[0]


def assert_same_weights(a: Path, b: Path, name: str = "net.safetensors") -> None:
    first, second = tensors_of(a, name), tensors_of(b, name)
    assert first.keys() == second.keys()
    for key, tensor in first.items():
        assert torch.equal(tensor, second[key]), key


def refusal(*args: Any, **options: Any) -> str:
    with pytest.raises(BadInput) as caught:
        train(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)
