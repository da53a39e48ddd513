"""Records as pictures, on demand: needs matplotlib, reads records only.

A module of this folder that names the records it draws (`OF`) has their `pictures`, by name.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from cushion.errors import BadInput
from cushion.papers.canvas import new_figure, save
from cushion.records import Record


def prepare(folder: str) -> None:
    """Refuse before the work: matplotlib must be there, and only folders in the way."""
    new_figure()
    there = next(path for path in (Path(folder), *Path(folder).parents) if path.exists())
    if not there.is_dir():
        raise BadInput(f"--figures {folder}: {there} is a file; give a folder")


def draw(found: Record, folder: str) -> list[Path]:
    """Every picture that the record has the numbers for."""
    modules = (import_module(f"{__name__}.{one.name}") for one in iter_modules(__path__))
    fitting = [module for module in modules if isinstance(found, getattr(module, "OF", ()))]
    drawn = (picture for module in fitting for picture in module.pictures(found))
    return [path for name, figure in drawn for path in save(figure, Path(folder), name)]
