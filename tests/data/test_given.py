"""The one way in: every kind of data that people have gives the same rows, or a sentence."""

from __future__ import annotations

import random
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.utils import Bunch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data import Dataset as TorchDataset

import cushion
from cushion.data import Dataset, as_dataset, load, load_pair
from cushion.errors import BadInput

M = 70
X = np.random.default_rng(0).random((M, 3), dtype=np.float32)
Y = np.arange(M) % 3
NAMED = Dataset("named", X, Y, 3)
OBJECTS = np.empty(M, object)
OBJECTS[:] = list(X)


class Rows(TorchDataset):  # type: ignore[type-arg]
    """A map-style dataset whose items a function makes."""

    def __init__(self, item: Any, m: int = M) -> None:
        self.item, self.m, self.reads = item, m, 0

    def __len__(self) -> int:
        return self.m

    def __getitem__(self, row: int) -> Any:
        self.reads += 1
        return self.item(row)


def tensors() -> TensorDataset:
    return TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))


def frame() -> pd.DataFrame:
    return pd.DataFrame({"a": X[:, 0], "label": Y, "b": X[:, 1], "c": X[:, 2]})


def padded(items: list[Any]) -> dict[str, Any]:
    return {
        "x": torch.stack([torch.as_tensor(x) for x, _ in items]),
        "labels": torch.tensor([int(y) for _, y in items]),
    }


