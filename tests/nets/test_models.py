"""The spec grammar, its shapes and widths, the modules built from it, and the recipes."""

from __future__ import annotations

import math

import pytest
import torch
import torch.fx
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cushion.errors import BadInput
from cushion.nets import models
from cushion.nets.specs import fit_data, parse, scale_width
from cushion.nets.specs.layers import Join, Layer, Repeat, Spec, walk
from cushion.training.recipes import RECIPES, Recipe, find_recipe, fit_recipe

RESIDUAL = "3x8x8: conv8p1 bn relu 2*[add[conv8p1 bn relu conv8p1 bn | ] relu] gap flatten fc10"
DENSE = "3x8x8: conv6p1 3*[cat[ | bn relu conv4p1nobias]] avgpool2 gap flatten fc10"


def counted(spec: Spec) -> int:
    """The trainable numbers that the limits of a spec are about."""
    counts: list[int] = []
    walk(
        spec.items,
        spec.input_shape,
        lambda layer, before, _: counts.append(layer.parameters(before)),
    )
    return sum(counts)


def test_a_spec_is_read_into_the_tree_it_says() -> None:
    spec = parse(
        "3x32x32: 2*[conv64k5s2p2g1d1nobias bn] add[conv64p1|] maxpool3s2p1 avgpool2 gap flatten "
        "drop0.25 fc7nobias"
    )
    assert spec == Spec(
        (3, 32, 32),
        (
            Repeat(2, (Layer("conv", 64, 5, 2, 2, 1, 1, False), Layer("bn"))),
            Join("add", ((Layer("conv", 64, 3, 1, 1),), ())),
            Layer("maxpool", 3, stride=2, padding=1),
            Layer("avgpool", 2, stride=2),
            Layer("gap"),
            Layer("flatten"),
            Layer("drop", probability=0.25),
            Layer("fc", 7, bias=False),
        ),
    )
    assert spec.classes == 7


@pytest.mark.parametrize(
    "text",
    [recipe.spec for recipe in RECIPES.values()] + [RESIDUAL, DENSE, "784: drop0.000000001 fc2"],
)
def test_canonical_text_round_trips(text: str) -> None:
    spec = parse(text)
    assert parse(str(spec)) == spec
    assert str(parse(str(spec))) == str(spec)


def _layers() -> st.SearchStrategy[str]:
    small = st.integers(1, 4)
    return st.one_of(
        st.sampled_from(
            [
                "bn",
                "relu",
                "drop0.5",
                "add[relu | ]",
                "cat[ | relu]",
                "2*[bn relu]",
                "maxpool2",
                "avgpool3s1p1",
            ]
        ),
        st.builds(
            lambda c, k, s, p: f"conv{c}k{k}s{s}p{p}",
            small,
            small,
            st.integers(1, 2),
            st.integers(0, 2),
        ),
        st.builds(lambda c, d: f"conv{c}p4d{d}nobias", small, small),
        st.builds(lambda c: f"cat[conv{c}p1 | conv2k1] add[conv3k1 | conv3p1 | conv3k5p2]", small),
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(_layers(), min_size=1, max_size=5),
    st.sampled_from(["flatten fc3", "gap flatten fc2", "gap flatten fc5nobias"]),
)
def test_shapes_and_parameter_counts_are_those_of_torch(body: list[str], end: str) -> None:
    text = f"2x9x8: conv3k2 {' '.join(body)} {end}"
    try:
        spec = parse(text)
    except BadInput:
        with pytest.raises(RuntimeError):  # torch agrees that it does not fit
            _build_unchecked(text)(torch.zeros(2, 2, 9, 8))
        return
    assert parse(str(spec)) == spec
    net = models.build(spec).eval()
    assert net(torch.zeros(2, 2, 9, 8)).shape == (2, spec.classes)
    assert sum(p.numel() for p in net.parameters()) == counted(spec)


