"""The nets that several benchmarks share."""

from __future__ import annotations

W1 = "1x28x28: flatten fc784 relu fc784 relu fc784 relu fc784 relu fc10"
W2 = (
    "3x32x32: 2*[conv64k3p1 relu] maxpool2 2*[conv128k3p1 relu] maxpool2 2*[conv256k3p1 relu] "
    "maxpool2 2*[conv512k3p1 relu] maxpool2 flatten fc512 relu fc10"
)
