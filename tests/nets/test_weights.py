"""Weights files and NET arguments: exact round trips, and one sentence for everything that cannot
be loaded.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from cushion.errors import BadInput, CushionError, Malformed
from cushion.nets import models
from cushion.nets.loading.weights import FORMAT, load_net, read_tensors, save_net, save_tensors
from cushion.nets.specs import parse

SPEC = parse("1x4x4: conv3p1 bn relu flatten fc5 relu fc2")
META = {
    "recipe": "small",
    "data": "digits",
    "data_fingerprint": "ab" * 32,
    "seed": 7,
    "metrics": {"train_error": 0.25},
}

FACTORY = """
from torch import nn

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 3))

def broken():
    raise RuntimeError("no\\nway")

def nothing():
    return 3

constant = 4
"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "a.safetensors"
    save_net(path, models.build(SPEC, 7), SPEC, META)
    return path


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FACTORY)
    return path


def refusal(reference: object, **options: object) -> str:
    with pytest.raises(CushionError) as caught:
        load_net(str(reference), **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_net_round_trips_bit_for_bit_with_its_meta(saved: Path) -> None:
    net = load_net(saved)
    original = models.build(SPEC, 7).state_dict()
    assert net.spec == SPEC
    assert net.meta == META
    assert net.init is None
    assert not net.module.training
    assert list(net.module.state_dict()) == list(original)
    assert all(
        torch.equal(tensor, original[name]) for name, tensor in net.module.state_dict().items()
    )
    assert all(p.requires_grad for p in net.module.parameters())


def test_the_metadata_reads_without_cushion(saved: Path) -> None:
    with safe_open(saved, framework="pt") as file:
        metadata = file.metadata()
    assert metadata["format"] == FORMAT
    assert metadata["spec"] == str(SPEC)
    assert metadata["data_fingerprint"] == "ab" * 32
    assert json.loads(metadata["seed"]) == 7
    assert json.loads(metadata["metrics"]) == {"train_error": 0.25}


def test_writing_is_atomic_and_leaves_only_the_file(tmp_path: Path, saved: Path) -> None:
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]
    blocked = tmp_path / "folder"
    blocked.mkdir()
    with pytest.raises(BadInput, match="is a folder; name a file in it"):
        save_net(blocked, models.build(SPEC), SPEC, META)
    with pytest.raises(BadInput, match="is not a folder"):
        save_net(tmp_path / "missing" / "a.safetensors", models.build(SPEC), SPEC, META)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.safetensors", "folder"]


def test_a_run_folder_gives_the_net_and_its_initialisation(tmp_path: Path) -> None:
    save_net(tmp_path / "net.safetensors", models.build(SPEC, 1), SPEC, META)
    save_net(tmp_path / "init.safetensors", models.build(SPEC, 2), SPEC, META)
    for reference in (tmp_path, tmp_path / "net.safetensors"):
        net = load_net(reference)
        assert net.init is not None
        assert torch.equal(
            net.init.state_dict()["fc1.weight"], models.build(SPEC, 2).state_dict()["fc1.weight"]
        )
        assert torch.equal(
            net.module.state_dict()["fc1.weight"], models.build(SPEC, 1).state_dict()["fc1.weight"]
        )


def test_an_initialisation_of_another_run_is_not_taken(tmp_path: Path) -> None:
    save_net(tmp_path / "net.safetensors", models.build(SPEC, 1), SPEC, META)
    save_net(tmp_path / "init.safetensors", models.build(SPEC, 2), SPEC, {**META, "seed": 8})
    assert load_net(tmp_path).init is None


