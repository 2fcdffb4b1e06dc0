"""The errors that every backend raises alike: each has its one text here."""

from __future__ import annotations

from offpath.errors import InvalidArgument, StoreRejected


def not_unicode() -> StoreRejected:
    """The error for text that cannot be encoded."""
    return StoreRejected(
        "a text holds a lone surrogate (half a character), which cannot be stored: remove it"
    )


def no_position() -> InvalidArgument:
    """The error for a position that no page has given."""
    return InvalidArgument("after= is not a position: give the `next` of the page before")