KINDS = {
    "a Dataset": lambda: NAMED,
    "arrays": lambda: (X, Y),
    "a list of two": lambda: [X, Y.tolist()],
    "tensors": lambda: (torch.from_numpy(X), torch.from_numpy(Y)),
    "a tensor with a gradient": lambda: (torch.tensor(X, requires_grad=True), Y),
    "bfloat16": lambda: (torch.from_numpy(X).bfloat16(), Y),
    "float64": lambda: (X.astype(np.float64), Y),
    "TensorDataset": tensors,
    "DataLoader": lambda: DataLoader(tensors(), batch_size=8),
    "a DataLoader without batches": lambda: DataLoader(tensors(), batch_size=None),
    "Subset": lambda: Subset(tensors(), range(M)),
    "rows of arrays": lambda: Rows(lambda row: (X[row], Y[row])),
    "rows of tensors": lambda: Rows(lambda row: (torch.from_numpy(X[row]), int(Y[row]))),
    "rows of dicts": lambda: Rows(lambda row: {"x": X[row], "label": Y[row]}),
    "a DataLoader that collates": lambda: DataLoader(tensors(), 8, collate_fn=padded),
    "a list of rows": lambda: [(X[row], Y[row]) for row in range(M)],
    "DataFrame": frame,
    "a frame and a series": lambda: (frame().drop(columns="label"), frame()["label"]),
    "Bunch": lambda: Bunch(data=X, target=Y),
    "a dict of arrays": lambda: {"x": X, "labels": Y},
    "a dict of sets": lambda: {"train": (X, Y), "test": (X, Y)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_rows_in_order(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = as_dataset(KINDS[kind]())
    expected = torch.from_numpy(X).bfloat16().float().numpy() if kind == "bfloat16" else X
    assert np.array_equal(found.x, expected)
    assert found.x.dtype == np.float32
    assert np.array_equal(found.y, Y)
    assert found.y.dtype == np.int64
    assert found.classes == 3
    assert found.notes == ()
    if kind != "bfloat16":
        assert found.fingerprint == NAMED.fingerprint


def test_two_arguments_make_a_dataset() -> None:
    found = Dataset(X, Y)
    assert (found.name, found.classes, found.fingerprint) == ("data", 3, NAMED.fingerprint)
    assert Dataset(X, Y, name="mine", classes=7).classes == 7
    assert Dataset(x=X, y=Y).name == "data"
    assert Dataset(x=X, y=Y, classes=7).classes == 7
    assert Dataset(name="n", x=X, y=Y, classes=3, history=("h",)).history == ("h",)
    for bad in ((X,), (X, Y, 3), ("n", X, Y)):
        with pytest.raises(TypeError):
            Dataset(*bad)  # type: ignore[arg-type, call-overload]
    with pytest.raises(TypeError):
        Dataset(X, Y, x=X)  # type: ignore[call-overload]


def test_a_name_is_its_sample_and_a_pair_has_a_held_out_part() -> None:
    assert as_dataset("digits").fingerprint == load("digits").fingerprint
    assert as_dataset(NAMED) is NAMED
    assert load_pair((X, Y))[1] is None
    sample, held_out = load_pair({"train": (X[:50], Y[:50]), "validation": (X[50:], Y[50:])})
    assert held_out is not None
    assert (len(sample), len(held_out)) == (50, 20)


def test_tokens_and_named_inputs() -> None:
    ids = np.arange(12).reshape(4, 3)
    assert as_dataset((ids, [0, 1, 0, 1])).x.dtype == np.int64
    assert as_dataset((ids.astype(np.int32), [0, 1, 0, 1])).x.dtype == np.int64
    both = {"input_ids": ids, "attention_mask": torch.ones(4, 3, dtype=torch.int64)}
    found = as_dataset((both, [0, 1, 0, 1]))
    assert found.x.shape == (4,)
    assert (found.shape, found.fields) == ((), {"input_ids": (3,), "attention_mask": (3,)})
    assert np.array_equal(found.x["input_ids"], ids)
    items = [{**{k: v[row] for k, v in both.items()}, "labels": row % 2} for row in range(4)]
    for same in (items, {**both, "label": [0, 1, 0, 1]}, DataLoader(items), found):  # type: ignore[arg-type]
        assert as_dataset(same).fingerprint == found.fingerprint
    other = as_dataset(({"ids": ids, "attention_mask": np.ones((4, 3), int)}, [0, 1, 0, 1]))
    assert other.fingerprint != found.fingerprint, "names are part of what they are"
    assert found.select(np.array([2, 0]), "two").x["input_ids"].tolist() == [[6, 7, 8], [0, 1, 2]]
    with pytest.raises(BadInput, match="ids has 4, mask has 3 rows"):
        as_dataset(({"ids": ids, "mask": ids[:3]}, [0, 1, 0, 1]))
    with pytest.raises(BadInput, match="NaN"):
        as_dataset(({"ids": ids, "w": np.full(4, np.nan, np.float32)}, [0, 1, 0, 1]))


def test_transforms_run_once_and_random_numbers_are_left_alone() -> None:
    rows = Rows(lambda row: (X[row], Y[row]))
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    as_dataset(rows)
    assert M < rows.reads <= M + 64
    noisy = Rows(
        lambda row: (X[row] * (float(torch.rand(())) + random.random() + np.random.rand()), 0)
    )
    with pytest.raises(BadInput):
        as_dataset(noisy)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_random_augmentation_is_refused_with_what_to_pass() -> None:
    def flip(row: int) -> Any:
        return (torch.from_numpy(X[row]).flip(0) if torch.rand(()) < 0.5 else X[row]), Y[row]

    sentence = "two reads of row .* of this Rows differ; pass the dataset without random transforms"
    for data in (Rows(flip), DataLoader(Rows(flip)), DataLoader(Rows(flip), 8, collate_fn=padded)):
        with pytest.raises(BadInput, match=sentence):
            as_dataset(data)
    with pytest.raises(BadInput, match="two reads"):
        as_dataset(Rows(lambda row: (X[row], random.randrange(10**6))))


def test_shuffling_is_ignored_and_said() -> None:
    with pytest.warns(UserWarning, match="shuffling is ignored: rows are taken in index order"):
        found = as_dataset(DataLoader(tensors(), batch_size=16, shuffle=True))
    assert found.fingerprint == NAMED.fingerprint
    assert found.notes == ("the DataLoader's shuffling is ignored: rows are taken in index order",)


class OwnBatches(BatchSampler):
    def __iter__(self) -> Any:
        return iter([[0, 0], [0, 0]])


class Odd(Sampler):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter(range(1, M, 2))


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (WeightedRandomSampler([1.0] * M, M), "WeightedRandomSampler draws rows with weights"),
        (RandomSampler(range(M), replacement=True), "RandomSampler draws some rows several times"),
        (RandomSampler(range(M), num_samples=9), "RandomSampler draws some rows several times"),
        (SubsetRandomSampler(range(9)), "SubsetRandomSampler decides itself"),
        (SequentialSampler(range(5)), "SequentialSampler draws other rows than those of its"),
        (RandomSampler(range(2 * M), num_samples=M), "RandomSampler draws some rows several times"),
        (Odd(), "Odd decides itself which rows are drawn"),
    ],
)
def test_other_samplers_are_refused_with_what_to_pass(sampler: Any, words: str) -> None:
    with pytest.raises(BadInput, match=f"this DataLoader's {words}.*; pass its dataset, or"):
        as_dataset(DataLoader(tensors(), sampler=sampler))
    with pytest.raises(BadInput, match="decides itself which rows"):
        as_dataset(DataLoader(tensors(), batch_sampler=[[0, 1], [1, 2]]))
    own = OwnBatches(SequentialSampler(range(M)), 4, False)
    with pytest.raises(BadInput, match="OwnBatches decides itself which rows"):
        as_dataset(DataLoader(tensors(), batch_sampler=own))


def default_collate(rows: list[Any]) -> Any:
    """Torch's in name only."""
    return torch.stack([x + 1 for x, _ in rows]), torch.stack([y for _, y in rows])


def test_a_collate_function_is_known_by_itself_and_not_by_its_name() -> None:
    found = as_dataset(DataLoader(tensors(), batch_size=16, collate_fn=default_collate))
    assert np.array_equal(found.x, X + 1)


CIRCLE: dict[str, Any] = {}
CIRCLE["train"] = CIRCLE


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter([(X[0], 0)])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (Stream(), "this Stream has no length"),
        (DataLoader(Stream()), "reads a stream, which has no rows by index"),
        (Rows(lambda row: X[row]), "not \\(x, y\\)"),
        (Rows(lambda row: (X[row], 1, 2)), "is 3 parts and not \\(x, y\\)"),
        (Rows(lambda row: {"x": X[row]}), "no column called label, labels, y, target or class"),
        (Rows(lambda row: (X[row][: 2 + row % 2], 0)), "row 1 of this Rows is float32 \\(3,\\)"),
        (Rows(lambda row: (X[row], 0), m=0), "this Rows is empty"),
        (TensorDataset(torch.zeros(3, 2)), "holds 1 tensors and not two"),
        (torch.nn.Linear(2, 2), "data are a net"),
        (torch.nn.Sequential(), "data are a net"),
        (X, "data must be a Dataset, its name or path, .*, not ndarray"),
        ((X, Y, X), "not 3 parts"),
        (7, "not int"),
        (None, "not NoneType"),
        ((X, Y[:5]), "x has 70 rows but y has 5"),
        (([[1.0], [1.0, 2.0]], [0, 1]), "examples of different shapes"),
        ((X.astype(object), Y), r"x is an object array .of float.; convert it with x.astype"),
        ((OBJECTS, Y), r"x is an object array of arrays; convert it with np\.stack\(x\)"),
        ((torch.zeros(2, 2).to_sparse(), [0, 1]), "give a dense tensor"),
        (Bunch(data=X), "not both data and target"),
        (frame().rename(columns={"label": "kind"}), "\\(a, kind, b, c\\)"),
        (frame().assign(target=0), "several columns that may be labels \\(label, target\\)"),
        (frame().assign(b="text", c=pd.NaT), "columns b, c hold no numbers"),
        (frame().assign(b=pd.Timestamp(0)), "columns b hold no numbers; drop them"),
        (frame().assign(b=pd.Timedelta(1), c=1j), "columns b, c hold no numbers; drop them"),
        (
            Rows(lambda row: {"xz"[row % 2]: X[row], "label": 0}),
            "row 1 of this Rows has label, z and the first one label, x; give all rows the same",
        ),
        (Rows(lambda row: (X[row], [1, "a"][row % 2])), "y mixes text and numbers"),
        ((np.ma.masked_array(X, X > 0), Y), "x is a masked array; fill its masked values"),
        ((torch.zeros(2, 2, device="meta"), [0, 1]), "is a tensor without values \\(meta\\)"),
        (Rows(lambda row: (X[row], 0), m=-1), "this Rows has no length"),
        (CIRCLE, "part called train has such a part again; give one set"),
    ],
)
def test_everything_else_gets_a_sentence(data: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        as_dataset(data)
    assert "\n" not in str(caught.value)


def test_a_label_column_can_be_named() -> None:
    table = frame().rename(columns={"label": "kind"})
    assert as_dataset(table, label_column="kind").fingerprint == NAMED.fingerprint
    with pytest.raises(BadInput, match="`label_column` = label is not a column of this DataFrame"):
        as_dataset(table, label_column="label")
    assert as_dataset(frame().assign(target=0.0), label_column="label").shape == (4,)


def test_scikit_learns_bunch_as_a_frame_and_as_arrays() -> None:
    plain, framed = load_iris(), load_iris(as_frame=True)
    with pytest.warns(UserWarning, match="x was float64 and is rounded to float32"):
        found = as_dataset(plain)
    assert (found.shape, found.classes, len(found)) == ((4,), 3, 150)
    with pytest.warns(UserWarning, match="rounded"):
        assert as_dataset(framed).fingerprint == found.fingerprint
    with pytest.warns(UserWarning, match="rounded"):
        assert as_dataset(framed.frame).fingerprint == found.fingerprint


def test_pictures_become_channels_first() -> None:
    from PIL import Image

    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    found = as_dataset(Rows(lambda row: (Image.fromarray(pixels), row % 2), m=4))
    assert np.array_equal(found.x[3], pixels.transpose(2, 0, 1))
    with pytest.raises(BadInput, match="picture of mode 1; convert"):
        as_dataset(Rows(lambda row: (Image.new("1", (2, 2)), 0), m=2))


class Table:
    """The part of datasets.Dataset that is asked for."""

    def __init__(self, columns: dict[str, Any], features: dict[str, Any]) -> None:
        self.columns, self.features, self.format = columns, features, {"type": None}

    def select_columns(self, names: list[str]) -> Table:
        return Table({name: self.columns[name] for name in names}, self.features)

    def with_format(self, kind: str) -> Table:
        assert kind == "numpy"
        return self

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, at: Any) -> Any:
        return {name: column[at] for name, column in self.columns.items()}


