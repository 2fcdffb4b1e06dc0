"""Loops that parts above the app add to each worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offpath.runtime.loop import LoopSpec

ADDED_LOOPS: list[Callable[[Any], LoopSpec | None]] = []
"""Each makes, for an app, a loop that its worker drives, or None where the app's store lacks what
it is for; the package names them. They stand below the app, so that naming one loads nothing.
"""
