"""What the trace refuses, and how: the module's path, the reason, and what would fix it, in one
sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.errors import BadInput, Unsupported
from cushion.nets.tracing import support, trace

torch.set_num_threads(1)  # tiny nets: more threads only wait for each other


class Custom(nn.Module):
    """A net whose forward is the given function of the module and the batch."""

    def __init__(
        self, forward: Callable[[nn.Module, Tensor], Tensor], **parts: nn.Module | nn.Parameter
    ) -> None:
        super().__init__()
        self._forward = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(self, x)


def _fc() -> nn.Linear:
    return nn.Linear(4, 4)


def _attend(m: nn.Module, x: Tensor) -> Tensor:
    return torch.softmax(m.q(x), -1) * m.v(x)


REFUSED = {
    "lstm": (
        lambda: Custom(lambda m, x: m.fc(m.rnn(x)[0]), rnn=nn.LSTM(4, 4), fc=_fc()),
        (4,),
        r"^cushion cannot trace this net: rnn \(LSTM\): it is recurrent: .* use a feed-forward "
        r"net \(path norms, .* need the trace; measures of weights, margins, .* do not\)$",
    ),
    "layer norm and gelu": (
        lambda: nn.Sequential(_fc(), nn.LayerNorm(4), nn.GELU(), _fc()),
        (4,),
        r"1 \(LayerNorm\): it normalises each example .*; use BatchNorm2d",
    ),
    "many": (
        lambda: nn.Sequential(_fc(), *(nn.LayerNorm(4) for _ in range(9))),
        (4,),
        r"1 \(LayerNorm\): [^|]* \| and 8 more, which cushion.support lists \(",
    ),
    "made of values": (
        lambda: nn.Sequential(_fc(), Custom(lambda m, x: x if float(x[0, 0]) > 0 else -x)),
        (4,),
        r"1 \(Custom\): its forward cannot be followed \(line \d+ of test_tracing_refusals.py\)",
    ),
    "constant for each row": (
        lambda: Custom(lambda m, x: m.a(x) + torch.arange(x.shape[0])[:, None], a=_fc()),
        (4,),
        r"add \(add\): it combines a feature map of shape \(4,\) with a constant of",
    ),
    "constant over a map": (
        lambda: Custom(lambda m, x: 1 / m.a(x), a=_fc()),
        (4,),
        r"truediv \(truediv\): it multiplies or divides feature maps",
    ),
    "difference": (
        lambda: Custom(lambda m, x: m.a(x) - x, a=_fc()),
        (4,),
        r"sub \(sub\): it takes one feature map from another; change the sign",
    ),
    "part of the batch": (
        lambda: Custom(lambda m, x: m.a(x)[1:], a=_fc()),
        (4,),
        r"getitem \(getitem\): it takes a part of the batch",
    ),
    "batch axis": (
        lambda: Custom(lambda m, x: m.a(x).transpose(0, 1), a=_fc()),
        (4,),
        r"transpose \(transpose\): it touches the batch axis",
    ),
    "bilinear": (
        lambda: Custom(
            lambda m, x: F.interpolate(m.a(x), scale_factor=2, mode="bilinear").flatten(1),
            a=nn.Conv2d(1, 1, 1),
        ),
        (1, 2, 2),
        r"interpolate \(interpolate\): it interpolates with mode='bilinear'; use mode='nearest'",
    ),
    "mean of the batch": (
        lambda: Custom(lambda m, x: m.a(x).mean(0), a=_fc()),
        (4,),
        r"mean \(mean\): it reduces the batch axis",
    ),
    "softmax": (
        lambda: nn.Sequential(_fc(), nn.Softmax(1)),
        (4,),
        r"1 \(Softmax\): .* return the logits",
    ),
    "attention": (
        lambda: Custom(_attend, q=_fc(), v=_fc()),
        (4,),
        r"softmax \(softmax\): softmax is not .* \| mul \(mul\): it multiplies",
    ),
    "attention module": (
        lambda: Custom(lambda m, x: m.a(x, x, x)[0], a=nn.MultiheadAttention(4, 1)),
        (4,),
        r"a \(MultiheadAttention\): its attention weights are computed from the input",
    ),
    "product": (
        lambda: Custom(lambda m, x: m.a(x) * m.b(x), a=_fc(), b=_fc()),
        (4,),
        r"mul \(mul\): it multiplies",
    ),
    "scaled addition": (
        lambda: Custom(lambda m, x: torch.add(m.a(x), x, alpha=2), a=_fc()),
        (4,),
        r"add \(add\): it adds with alpha=2",
    ),
    "decision by values": (
        lambda: nn.Sequential(_fc(), nn.Sequential(Custom(lambda m, x: x if x.sum() > 0 else -x))),
        (4,),
        r"1\.0 \(Custom\): its forward decides in Python by the values .*\(line \d+ of "
        r"test_tracing_refusals.py\)",
    ),
    "batch statistics": (
        lambda: nn.Sequential(_fc(), nn.BatchNorm1d(4, track_running_stats=False)),
        (4,),
        r"1 \(BatchNorm1d\): it normalises with the statistics of each batch, also in eval mode",
    ),
    "functional batch statistics": (
        lambda: Custom(
            lambda m, x: F.batch_norm(m.a(x), torch.zeros(4), torch.ones(4), training=True), a=_fc()
        ),
        (4,),
        r"batch_norm \(batch_norm\): it normalises with the statistics of each batch",
    ),
    "dropout that ignores eval": (
        lambda: Custom(lambda m, x: F.dropout(m.a(x)), a=_fc()),
        (4,),
        r"dropout \(dropout\): it also drops units in eval mode; pass training=self.training",
    ),
    "unused parameter": (
        lambda: Custom(lambda m, x: m.a(x), a=_fc(), b=nn.Parameter(torch.ones(2))),
        (4,),
        r"account for every parameter: the logits do not depend on b; delete",
    ),
    "unused parameters in a list": (
        lambda: Custom(lambda m, x: m.a(x), a=_fc(), b=nn.ParameterList([torch.ones(2)])),
        (4,),
        r"account for every parameter: the logits do not depend on b.0; delete",
    ),
    "unused parameter of a layer that is called": (
        lambda: Custom(
            lambda m, x: m.b(x),
            b=Custom(lambda m, x: m.a(x), a=_fc(), c=nn.Parameter(torch.ones(2))),
        ),
        (4,),
        r"account for every parameter: the logits do not depend on b.c; delete",
    ),
    "layer of which a part is read": (
        lambda: Custom(lambda m, x: F.linear(m.a(x), m.b.weight), a=_fc(), b=_fc()),
        (4,),
        r"account for every parameter: the logits do not depend on b.bias; delete",
    ),
    "dead layer": (
        lambda: Custom(lambda m, x: (m.a(x), m.b(x))[0], a=_fc(), b=_fc()),
        (4,),
        r"account for every parameter: the logits do not depend on b.weight, b.bias; delete",
    ),
    "tuple": (
        lambda: Custom(lambda m, x: (m.a(x), x), a=_fc()),
        (4,),
        r"the net returns a tuple; return the logits",
    ),
    "map as output": (
        lambda: nn.Conv2d(1, 2, 3),
        (1, 4, 4),
        r"the net returns \(2, 2, 2\) for each example and not one logit a class; flatten or pool",
    ),
    "two inputs": (
        lambda: nn.Bilinear(4, 4, 4),
        (4,),
        r"the net \(Bilinear\): it multiplies",
    ),
    "fixed batch": (
        lambda: Custom(lambda m, x: m.a(x).view(2, -1), a=_fc()),
        (4,),
        r"view \(view\): it reshapes \(batch, 4\) to .*, which mixes examples; keep the batch as "
        r"the first axis",
    ),
    "squeeze": (
        lambda: nn.Sequential(_fc(), Custom(lambda m, x: x.squeeze())),
        (4,),
        r"squeeze\): it would drop the",
    ),
    "axis": (
        lambda: Custom(lambda m, x: torch.cat([x, m.a(x)], 2).flatten(1), a=nn.Conv2d(1, 1, 1)),
        (1, 2, 2),
        r"cat \(cat\): it joins along axis 2; join along the channels",
    ),
    "no affine layer": (
        lambda: nn.Sequential(nn.ReLU()),
        (4,),
        r"no affine layer, so there is nothing to measure",
    ),
    "one logit": (
        lambda: nn.Linear(4, 1),
        (4,),
        r"one number an example; give it one logit per class",
    ),
    "compiled": (
        lambda: torch.compile(_fc()),
        (4,),
        r"the net \(OptimizedModule\): it is compiled; pass the module",
    ),
    "parallel": (
        lambda: nn.DataParallel(_fc()),
        (4,),
        r"the net \(DataParallel\): .* model.module",
    ),
    "written over": (
        lambda: Custom(lambda m, x: _relu_of_a_view_plus_itself(m.a(x)), a=_fc()),
        (4,),
        r"differs from the module by \d.* on random inputs",
    ),
    "old weight norm": (
        lambda: _with_pre_hook(nn.Sequential(_fc(), _fc())),
        (4,),
        r"1 \(Linear\): it has forward hooks, which can change what it computes; remove them first",
    ),
}


def _relu_of_a_view_plus_itself(y: Tensor) -> Tensor:
    return F.relu(y.reshape(-1, 2, 2), inplace=True).flatten(1) + y


def _with_pre_hook(model: nn.Sequential) -> nn.Module:
    model[1].register_forward_pre_hook(lambda module, inputs: None)
    return model


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_the_reason(what: str) -> None:
    factory, shape, sentence = REFUSED[what]
    with pytest.raises(Unsupported, match=sentence) as caught:
        trace(factory(), shape)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "what", sorted(set(REFUSED) - {"no affine layer", "one logit", "written over"})
)
def test_support_reports_what_trace_refuses(what: str) -> None:
    factory, shape, _ = REFUSED[what]
    report = support(factory(), shape)
    assert not report.understood
    for line in report.lines:
        assert line.path
        assert line.understood == (not line.reason) == (not line.fix) == bool(line.role)


def test_support_says_what_each_part_becomes() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.LSTM(2, 2)
    )
    roles = {
        line.path: line.role if line.understood else line.reason for line in support(model).lines
    }
    assert roles == {
        "0": "affine (conv2d)",
        "1": "folded into 0",
        "2": "relu",
        "3": "does nothing in eval mode",
        "4": "flatten",
        "5": "it is recurrent: the same weights act once per time step",
    }


@pytest.mark.parametrize(
    ("model", "shape", "sentence"),
    [
        (
            nn.Conv2d(3, 4, 3),
            (1, 8, 8),
            r"layer conv2d: a convolution with 3 input channels cannot read .*\(1, 8, 8\)",
        ),
        (
            nn.Conv2d(1, 4, 5),
            (1, 4, 4),
            r"layer conv2d: a 5x5 kernel does not fit into a feature map of shape",
        ),
        (
            nn.Sequential(nn.Linear(4, 2)),
            (5,),
            r"layer 0: it reads 4 numbers but gets 5; check the input shape",
        ),
        (
            nn.Sequential(nn.BatchNorm1d(4)),
            (5,),
            r"layer 0: it reads 4 channels but gets 5; check the input shape",
        ),
        (nn.Sequential(nn.MaxPool2d(5)), (1, 4, 4), r"layer 0: its windows do not fit"),
        (nn.Sequential(nn.MaxPool2d(2)), (4,), r"layer 0: it pools maps"),
        (nn.Sequential(nn.AdaptiveAvgPool2d(2)), (4,), r"layer 0: it pools maps"),
        (nn.Sequential(nn.LazyLinear(4)), (4,), r"parameter 0.weight has no values yet"),
        (
            nn.Linear(4, 2, device="meta"),
            (4,),
            r"parameter weight has no values \(it is on the meta device\)",
        ),
        (nn.Linear(4, 2), (), r"the input shape \(\) must be that of one example"),
        (nn.Linear(4, 2), (4, 0), r"the input shape \(4, 0\) must be that of one example"),
        ("net.pt", (4,), r"must be a torch.nn.Module, not a str"),
    ],
)
def test_bad_input(model: nn.Module, shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        trace(model, shape)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_bad_numbers_name_the_parameter(value: float) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    model[0].bias.data[1] = value
    with pytest.raises(BadInput, match=r"parameter 0.bias holds NaN or infinite values"):
        trace(model, (4,))
    model[0].bias.data[1] = 0
    model[1].running_var[0] = value
    with pytest.raises(BadInput, match=r"parameter 1.running_var holds NaN"):
        trace(model, (4,))


def test_complex_weights_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"parameter weight is torch.complex64"):
        trace(nn.Linear(4, 2, dtype=torch.complex64), (4,))


def test_a_net_that_cannot_be_copied_is_refused() -> None:
    model = _fc()
    model.log = open(__file__)  # noqa: SIM115
    with (
        model.log,
        pytest.raises(
            Unsupported, match=r"^Linear cannot be copied \(.*\), and tracing works on a copy"
        ),
    ):
        trace(model, (4,))


def test_forward_hooks_are_refused_without_running_them() -> None:
    model, seen = nn.Sequential(_fc(), _fc()), []
    model.register_forward_hook(lambda *_: seen.append(1))
    with pytest.raises(Unsupported, match=r"the net \(Sequential\): it has forward hooks"):
        trace(model, (4,))
    assert not support(model).understood
    assert seen == []
