"""Whatever a person calls their classifier becomes rows of class scores, and stays as it was."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor, fx, nn

import cushion
from cushion.certificates.answers import answer, fingerprint_net, score
from cushion.errors import BadInput, Remark, Unsupported
from cushion.nets.calling import call, evaluating, place, precision, suited
from cushion.nets.classifier import Logits, answers_only, as_module, kind_of, normalised, remarks
from cushion.nets.fitted import Fitted
from cushion.nets.tracing import trace

ROWS = torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
X = np.random.default_rng(0).random((40, 1, 4, 4), dtype=np.float32)


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


class Returns(nn.Module):
    """A net whose forward gives its scores in some dress."""

    def __init__(self, dress: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.net, self.dress = plain(), dress

    def forward(self, x: Tensor) -> Any:
        return self.dress(self.net(x))


@dataclass
class Output:
    loss: Tensor | None
    logits: Tensor
    hidden: Tensor


class ModelOutput(OrderedDict):  # type: ignore[type-arg]
    """As Hugging Face returns it: a dict whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


@pytest.mark.parametrize(
    "dress",
    [
        lambda z: {"logits": z, "hidden": z * 2},
        lambda z: {"aux": z.sum(), "whatever": z},
        lambda z: (z, z[:, :, None].expand(-1, -1, 5)),
        lambda z: [z],
        lambda z: Output(None, z, z * 2),
        lambda z: ModelOutput(logits=z, pooled=z * 2),
        lambda z: z[:, :, None, None],
    ],
)
def test_the_scores_are_found_in_whatever_the_net_returns(dress: Callable[[Tensor], Any]) -> None:
    module = as_module(Returns(dress), ROWS)
    assert torch.equal(module(ROWS), plain()(ROWS))
    assert torch.equal(fx.symbolic_trace(module)(ROWS), plain()(ROWS))


@pytest.mark.parametrize("dress", [lambda z: z[:, 0], lambda z: z[:, :1]])
def test_one_number_an_example_stands_for_two_classes(dress: Callable[[Tensor], Any]) -> None:
    module = as_module(Returns(dress), ROWS)
    z = plain()(ROWS)[:, 0]
    assert torch.equal(module(ROWS), torch.stack([torch.zeros(2), z], dim=1))
    assert "(0, z)" in remarks(module(ROWS), module)[0]


def test_a_probability_is_told_from_a_logit() -> None:
    module = as_module(Returns(lambda z: torch.sigmoid(z[:, 0])), ROWS)
    p = torch.sigmoid(plain()(ROWS)[:, 0])
    assert torch.equal(module(ROWS), torch.stack([1 - p, p], dim=1))
    assert "(1 - p, p)" in remarks(module(ROWS), module)[0]
    # scores that happen to lie between 0 and 1 on the data
    shy = as_module(Returns(lambda z: 0.5 + 0.001 * z[:, 0]), ROWS)
    assert torch.equal(shy(ROWS)[:, 0], torch.zeros(2))
    assert "every answer is class 1" in remarks(shy(ROWS), shy)[0]
    bounded = as_module(Returns(lambda z: torch.tanh(z[:, 0])), ROWS)
    assert torch.equal(bounded(ROWS)[:, 0], torch.zeros(2))


def test_features_beside_scores_are_told_apart_by_the_number_of_classes() -> None:
    net = Returns(lambda z: (torch.cat([z, z], dim=1), z))
    with pytest.raises(
        BadInput, match=r"2 tensors that may be class scores \(\[2, 6\], \[2, 3\]\)"
    ):
        as_module(net, ROWS)
    assert torch.equal(as_module(net, ROWS, classes=3)(ROWS), plain()(ROWS))