def _build_unchecked(text: str) -> nn.Module:
    """The naive builder: lazy layers find their own inputs, so that misfits surface as torch's
    errors.
    """

    def make(items: tuple[object, ...]) -> nn.Sequential:
        made: list[nn.Module] = []
        for item in items:
            match item:
                case Repeat():
                    made += [make(item.body) for _ in range(item.count)]
                case Join():
                    branches = [make(branch) for branch in item.branches]
                    made.append(
                        models.Add(branches) if item.kind == "add" else models.Cat(branches)
                    )
                case Layer("conv", c, k, s, p, g, d, b):
                    made.append(nn.LazyConv2d(c, k, s, p, d, g, b))
                case Layer("fc"):
                    made.append(nn.LazyLinear(item.size, item.bias))
                case Layer("maxpool"):
                    made.append(nn.MaxPool2d(item.size, item.stride, item.padding))
                case Layer("avgpool"):
                    made.append(nn.AvgPool2d(item.size, item.stride, item.padding))
                case Layer("flatten"):
                    made.append(nn.Flatten())
                case Layer("gap"):
                    made.append(nn.AdaptiveAvgPool2d(1))
        return nn.Sequential(*made)

    from cushion.nets.specs.grammar import read

    return make(read(text).items)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("flatten fc10", "must begin with one example's shape"),
        ("0x8: fc10", "must begin with one example's shape"),
        ("8 : ", "has no layers"),
        ("8: relu", "no layer with weights"),
        ("8: fc10 gelu", "'gelu' at position 8 is not known"),
        ("8: fc10 relu6", "'relu6' at position 8 is not known"),
        ("3x8x8: conv8p1k3 fc2", "'conv8p1k3' at position 7 is not known"),
        ("8: fc0", "'fc0' at position 3 holds a 0"),
        ("3x8x8: conv8s0", "at position 7 holds a 0"),
        ("8: drop1 fc2", "'drop1' at position 3 must drop with a probability below 1"),
        ("3x8x8: maxpool2p2 flatten fc2", "'maxpool2p2' at position 7 pads by more than half"),
        ("3x8x8: fc10", "'fc10' at position 7 reads a vector but gets 3x8x8"),
        ("8: conv3 flatten fc2", "at position 3 reads channels x height x width but gets 8"),
        ("4x4: bn flatten fc2", "'bn' at position 5 reads a vector or channels"),
        ("3x8x8: conv8k9 flatten fc2", "'conv8k9' at position 7 needs at least 9x9 but gets 8x8"),
        (
            "3x8x8: 4*[maxpool2] flatten fc2",
            "'maxpool2' at position 10 needs at least 2x2 but gets 1x1",
        ),
        ("3x8x8: conv8g2 flatten fc2", "2 groups, which must divide its 3 input channels"),
        ("3x8x8: conv8p1 add[conv4p1 | ] flatten fc2", "adds branches of shapes 4x8x8 and 8x8x8"),
        ("3x8x8: cat[maxpool2 | ] flatten fc2", "concatenates branches of shapes 3x4x4 and 3x8x8"),
        ("3x8x8: conv8", "'conv8k3' at position 7 leaves 8x6x6"),
        ("8: fc1", "'fc1' at position 3 leaves 1,"),
        ("8: 2*[fc3 relu fc2", "ends inside a bracket"),
        ("8: fc3 ] fc2", "unexpected ']' at position 7"),
        ("8: fc3 | fc2", "unexpected '|' at position 7"),
        ("8: 2*[fc3 | fc2]", "unexpected '|' at position 10"),
        ("8: [fc3] fc2", "unexpected '[' at position 3"),
        ("8: 0*[fc3] fc2", "'0*[' at position 3 must repeat something"),
        ("8: 3*[ ] fc2", "'3*[' at position 3 must repeat something"),
        ("8: add[fc3] fc2", "'add[' at position 3 needs two or more branches"),
        ("8: 99999*[relu] fc2", "more than 10,000 layers at position 3"),
        ("8: 999*[999*[999*[add[|]]]] fc2", "more than 10,000 layers"),
        ("8: " + "1*[" * 40 + "fc2" + "]" * 40, "nests brackets deeper than 32 at position 99"),
        (
            "8: fc100000 fc100000 fc2",
            "'fc100000' at position 12 brings the net past 1,000,000,000 parameters",
        ),
        (
            "1x8x8: 1000*[add[" + "|" * 2000 + "]] flatten fc10",
            "more than 10,000 layers at position 7",
        ),
        (
            "1x8x8: 4000*[add[|]] flatten fc10",
            "more than 10,000 layers at position 7",
        ),  # 3 layers each
        (
            "1x8x8: 30*[cat[|]] flatten fc10",
            "'cat[ | ]' at position 11 makes a feature map of 16777216x8x8",
        ),
        ("8: " + "relu " * 200_000 + "fc2", "has 1,000,006 characters, more than 1,000,000"),
        ("999999x999999: flatten fc2", "absurdly large"),
        ("3x1000x1000: conv2000p1 gap flatten fc2", "makes a feature map of 2000x1000x1000"),
    ],
)
def test_every_misfit_is_one_sentence_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_million_empty_branches_are_refused() -> None:
    text = "8: add[" + "|" * 900_000 + "] fc2"
    with pytest.raises(BadInput, match="more than 10,000 layers"):
        parse(text)
    # 10,000 layers: just allowed
    assert parse("1x8x8: 3332*[add[|]] relu relu flatten fc10").classes == 10
    with pytest.raises(BadInput, match="more than 10,000 layers"):
        parse("1x8x8: 3332*[add[|]] relu relu relu flatten fc10")