Table.__name__, Table.__module__ = "Dataset", "datasets.arrow_dataset"
ClassLabel = type("ClassLabel", (SimpleNamespace,), {})


def value(kind: str) -> SimpleNamespace:
    return SimpleNamespace(dtype=kind)


def test_hugging_faces_dataset() -> None:
    ids, text = np.arange(1500 * 2).reshape(1500, 2), np.array(["a"] * 1500, object)
    y = np.arange(1500) % 2
    kinds = {"text": value("string"), "idx": value("int32"), "input_ids": value("list")}
    columns = {"text": text, "idx": y, "input_ids": ids, "attention_mask": ids, "stars": y}
    features = {**kinds, "attention_mask": value("list"), "stars": ClassLabel(dtype="int64")}
    with pytest.warns(UserWarning, match="left out: (text|idx)"):
        found = as_dataset(Table(columns, features))
    assert found.fields == {"input_ids": (2,), "attention_mask": (2,)}
    assert np.array_equal(found.x["input_ids"], ids)
    assert np.array_equal(found.y, y)
    numbers = {"a": ids[:, 0], "b": ids[:, 1], "label": y}
    table = as_dataset(Table(numbers, dict.fromkeys(numbers, value("int64"))))
    assert (table.shape, table.x.dtype) == ((2,), np.float32)
    ragged = {"ids": np.array([[1], [1, 2]], object), "label": y[:2]}
    with pytest.raises(BadInput, match="column ids has rows of different lengths; pad them"):
        as_dataset(Table(ragged, dict.fromkeys(ragged, value("list"))))
    with pytest.raises(BadInput, match="only columns of text beside label"):
        as_dataset(Table({"text": text, "label": y}, {"text": value("string"), "label": value("")}))