@pytest.mark.parametrize(
    ("dress", "words"),
    [
        (lambda z: z[:, None].expand(-1, 5, -1), r"returned \[2, 5, 3\].*pool over the positions"),
        (lambda z: {"pooler_output": z}, r"pooler_output \[2, 3\].*its classifying head"),
        (lambda z: z.sum(0), "keep an example a row"),
        (lambda z: z.argmax(1), "returned Tensor without such a tensor"),
        (lambda z: 3, "returned int"),
    ],
)
def test_what_is_no_row_of_scores_is_refused(dress: Callable[[Tensor], Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        as_module(Returns(dress), ROWS)


def test_a_plain_net_comes_back_as_it_is_and_so_does_what_a_wrapper_holds() -> None:
    net = plain()
    for given in (net, nn.DataParallel(net), torch.compile(net, backend="eager")):
        assert as_module(given, ROWS) is net
        assert as_module(given) is net
        assert fingerprint_net(given) == fingerprint_net(net)


def test_wrapping_changes_neither_the_net_nor_its_fingerprint() -> None:
    net = Returns(lambda z: {"logits": z})
    net.net[1].eval()
    modes, state = [m.training for m in net.modules()], torch.random.get_rng_state()
    module = as_module(net, ROWS)
    assert isinstance(module, Logits)
    assert module.inner is net
    with evaluating(module):
        assert not any(m.training for m in net.modules())
    assert [m.training for m in net.modules()] == modes
    assert torch.equal(torch.random.get_rng_state(), state)
    assert fingerprint_net(module) == fingerprint_net(net)
    assert score(net, X).shape == (40, 3)


def test_torchs_random_state_stays_even_where_a_net_draws() -> None:
    draws = Returns(lambda z: z + 1e-9 * torch.rand_like(z))
    state = torch.random.get_rng_state()
    as_module(draws, ROWS)
    score(draws, X)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_nets_of_every_precision_answer_in_their_own(dtype: torch.dtype) -> None:
    net = plain().to(dtype)
    found = score(net, X)
    with torch.no_grad():
        expected = net(torch.from_numpy(X).to(dtype))
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.equal(found, expected.to(found.dtype))
    assert all(p.dtype == dtype for p in net.parameters())


def test_a_batch_goes_where_the_net_is() -> None:
    away = plain().double().to("meta")  # the only other device that every machine has
    assert (place(away).type, precision(away)) == ("meta", torch.float64)
    moved = suited(away, ROWS)
    assert (moved.device.type, moved.dtype) == ("meta", torch.float64)
    assert call(away, ROWS).shape == (2, 3)
    tokens = suited(away, torch.zeros(2, 3).long())
    assert (tokens.device.type, tokens.dtype) == ("meta", torch.int64)


class Reader(nn.Module):
    """A Hugging Face text classifier in miniature: named parts in, logits out."""

    main_input_name = "input_ids"

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 3)

    def forward(
        self, inputs_embeds: Any = None, input_ids: Any = None, attention_mask: Any = None
    ) -> ModelOutput:
        assert inputs_embeds is None
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        vectors = self.embed(input_ids) * mask[..., None]
        return ModelOutput(logits=self.head(vectors.sum(dim=1) / mask.sum(dim=1)[:, None]))


def test_named_parts_are_passed_by_name_and_tokens_as_the_main_input() -> None:
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    net = Reader()
    plain_rows = as_module(net, tokens)(tokens)
    assert torch.equal(plain_rows, net(input_ids=tokens)["logits"])
    parts = {"input_ids": tokens, "attention_mask": mask}
    module = as_module(net, parts)
    assert torch.equal(module(parts), net(**parts)["logits"])
    kinds = [("input_ids", "<i8", (3,)), ("attention_mask", "<i8", (3,))]
    rows = np.zeros(2, dtype=kinds)
    rows["input_ids"], rows["attention_mask"] = tokens.numpy(), mask.numpy()
    assert torch.equal(score(net, rows), module(parts).detach())


def test_programs_and_quantised_nets_give_answers_only() -> None:
    net = plain().eval()
    program = torch.jit.trace(net, ROWS)
    frozen = torch.jit.freeze(torch.jit.script(net))
    other = plain().eval()
    with torch.no_grad():
        other[3].bias[0] += 1
    for given in (program, frozen):
        module = as_module(given, ROWS)
        assert answers_only(module)
        assert torch.allclose(score(given, X), score(net, X), atol=1e-5)
        assert kind_of(module) == "a TorchScript program"
        with pytest.raises(Unsupported, match="a TorchScript program gives answers only"):
            trace(given, (1, 4, 4))
    assert not answers_only(net)
    assert kind_of(as_module(Returns(lambda z: [z]), ROWS)) == "a Returns"
    assert fingerprint_net(program) == fingerprint_net(net)
    again = torch.jit.freeze(torch.jit.script(other))
    assert fingerprint_net(frozen) != fingerprint_net(again)


@pytest.mark.filterwarnings("ignore")
def test_the_whole_numbers_of_a_quantised_net_are_in_its_fingerprint() -> None:
    net, other = plain().eval(), plain().eval()
    with torch.no_grad():
        other[1].weight[0, 0] *= -1
    nets = [
        torch.ao.quantization.quantize_dynamic(one, {nn.Linear}, dtype=torch.qint8)
        for one in (net, copy.deepcopy(net), other)
    ]
    assert all(map(answers_only, nets))
    assert kind_of(nets[0]) == "a quantised net"
    prints = [fingerprint_net(one) for one in nets]
    assert prints[0] == prints[1] != prints[2]
    alone = torch.cat([nets[0](torch.from_numpy(X[at : at + 1])) for at in range(len(X))])
    assert torch.equal(score(nets[0], X), alone)
    assert not torch.equal(alone, nets[0](torch.from_numpy(X)))  # it rounds by its batch


def test_probabilities_are_kept_and_said() -> None:
    net = nn.Sequential(plain(), nn.Softmax(dim=1))
    module = as_module(net, ROWS)
    assert module is net
    assert "look like probabilities" in remarks(module(ROWS), module)[0]
    assert remarks(plain()(ROWS), plain()) == ()


@pytest.mark.parametrize(
    ("net", "rows", "words"),
    [
        (
            nn.Conv2d(3, 2, 3),
            torch.rand(2, 8, 8, 3),
            r"8x8x3.*reads 3 channels.*transpose\(0, 3, 1",
        ),
        (nn.Conv2d(1, 2, 3), torch.rand(2, 8, 8), r"channel axis is missing: give x\[:, None\]"),
        (nn.Conv2d(1, 2, 3), torch.rand(2, 64), "flat: reshape them to 1 channels"),
        (nn.Conv2d(3, 2, 3), torch.rand(2, 1, 8, 8), "give examples of 3 channels instead of 1"),
        (nn.Conv2d(3, 2, 9), torch.rand(2, 3, 8, 3), "the shape and type that it was trained on"),
        (nn.Linear(64, 2), torch.rand(2, 1, 8, 8), "1x8x8.*reads 64 numbers.*flatten the examples"),
        (nn.Linear(64, 2), torch.zeros(2, 64).long(), "convert the inputs to float32"),
        (Reader(), torch.rand(2, 3), "token ids kept as floats"),
        (Reader(), torch.full((2, 3), 9), "hold the token 9"),
        (
            Reader(),
            {"tokens": torch.zeros(2, 3).long()},
            "inputs_embeds, input_ids, attention_mask",
        ),
    ],
)
def test_a_net_that_cannot_read_the_data_says_what_both_are(
    net: nn.Module, rows: Any, words: str
) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        as_module(net, rows)
    assert "\n" not in str(caught.value)


def test_normalised_computes_with_constants_of_its_own() -> None:
    net = plain()
    module = normalised(net, 0.1307, 0.3081, (1, 4, 4))
    assert torch.equal(module(ROWS), net((ROWS - 0.1307) / 0.3081))
    assert as_module(module, ROWS) is module
    assert fingerprint_net(module) not in (
        fingerprint_net(net),
        fingerprint_net(normalised(net, 0.1307, 0.31, (1, 4, 4))),
    )
    half = normalised(plain().half(), 0.1307, 0.3081, (1, 4, 4))
    expected = plain().half()(((torch.from_numpy(X) - 0.1307) / 0.3081).half()).float()
    assert torch.equal(score(half, X), expected)
    three = normalised(nn.Flatten(), (0.0, 1.0, 2.0), (1.0, 2.0, 4.0), (3, 1, 1))
    assert three(torch.full((1, 3, 1, 1), 3.0)).tolist() == [[3.0, 1.0, 0.25]]
    dressed = as_module(Returns(lambda z: (z,)), ROWS)
    assert isinstance(as_module(normalised(dressed, 0.5, 0.5, (1, 4, 4)), ROWS), Logits)


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        (
            (0.5, 0.5),
            1.0,
            "2 values for mean, but the data are 3x8x4, with 3 channels; give one number",
        ),
        ((0.5,) * 4, 1.0, "channels last"),
        (0.5, 0.0, "std above 0, not 0"),
        (float("nan"), 1.0, "finite numbers for mean"),
        ("half", 1.0, "a pair"),
    ],
)
def test_constants_that_do_not_fit_are_refused(mean: Any, std: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        normalised(plain(), mean, std, (3, 8, 4))


def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    return (rng.normal(size=(90, 4)) + y[:, None]).astype(np.float32), y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), MLPClassifier((5,), max_iter=20, random_state=0)),
        RandomForestClassifier(5, random_state=0),
        GradientBoostingClassifier(n_estimators=3, random_state=0),
        KNeighborsClassifier(3),
        SVC(break_ties=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fitted_classifier_answers_as_it_predicts(model: Any) -> None:
    x, y = blobs()
    model.fit(x, y)
    found = answer(model, x)
    clear = found.gaps > 0
    assert clear.mean() > 0.5
    assert np.array_equal(found.classes[clear], model.predict(x)[clear])
    assert answers_only(as_module(model))
    copied = pickle.loads(pickle.dumps(model))
    assert fingerprint_net(copied) == found.net_fingerprint
    model.fit(x + 0.5 * np.arange(4, dtype=np.float32) * x[::-1], y)
    assert fingerprint_net(model) != found.net_fingerprint


def test_classes_are_numbered_as_the_data_number_them() -> None:
    x, y = blobs()
    named = LogisticRegression().fit(x, np.array(["a", "b", "c"])[y])
    assert np.array_equal(answer(named, x, classes=3).classes, answer(named, x).classes)
    some = LogisticRegression().fit(x[y != 1], y[y != 1])  # knows classes 0 and 2 of three
    found = answer(some, x, classes=3)
    assert np.array_equal(found.classes, some.predict(x))
    with pytest.raises(BadInput, match="knows 3 classes"):
        answer(named, x, classes=4)
    pictures = x.reshape(-1, 1, 2, 2)
    assert np.array_equal(answer(named, pictures).classes, answer(named, x).classes)
    assert isinstance(as_module(named), Fitted)
    assert kind_of(as_module(named)) == "a LogisticRegression"


def test_a_classifier_s_classes_are_the_data_s_labels() -> None:
    """Data that hold some of the classes only, or others, or call them by their numbers."""
    x, y = blobs()
    named = LogisticRegression().fit(x, np.array(["cat", "dog", "eel"])[y])
    asked = answer(named, x).classes

    def numbered(model: Any, *labels: int | str) -> list[int]:
        known = labels or None
        return answer(model, x, classes=len(labels), labels=known).classes.tolist()

    assert numbered(named, "dog", "eel") == [{0: 2, 1: 0, 2: 1}[one] for one in asked]
    assert numbered(named, "eel", "fox") == [{0: 2, 1: 3, 2: 0}[one] for one in asked]
    assert numbered(named, "ant", "cat", "dog", "eel") == [one + 1 for one in asked]
    for kind in (int, float):
        signs = LogisticRegression().fit(x, np.where(y == 0, -1, 1).astype(kind))
        assert numbered(signs, -1, 1) == numbered(signs, "-1", "1")
        from_one = LogisticRegression().fit(x, (y + 1).astype(kind))
        assert numbered(from_one, 1, 2, 3) == [one - 1 for one in from_one.predict(x).astype(int)]
    plain = LogisticRegression().fit(x, y)
    assert numbered(plain, 1, 2, 3) == numbered(plain, "a", "b", "c") == plain.predict(x).tolist()
    for model, labels in ((named, ("x", "y", "z")), (signs, (5, 6, 7))):
        with pytest.raises(BadInput, match=r"but the data have 3 .*fit it on their labels"):
            numbered(model, *labels)
    with pytest.raises(BadInput, match=r"knows 3 classes .cat, dog, eel., but the data have 2;"):
        answer(named, x, classes=2)
    behind = normalised(named, 0.0, 1.0, (4,))
    assert numbered(behind, "dog", "eel") == numbered(named, "dog", "eel")
    assert fingerprint_net(behind) != fingerprint_net(named) == fingerprint_net(as_module(named))


def test_what_scikit_learn_cannot_answer_is_said() -> None:
    x, y = blobs()
    for model, words in (
        (LogisticRegression(), "fit it first"),
        (LinearRegression().fit(x, y), "is a regressor"),
        (LogisticRegression, "call the class to make one"),
        ("net", "not a str"),
    ):
        with pytest.raises(BadInput, match=words):
            as_module(model)
    ovo = SVC(decision_function_shape="ovo").fit(x, y)
    with pytest.raises(BadInput, match="break_ties"):
        score(ovo, np.concatenate([x, x + 0.1]))


def test_labels_from_one_that_fit_the_net_unshifted_are_doubted() -> None:
    """Class 0 is missing in the sample, and the net knows it."""
    x, y = X.reshape(40, 16), np.arange(40) % 2 + 1
    net = nn.Linear(16, 3)
    said = r"gives 3 scores, and labels 1 to 2 .*give cushion.Dataset\(x, y, classes=3\)"
    for ask in (cushion.measure, cushion.bounds, lambda f, d: cushion.certify(f, d, minutes=0.01)):
        with pytest.warns(Remark, match=said):
            ask(net, (x, y))
    for model, data in (
        (net, cushion.Dataset(x, y, classes=3)),
        (nn.Linear(16, 2), (x, y)),
        (LogisticRegression().fit(x, np.arange(40) % 3), (x, y)),  # matched by its classes_
    ):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            cushion.measure(model, data, only="margins")
        assert not [one for one in seen if "and labels 1 to" in str(one.message)]


class ByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 2)

    def forward(self, left: Tensor, right: Tensor | None = None) -> Tensor:
        return self.net(left if right is None else left - right)  # type: ignore[no-any-return]


class ByDict(ByName):
    def forward(self, batch: dict[str, Tensor], scale: float = 2.0) -> Tensor:  # type: ignore[override]
        return ByName.forward(self, **batch)


class ByAny(ByName):
    def forward(self, first: Tensor | None = None, **parts: Tensor) -> Tensor:  # type: ignore[override]
        assert first is None
        return ByName.forward(self, **parts)


@pytest.mark.parametrize("kind", [ByName, ByDict, ByAny])
def test_named_parts_are_keywords_or_one_dict(kind: type[ByName]) -> None:
    rng, nets = np.random.default_rng(0), [ByName(), kind()]
    nets[1].load_state_dict(nets[0].state_dict())
    x = {name: rng.random((20, 3), dtype=np.float32) for name in ("left", "right")}
    expected, found = (cushion.margins(net, (x, np.arange(20) % 2)) for net in nets)
    assert np.array_equal(found, expected)
    with pytest.raises(BadInput, match="cannot read examples of parts left"):
        as_module(nn.Linear(3, 2), {name: torch.from_numpy(part) for name, part in x.items()})