def test_building_is_seeded_and_leaves_the_global_randomness_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = (
        models.build(RESIDUAL, 3),
        models.build(RESIDUAL, 3),
        models.build(RESIDUAL, 4),
    )
    assert torch.equal(before, torch.random.get_rng_state())
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
        assert tensor.dtype in (torch.float32, torch.int64)
    assert not torch.equal(first.state_dict()["conv1.weight"], other.state_dict()["conv1.weight"])
    second, third = (
        first.state_dict()["add1.branches.0.conv2.weight"],
        first.state_dict()["add2.branches.0.conv4.weight"],
    )
    assert not torch.equal(second, third)


def test_initialisations_are_as_documented() -> None:
    he = models.build("64x4x4: conv256g2 bn flatten fc500 fc400", init="he")
    assert isinstance(he.conv1, nn.Conv2d)
    assert float(he.conv1.weight.detach().std()) == pytest.approx(
        math.sqrt(2 / (9 * 256 / 2)), rel=0.02
    )
    assert isinstance(he.fc2, nn.Linear)
    assert float(he.fc2.weight.detach().std()) == pytest.approx(math.sqrt(2 / 500), rel=0.02)
    assert not he.fc2.bias.any()
    assert not he.conv1.bias.any()
    assert isinstance(he.bn1, nn.BatchNorm2d)
    assert he.bn1.running_var is not None
    assert bool((he.bn1.weight == 1).all())
    assert bool((he.bn1.running_var == 1).all())
    plain = models.build("64x4x4: conv256g2 flatten fc500 fc400", init="torch")
    for ours, theirs in (
        (plain.conv1, nn.Conv2d(64, 256, 3, groups=2)),
        (plain.fc2, nn.Linear(500, 400)),
    ):
        assert isinstance(ours, (nn.Conv2d, nn.Linear))
        for a, b in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
            assert float(a.detach().abs().max()) == pytest.approx(
                float(b.detach().abs().max()), rel=0.05
            )
            assert float(a.detach().std()) == pytest.approx(float(b.detach().std()), rel=0.15)