def test_missing_and_foreign_files(tmp_path: Path, saved: Path) -> None:
    assert "none.safetensors does not exist" in refusal(tmp_path / "none.safetensors")
    assert "is a folder without net.safetensors" in refusal(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    assert "is an unfinished run; run cushion train again" in refusal(tmp_path)
    save_file({"w": torch.zeros(3)}, tmp_path / "foreign.safetensors")
    assert "was not written by cushion (no spec inside); give file.py:factory" in refusal(
        tmp_path / "foreign.safetensors"
    )
    assert "w.pt does not exist" in refusal(tmp_path / "w.pt")
    torch.save({"w": torch.zeros(3)}, tmp_path / "w.pt")
    assert "holds weights without a net; give file.py:factory" in refusal(tmp_path / "w.pt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pt")
    said = refusal(tmp_path / "whole.pt")
    assert "it holds torch.nn.modules.linear.Linear: a whole net, or a pickle with code" in said
    assert "save it again with torch.save(net.state_dict(), ...), and give file.py:factory" in said
    assert "w.py does not exist" in refusal(tmp_path / "w.py")
    assert "goes with file.py:factory" in (said := refusal(saved, weights=saved))
    assert said.endswith("leave it out")
    assert refusal(tmp_path / "w.py", weights=saved).endswith("w.py:FACTORY")


@pytest.mark.parametrize("keep", [0, 4, 100, -1, -200])
def test_a_truncated_file_is_malformed(saved: Path, keep: int) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[:keep])
    with pytest.raises(Malformed, match="is not a complete safetensors file"):
        load_net(saved)


def damage(
    path: Path, tensors: dict[str, torch.Tensor | None], metadata: dict[str, str] | None = None
) -> None:
    old, old_metadata = read_tensors(path)
    changed = {name: tensor for name, tensor in (old | tensors).items() if tensor is not None}
    save_tensors(path, changed, old_metadata | (metadata or {}))


def test_weights_that_do_not_fit_are_named(saved: Path) -> None:
    damage(saved, {"fc1.weight": torch.zeros(2, 2), "fc2.bias": None, "extra": torch.zeros(1)})
    message = refusal(saved)
    assert (
        "it lacks fc2.bias, has an unexpected extra, has fc1.weight of shape [2, 2] where the net "
        "needs [5, 48]" in message
    )


