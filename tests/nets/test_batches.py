"""What a net reads: pixels become floats in 0..1, tokens stay whole, named parts become a dict."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cushion.nets.batches import as_batch


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_plain_rows_become_one_tensor_that_shares_nothing(dtype: type) -> None:
    x = np.arange(6, dtype=dtype).reshape(3, 2)
    batch = as_batch(x)
    assert isinstance(batch, torch.Tensor)
    expected = torch.arange(6.0).reshape(3, 2) / (255 if dtype is np.uint8 else 1)
    assert torch.allclose(batch.float(), expected)
    assert batch.dtype == (torch.int64 if dtype is np.int64 else torch.float32)
    batch.zero_()
    assert x.max() == 5


def test_a_structured_array_becomes_a_tensor_for_each_field() -> None:
    x = np.zeros(3, [("pixels", np.uint8, (3,)), ("ids", np.int64, (2,)), ("weight", np.float32)])
    x["pixels"], x["ids"], x["weight"] = 51, [[7, 8], [9, 10], [11, 12]], [1, 2, 3]
    x.flags.writeable = False
    batch = as_batch(x[1:])
    assert isinstance(batch, dict)
    assert list(batch) == ["pixels", "ids", "weight"]
    assert torch.equal(batch["pixels"], torch.full((2, 3), 51).float().div(255))
    assert torch.equal(batch["ids"], torch.tensor([[9, 10], [11, 12]]))
    assert torch.equal(batch["weight"], torch.tensor([2.0, 3.0]))