def test_a_centred_start_is_he_s_on_centred_pixels() -> None:
    text = "3x6x6: conv8k3 relu conv4k3 flatten fc5"
    he, torch_s, centred = (models.build(text, 2, init=init) for init in ("he", "torch", "centred"))  # type: ignore[arg-type]
    x = torch.rand(4, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(
        centred.get_submodule("conv1")(x), he.get_submodule("conv1")((x - 0.5) / 0.25), atol=1e-5
    )
    for source, name in ((he, "conv2"), (torch_s, "fc1")):
        for a, b in zip(
            source.get_submodule(name).parameters(),
            centred.get_submodule(name).parameters(),
            strict=True,
        ):
            assert torch.equal(a, b)
    without = models.build("3x6x6: conv8k3nobias flatten fc5", 2, init="centred").get_submodule(
        "conv1"
    )
    assert torch.equal(
        without.get_parameter("weight"), centred.get_submodule("conv1").get_parameter("weight")
    )


@pytest.mark.parametrize("text", [RESIDUAL, DENSE])
def test_modules_are_traceable_and_add_and_cat_do_what_they_say(text: str) -> None:
    net = models.build(text).eval()
    traced = torch.fx.symbolic_trace(net)
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(traced(x), net(x))
    join = net.get_submodule("add1" if "add" in text else "cat1")
    inner = torch.randn(2, 8 if "add" in text else 6, 4, 4)
    branches = [branch(inner) for branch in join.get_submodule("branches").children()]
    expected = branches[0] + branches[1] if "add" in text else torch.cat(branches, 1)
    assert torch.equal(join(inner), expected)


@pytest.mark.parametrize(
    ("text", "factor", "expected"),
    [
        ("784: fc300 relu fc100 relu fc10", 0.5, "784: fc150 relu fc50 relu fc10"),
        ("784: fc3 relu fc10", 0.01, "784: fc1 relu fc10"),
        ("784: fc3 relu fc10", 2, "784: fc6 relu fc10"),
        ("8: 3*[fc10 relu]", 0.5, "8: 2*[fc5 relu] fc10 relu"),
        (
            "3x8x8: conv16p1 conv32k1g4 gap flatten fc10",
            0.3,
            "3x8x8: conv4k3p1 conv8k1g4 gap flatten fc10",
        ),
        (
            "3x8x8: conv16p1 conv32p1g16 gap flatten fc10",
            0.3,
            "3x8x8: conv5k3p1 conv10k3p1g5 gap flatten fc10",
        ),
        (
            "3x8x8: add[conv3p1 | ] gap flatten fc10",
            0.5,
            "3x8x8: add[conv3k3p1 | ] gap flatten fc10",
        ),
        (
            "3x8x8: 2*[add[conv9k1 conv3p1 | ]] gap flatten fc10",
            0.5,
            "3x8x8: 2*[add[conv4k1 conv3k3p1 | ]] gap flatten fc10",
        ),
        (
            "8: fc5 add[cat[fc3 | fc5] | 2*[fc8 relu]] fc2",
            0.5,
            "8: fc2 add[cat[fc2 | fc2] | 2*[fc4 relu]] fc2",
        ),
        ("8: fc5 add[cat[fc3 | fc7] | fc10] fc2", 0.5, "8: fc2 add[cat[fc2 | fc4] | fc6] fc2"),
        (
            DENSE,
            0.5,
            "3x8x8: conv3k3p1 3*[cat[ | bn relu conv2k3p1nobias]] avgpool2 gap flatten fc10",
        ),
        (
            RESIDUAL,
            0.5,
            "3x8x8: conv4k3p1 bn relu 2*[add[conv4k3p1 bn relu conv4k3p1 bn | ] relu] gap flatten "
            "fc10",
        ),
        (
            "1x4x4: conv6p1 relu conv3k1 gap flatten",
            2,
            "1x4x4: conv12k3p1 relu conv3k1 gap flatten",
        ),
    ],
)
def test_widths_scale_but_never_the_last_layer(text: str, factor: float, expected: str) -> None:
    scaled = scale_width(parse(text), factor)
    assert str(scaled) == expected
    assert models.build(scaled).eval()(torch.zeros(1, *scaled.input_shape)).shape == (
        1,
        parse(text).classes,
    )


def test_turns_of_a_repetition_that_come_out_differently_are_written_out() -> None:
    # The first turn reads 4 channels of the image, a depthwise stack that cannot shrink; the second
    # reads conv's 2.
    spec = parse("4x8x8: 2*[conv4p1g4 conv4k1] gap flatten fc10")
    assert (
        str(scale_width(spec, 0.5))
        == "4x8x8: conv4k3p1g4 conv2k1 conv2k3p1g2 conv2k1 gap flatten fc10"
    )


@pytest.mark.parametrize("factor", [0, -1, math.nan, math.inf, 1e9])
def test_absurd_widths_are_refused(factor: float) -> None:
    with pytest.raises(BadInput, match="must be above 0"):
        scale_width(parse("8: fc3 fc2"), factor)


def test_a_net_whose_scores_come_from_a_join_cannot_be_scaled_or_fitted() -> None:
    spec = parse("8: fc4 add[fc2 | fc2]")
    for change in (lambda: scale_width(spec, 0.5), lambda: fit_data(spec, (8,), 3)):
        with pytest.raises(BadInput, match=r"at position 7 makes the scores"):
            change()
    assert scale_width(spec, 1.0) is spec


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_every_recipe_builds_and_runs_narrow_and_counts_its_parameters_at_full_size(
    recipe: Recipe,
) -> None:
    spec = parse(recipe.spec)
    full = models.build_empty(spec)
    assert sum(p.numel() for p in full.parameters()) == counted(spec)
    assert all(p.is_meta for p in full.parameters())
    narrow = scale_width(spec, 4 / 64 if counted(spec) > 10**5 else 1)
    net = models.build(narrow, 1, init=recipe.init).eval()
    assert net(torch.rand(2, *spec.input_shape)).shape == (2, 10)
    assert torch.fx.symbolic_trace(net) is not None


@pytest.mark.parametrize(
    ("name", "parameters", "affine"),
    [
        ("arora-vgg19", 20_024_384 + 2 * 262_656 + 5_130, 19),
        ("arora-alexnet", 23_296 + 307_392 + 663_936 + 884_992 + 590_080 + 2_570, 6),
        ("guha-mlp", 4 * 784 * 785 + 7_850, 5),
        ("guha-mlp-cifar10", 3073 * 784 + 3 * 785 * 784 + 7_850, 5),
        ("neyshabur-mlp-64", 785 * 64 + 650, 2),
        ("neyshabur-mlp10", 785_000 + 9 * 1_001_000 + 10_010, 11),
        ("shin-resnet20", 272_474, 22),
        ("shin-densenet", 1_019_722, 40 - 1 + 1),
        ("lenet-300-100", 266_610, 3),
    ],
)
def test_the_papers_nets_have_their_known_sizes(name: str, parameters: int, affine: int) -> None:
    net = models.build_empty(RECIPES[name].spec)
    assert sum(p.numel() for p in net.parameters()) == parameters
    assert sum(isinstance(layer, (nn.Conv2d, nn.Linear)) for layer in net.modules()) == affine


def test_recipes_hold_the_papers_settings() -> None:
    arora = RECIPES["arora-vgg19"]
    assert (arora.optimiser, arora.batch, arora.weight_decay, arora.momentum, arora.epochs) == (
        "sgd",
        128,
        5e-4,
        0.9,
        299,
    )
    assert [arora.learning_rate(epoch) for epoch in (0, 29, 30, 298)] == [
        0.05,
        0.05,
        0.025,
        0.05 / 2**9,
    ]
    assert RECIPES["arora-alexnet-shuffled"].labels == "shuffled"
    assert not RECIPES["arora-alexnet-shuffled"].augment
    assert RECIPES["arora-alexnet"].augment
    for width in (500, 784, 1000, 1500, 2000, 2500):
        guha = RECIPES["guha-mlp" if width == 784 else f"guha-mlp-{width}"]
        assert (guha.optimiser, guha.lr, guha.batch, guha.epochs) == ("adam", 0.02, 256, 300)
        assert str(parse(guha.spec)) == f"1x28x28: flatten 4*[fc{width} relu] fc10"
    assert RECIPES["guha-mlp-cifar10"].batch == 4
    for hidden in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
        two = RECIPES[f"neyshabur-mlp-{hidden}"]
        assert (two.lr, two.momentum, two.weight_decay, two.batch, two.stop_loss) == (
            0.01,
            0.9,
            0,
            64,
            1e-4,
        )
        assert two.learning_rate(500) == 0.01


def test_recipes_adapt_to_other_data_or_say_why_not() -> None:
    assert (
        str(fit_recipe(RECIPES["lenet-300-100"], (3, 5, 5), 7))
        == "3x5x5: flatten fc300 relu fc100 relu fc7"
    )
    assert (
        str(fit_recipe(RECIPES["lenet-300-100"], (12,), 2))
        == "12: flatten fc300 relu fc100 relu fc2"
    )
    assert fit_recipe(RECIPES["arora-vgg19"], (1, 64, 64), 100).classes == 100
    with pytest.raises(
        BadInput,
        match=r"recipe arora-vgg19 does not fit data of shape 1x28x28: .*too deep for such small",
    ):
        fit_recipe(RECIPES["arora-vgg19"], (1, 28, 28), 10)
    with pytest.raises(
        BadInput,
        match=r"recipe small does not fit data of shape 64: .*reads channels x height x width",
    ):
        fit_recipe(RECIPES["small"], (64,), 10)


def test_a_recipe_argument_is_a_name_or_a_free_spec() -> None:
    assert find_recipe("small") is RECIPES["small"]
    free = find_recipe("1x8x8: flatten fc10")
    assert (free.name, free.optimiser, free.lr, free.batch, free.epochs) == (
        "spec",
        "adam",
        1e-3,
        128,
        20,
    )
    assert str(fit_recipe(free, (1, 8, 8), 10)) == "1x8x8: flatten fc10"
    with pytest.raises(
        BadInput, match="reads 1x8x8 and gives 10 scores, but the data are 3x8x8 with 10 classes"
    ):
        fit_recipe(free, (3, 8, 8), 10)
    with pytest.raises(BadInput, match="did you mean guha-mlp"):
        find_recipe("guha-mpl")
    with pytest.raises(
        BadInput, match=r"'zzz' is not known \(the recipes are small, lenet-300-100, arora-vgg19"
    ):
        find_recipe("zzz")
    with pytest.raises(BadInput, match="'fx10' at position 15"):
        find_recipe("1x8x8: flatten fx10")


@pytest.mark.parametrize(
    ("option", "value"),
    [("lr", math.nan), ("lr", -1.0), ("momentum", -0.1), ("batch", 0), ("epochs", 0)],
)
def test_absurd_settings_are_refused(option: str, value: float) -> None:
    from dataclasses import replace

    with pytest.raises(BadInput, match=f"recipe small: {option} must be"):
        replace(RECIPES["small"], **{option: value})
