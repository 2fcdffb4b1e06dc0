"""Pages of documents: what a list answers, and where the next one begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

D = TypeVar("D", bound=Struct)
T = TypeVar("T")


class DocumentPage(Struct, Generic[D], frozen=True, kw_only=True):
    """A page of documents; ``next`` is given back as ``after``, and None at the end."""

    items: tuple[D, ...]
    next: str | None


def after_full(found: Sequence[T], limit: int, place: Callable[[T], str]) -> str | None:
    """The place of a full page's last row: one that is not full is the end."""
    return place(found[-1]) if found and len(found) >= limit else None