def test_held_out_columns_are_read_by_their_names() -> None:
    sample = as_dataset(frame())
    assert sample.columns == ("a", "b", "c")
    backwards = frame()[frame().columns[::-1]]
    x = backwards.drop(columns="label")
    for held in (backwards, as_dataset(backwards), (x, Y), Dataset(x, Y)):
        found = as_dataset(held, like=sample)
        assert np.array_equal(found.x, X)
        assert found.columns == sample.columns
    assert np.array_equal(as_dataset((X[:, ::-1], Y), like=sample).x, X[:, ::-1]), "no names"
    for other, odd in (
        (frame().rename(columns={"b": "d"}), "b, d differ"),
        (frame().drop(columns="b"), "b differ"),
    ):
        with pytest.raises(BadInput, match=f"columns are not those of the sample .{odd}"):
            as_dataset(other, like=sample)
    assert sample.select(np.arange(3), "three").columns == sample.columns


def test_rows_that_pandas_calls_by_other_names_are_refused() -> None:
    x, y = frame().drop(columns="label"), frame()["label"]
    other = "x and y have different row indexes; give y.loc"
    for pair in ((x[::-1], y), (x, y[::-1]), (x[10:20], y[20:30].to_frame())):
        with pytest.raises(BadInput, match=other):
            as_dataset(pair)
    with pytest.raises(BadInput, match=other):
        as_dataset(Bunch(data=x[::-1], target=y))
    with pytest.raises(BadInput, match=other):
        Dataset(x[::-1], y)
    assert np.array_equal(as_dataset((x[::-1], y[::-1])).y, Y[::-1])
    assert np.array_equal(as_dataset((x[10:].reset_index(drop=True), y[10:])).x, X[10:])