def test_many_misfits_are_summarised(saved: Path) -> None:
    damage(saved, {f"extra{i}": torch.zeros(1) for i in range(9)})
    assert refusal(saved).count("extra") == 5
    assert "and 4 more misfits" in refusal(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_no_number_is_named(saved: Path, value: float) -> None:
    damage(saved, {"fc2.bias": torch.tensor([0.0, value])})
    assert "tensor fc2.bias holds NaN or infinite values" in refusal(saved)


def test_other_formats_and_damaged_metadata(saved: Path) -> None:
    damage(saved, {}, {"spec": "1x4x4: nonsense"})
    assert "has damaged metadata: spec token 'nonsense'" in refusal(saved)
    damage(saved, {}, {"spec": str(SPEC), "metrics": "{"})
    assert "has damaged metadata" in refusal(saved)
    damage(saved, {}, {"format": "cushion-net-9"})
    assert "has format 'cushion-net-9', but this version reads 'cushion-net-1'" in refusal(saved)


def test_a_spec_with_absurd_sizes_is_refused_before_memory_is_taken(saved: Path) -> None:
    damage(saved, {}, {"spec": "10: fc99999999 fc2"})
    assert "past 1,000,000,000 parameters" in refusal(saved)
    damage(
        saved, {}, {"spec": "10000: fc90000 fc2"}
    )  # allowed, but 3.6 GB that this file does not hold
    assert "does not fit the net" in refusal(saved)


def test_the_net_is_checked_against_the_data(saved: Path) -> None:
    assert load_net(saved, input_shape=(1, 4, 4), classes=2).spec == SPEC
    assert "reads 1x4x4, but the data are 3x4x4" in refusal(saved, input_shape=(3, 4, 4))
    assert "gives 2 scores, but the data have 10 classes" in refusal(
        saved, input_shape=(1, 4, 4), classes=10
    )


def test_a_factory_with_weights_of_either_kind(tmp_path: Path, user_file: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    torch.save(net.state_dict(), tmp_path / "w.pt")
    x = torch.rand(2, 4)
    for name in ("w.safetensors", "w.pt"):
        loaded = load_net(f"{user_file}:net", weights=tmp_path / name, input_shape=(4,), classes=3)
        assert torch.equal(loaded.module(x), net(x))
        assert (loaded.spec, loaded.meta, loaded.module.training) == (None, {}, False)
    assert load_net(f"{user_file}:net").module(x).shape == (2, 3)


def test_bad_factories(tmp_path: Path, user_file: Path) -> None:
    assert "none.py does not exist" in refusal(tmp_path / "none.py:net")
    assert "mine.py has no function 'other'" in refusal(f"{user_file}:other")
    assert "mine.py has no function 'constant'" in refusal(f"{user_file}:constant")
    assert "mine.py:broken() raised RuntimeError: no" in refusal(f"{user_file}:broken")
    assert "mine.py:nothing() returned int; it must return an nn.Module" in refusal(
        f"{user_file}:nothing"
    )
    (tmp_path / "bad.py").write_text("import nowhere_at_all")
    assert "bad.py could not be imported: ModuleNotFoundError" in refusal(tmp_path / "bad.py:net")
    assert "cannot read examples of shape 5" in refusal(f"{user_file}:net", input_shape=(5,))
    assert "gives 3 scores, but the data have 4 classes" in refusal(
        f"{user_file}:net", input_shape=(4,), classes=4
    )


def test_bad_weights_for_a_factory(tmp_path: Path, user_file: Path) -> None:
    factory = f"{user_file}:net"
    assert "none.pt does not exist" in refusal(factory, weights=tmp_path / "none.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    assert "list.pt holds no state dict" in refusal(factory, weights=tmp_path / "list.pt")
    (tmp_path / "noise.pt").write_bytes(b"noise")
    assert "noise.pt is not a plain state dict" in refusal(factory, weights=tmp_path / "noise.pt")
    torch.save({"1.weight": torch.zeros(3, 4)}, tmp_path / "part.pt")
    assert "part.pt does not fit the net: it lacks 1.bias" in refusal(
        factory, weights=tmp_path / "part.pt"
    )
    torch.save(
        {"1.weight": torch.full((3, 4), torch.nan), "1.bias": torch.zeros(3)}, tmp_path / "nan.pt"
    )
    assert "nan.pt: tensor 1.weight holds NaN" in refusal(factory, weights=tmp_path / "nan.pt")


class Hostile:
    """Unpickled plainly, this creates a file."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.victim,))


@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_a_pickle_with_code_is_refused_and_not_run(
    tmp_path: Path, user_file: Path, writer: str
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "hostile.pt"
    if writer == "pickle":
        path.write_bytes(pickle.dumps(Hostile(victim)))
    else:
        torch.save({"1.weight": Hostile(victim)}, path)
    assert "a pickle with code in it, which is never run" in refusal(
        f"{user_file}:net", weights=path
    )
    assert not victim.exists()
    pickle.loads(pickle.dumps(Hostile(victim)))
    assert victim.exists()  # it would have


def test_an_exported_program_needs_trust(tmp_path: Path) -> None:
    net = models.build("4: fc3 relu fc2").eval()
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(2, 4),)), path)
    assert "whose loading can run code from it; add `trust`" in refusal(path)
    x = torch.rand(2, 4)
    assert torch.allclose(load_net(path, trust=True).module(x), net(x))
    path.write_bytes(b"noise")
    assert "is not a torch.export program" in refusal(path, trust=True)
    path.unlink()
    assert "net.pt2 does not exist" in refusal(path, trust=True)


def test_equal_nets_give_equal_files(tmp_path: Path) -> None:
    """safetensors writes its metadata in random order; ours is sorted, so runs can be compared with
    cmp.
    """
    contents = set()
    for number in range(6):
        save_net(
            tmp_path / f"{number}",
            models.build(SPEC, 0),
            SPEC,
            {"seed": 7, "recipe": "r", "data": "d", "width": 1.0},
        )
        contents.add((tmp_path / f"{number}").read_bytes())
    assert len(contents) == 1
    assert load_net(tmp_path / "0").meta["seed"] == 7
