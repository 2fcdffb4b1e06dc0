"""Late names: public names of a package that are loaded when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def late_names(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Make the ``__getattr__`` of a package from a table: name → the module that has it.

    The package itself is imported with the core, so it must not import what few processes use.
    """

    def get(name: str) -> object:
        if name not in places:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=None
            )
        value: object = getattr(importlib.import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