def test_a_table_without_a_label_says_what_to_type() -> None:
    wide = pd.DataFrame(np.zeros((4, 20)), columns=[f"p{at}" for at in range(20)]).assign(digit=0)
    with pytest.raises(BadInput, match=r"p9, ..., digit.; say which one it is: ") as caught:
        as_dataset(wide)
    code = str(caught.value).rpartition(": ")[2]
    assert code == "cushion.as_dataset(data, label_column='digit')"
    found = eval(code, {"cushion": cushion, "data": wide})
    assert found.columns == tuple(f"p{at}" for at in range(20))


class Transformed(Table):
    """datasets.Dataset behind set_transform: its features stay, its rows are what that makes."""

    def __init__(self, columns: dict[str, Any], features: dict[str, Any], make: Any) -> None:
        super().__init__(columns, features)
        self.make, self.format = make, {"type": "custom"}

    def __getitem__(self, at: Any) -> Any:
        row = {name: [column[at]] for name, column in self.columns.items()}
        return {name: made[0] for name, made in self.make(row).items()}


Transformed.__name__, Transformed.__module__ = "Dataset", "datasets.arrow_dataset"


@pytest.mark.parametrize("label", ["label", "labels", "fine"])
@pytest.mark.parametrize("kind", [ClassLabel(dtype="int64"), value("int64")], ids=["class", "int"])
def test_a_transform_may_rename_the_label(label: str, kind: Any) -> None:
    columns = {"image": X, "fine": Y}

    def make(batch: dict[str, Any]) -> dict[str, Any]:
        return {"pixel_values": [torch.from_numpy(x) for x in batch["image"]], label: batch["fine"]}

    data = Transformed(columns, {"image": value("list"), "fine": kind}, make)
    if label == "fine" and kind.__class__ is not ClassLabel:
        with pytest.raises(BadInput, match=r"pixel_values, fine.*label_column='fine'"):
            as_dataset(data)
        assert as_dataset(data, label_column="fine").fingerprint == NAMED.fingerprint
    else:
        assert as_dataset(data).fingerprint == NAMED.fingerprint
