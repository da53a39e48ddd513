"""A compressed net as torch knows nets, and as other programs read it: plain dense weights."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from cushion.compressors.file import CompressedNet, read_compressed
from cushion.data.files import check_writable, write_whole
from cushion.errors import BadInput
from cushion.nets.loading.weights import save_tensors
from cushion.nets.network import Network, NetworkModule
from cushion.nets.operations import Affine


class DenseNet(NetworkModule):
    """The net that a file stands for, as a module that can be trained further.

    Its parameters have the names of the layers: `conv1.weight`, `conv1.bias`. Units that no weight
    makes or reads are gone, so a layer may be smaller than in the net that was compressed.
    """

    def __init__(self, network: Network, compressed: CompressedNet | None = None) -> None:
        nn.Module.__init__(self)
        self.compressed, self._frame = compressed, network
        self._leaves: dict[int, nn.Module] = {}
        taken: set[str] = set()
        for node in network.affine_layers:
            leaf = self._leaf(_free(node.name, taken))
            for part, value in _parts(node.affine).items():
                own = None if value is None else nn.Parameter(value.detach().clone())
                leaf.register_parameter(part, own)
            self._leaves[node.index] = leaf

    def _leaf(self, path: str) -> nn.Module:
        """A module of that dotted name, made with those above it."""
        at: nn.Module = self
        for part in path.split("."):
            if part not in at._modules:
                at.add_module(part, nn.Module())
            at = at.get_submodule(part)
        return at

    @property
    def network(self) -> Network:  # type: ignore[override]
        """The net with the parameters as they are now, cut off from their gradients."""
        return self._with(lambda part: part.detach())

    def _with(self, read: Callable[[Tensor], Tensor]) -> Network:
        changes = {}
        for node in self._frame.affine_layers:
            own, affine = self._leaves[node.index]._parameters, node.affine
            weight, bias = own["weight"], own["bias"]
            assert weight is not None
            operator = affine.operator.with_weight(read(weight))
            bias_ = None if bias is None else read(bias)
            changes[node.index] = replace(affine, operator=operator, bias=bias_)
        return self._frame.with_affine(changes)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> DenseNet:
        nn.Module._apply(self, fn, recurse)  # type: ignore[no-untyped-call]
        self._frame = self._frame.mapped(fn)  # operations that are no layers have tensors too
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self._with(lambda part: part).evaluate(x)


def load_compressed(path: str | Path) -> DenseNet:
    """The net of a file that `compress` wrote, to evaluate; its `compressed` is what is stored."""
    found = read_compressed(path)
    module = DenseNet(found.network, found)
    module.eval()
    return module


def export(net: DenseNet, to: str, path: str | Path) -> Path:
    """Write the net for other programs, whole or not at all.

    safetensors: its parameters by name. torch: a .pt2 program that `torch.export.load` reads, for
    any number of rows. onnx: the same for ONNX Runtime; needs the packages onnx and onnxscript.
    """
    out = check_writable(path)
    if to == "safetensors":
        save_tensors(out, dict(net.state_dict()), {"format": "pt"})
        return out
    if to not in ("torch", "onnx"):
        raise BadInput(f"`to` = {to} must be safetensors, torch or onnx")
    shape = net.network.input_shape
    example = torch.zeros(2, *shape, dtype=net.network.dtype)
    rows = ({0: torch.export.Dim("rows", min=1)},)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if to == "torch":
            if out.suffix != ".pt2":
                raise BadInput(f"{out} must end in .pt2, as torch.export.load asks")
            program = torch.export.export(net, (example,), dynamic_shapes=rows)
            held = io.BytesIO()
            torch.export.save(program, held)
            return write_whole(out, held.getvalue())
        try:
            import onnx  # noqa: F401
            import onnxscript  # noqa: F401
        except ImportError:
            raise BadInput("`to` = onnx needs onnx: pip install 'cushion[onnx]'") from None
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "net.onnx"
            torch.onnx.export(
                net,
                (example,),
                file,
                dynamic_shapes=rows,
                input_names=["x"],
                output_names=["scores"],
                dynamo=True,
                external_data=False,
                verbose=False,
            )
            return write_whole(out, file.read_bytes())


def _parts(affine: Affine) -> dict[str, Tensor | None]:
    return {"weight": affine.operator.weight, "bias": affine.bias}


def _free(name: str, taken: set[str]) -> str:
    """The name as a path of modules; another where a module has such an attribute itself, or where
    it is, or lies under, that of another layer.
    """
    own = {*dir(nn.Module()), *dir(DenseNet), "compressed", "weight", "bias"}
    parts = [part if part and part not in own else f"layer_{part}" for part in name.split(".")]
    found, number = ".".join(parts), 2
    if any(one.startswith(f"{found}.") or found.startswith(f"{one}.") for one in taken):
        found = found.replace(".", "_")
    plain = found
    while found in taken or any(one.startswith(f"{found}.") for one in taken):
        found, number = f"{plain}_{number}", number + 1
    taken.add(found)
    return found
