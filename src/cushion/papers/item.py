"""One table or figure that can be reproduced."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from cushion.papers.pages import Page
    from cushion.papers.runner import Workshop


@dataclass(frozen=True)
class Item:
    """A table or figure: `maker` is "module:function", imported only when the item runs."""

    id: str
    title: str
    source: str  # the paper and the item in it, or "cushion" for our own tables
    claim: str  # of the source, as a sentence
    shows: str
    quick: str  # time on two cores at quick size
    recorded: str  # at the size that results/ holds: larger, but with fewer epochs than the paper's
    full: str  # with the paper's own settings
    maker: str

    def load(self) -> Callable[[Workshop], Page]:
        """The function that makes the page."""
        module, _, function = self.maker.partition(":")
        found: Any = getattr(import_module(module), function)
        return found  # type: ignore[no-any-return]
