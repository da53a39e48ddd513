"""cushion: measure why a classifier generalises, compress it, and prove a bound on its error.

Three lines to a result::

    table = cushion.measure(model, train_set)   # records; .to_frame() for a DataFrame
    cert = cushion.certify(model, train_set)    # cert.bound, cert.save(path)
    cushion.verify(path, train_set)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# The public names, written once: a type checker follows these imports, which never run; `_HOME` is
# read off this module's own instructions. Each is resolved on first use: no torch until then.
if TYPE_CHECKING:
    from cushion.certificates.certificate import Certificate as Certificate
    from cushion.certificates.certify import certify as certify
    from cushion.certificates.features import BackboneOptions as BackboneOptions
    from cushion.certificates.holdout.certificate import NoBetter as NoBetter
    from cushion.certificates.picks.options import PicksOptions as PicksOptions
    from cushion.certificates.recheck import verify as verify
    from cushion.compressors.dense import export as export
    from cushion.compressors.dense import load_compressed as load_compressed
    from cushion.compressors.run import compress as compress
    from cushion.data import Dataset as Dataset
    from cushion.data import as_dataset as as_dataset
    from cushion.data import load as load
    from cushion.data import load_pair as load_pair
    from cushion.errors import BadInput as BadInput
    from cushion.errors import CushionError as CushionError
    from cushion.errors import Malformed as Malformed
    from cushion.errors import Unsupported as Unsupported
    from cushion.measures.conditions.family import ConditionOptions as ConditionOptions
    from cushion.measures.sharpness.family import SharpnessOptions as SharpnessOptions
    from cushion.measures.stability.family import StabilityOptions as StabilityOptions
    from cushion.measures.support import support as support
    from cushion.measures.table import margins as margins
    from cushion.measures.table import measure as measure
    from cushion.measures.table import noise_sensitivity as noise_sensitivity
    from cushion.measures.tails.family import TailOptions as TailOptions
    from cushion.nets.loading.weights import load_net as load_net
    from cushion.nets.tracing import trace as trace
    from cushion.theorems.bounds import bounds as bounds
    from cushion.theorems.options import BoundOptions as BoundOptions
    from cushion.training.imp import train_imp as train_imp
    from cushion.training.training import train as train

__version__ = "0.1.0"

if not TYPE_CHECKING:  # a type checker sees the imports above, and no other names
    import dis as _dis
    from importlib import import_module as _import_module
    from sys import _getframe

    _HOME, _module = {}, ""
    for _step in _dis.get_instructions(_getframe().f_code):
        if _step.opname == "IMPORT_NAME":
            _module = _step.argval
        elif _step.opname == "IMPORT_FROM" and _module.startswith("cushion."):
            _HOME[_step.argval] = _module
    __all__ = sorted(_HOME)

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module 'cushion' has no attribute {name!r}")
        return getattr(_import_module(_HOME[name]), name)

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
