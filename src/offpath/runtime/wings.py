"""Wings: parts that stand on an app, and add to what an operator sees and may do.

The rooms of operators know no wing: each adds itself when the first of its kind is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct


class Wing(Struct, frozen=True, kw_only=True):
    """A wing. What it has is loaded when it is asked for."""

    name: str
    holds: Callable[[Any], bool]
    """True if an app has something of it: without that none of its pages is there."""
    verbs: Callable[[], Iterable[Any]]
    """The verbs that it adds."""
    pages: Callable[[], Any]
    """The pages that it adds to the dashboard."""


WINGS: Final[list[Wing]] = []
"""The wings of this process."""


def add_wing(wing: Wing) -> None:
    """Add a wing. One of its name that is there stays."""
    if all(one.name != wing.name for one in WINGS):
        WINGS.append(wing)
