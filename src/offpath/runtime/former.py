"""Former names of methods: each works for one release, warns, and is not listed by ``dir()``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Former(NamedTuple):
    """A method that has a new name."""

    method: str
    """The attribute that does what the former name did."""
    advice: str
    """The words to write instead."""


def former_names(kind: str, names: Mapping[str, Former]) -> Callable[[object, str], object]:
    """Make the ``__getattr__`` of a class from a table: former name → what stands for it now."""

    def get(self: object, name: str) -> object:
        former = names.get(name)
        if former is None:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        warnings.warn(
            f"{kind}.{name} goes with the next release: use {former.advice}",
            DeprecationWarning,
            stacklevel=2,
        )
        found: object = getattr(self, former.method)
        return found

    return get
