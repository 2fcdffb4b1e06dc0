"""Colours of states on a terminal. No colour says what the word in it does not."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final, TextIO

import click

_GOOD, _BUSY, _WAITS, _BAD, _OVER = "green", "cyan", "yellow", "red", "bright_black"
_COLOURS: Final = {
    **dict.fromkeys(("succeeded", "done", "delivered", "fine", "healthy", "live", "ok"), _GOOD),
    **dict.fromkeys(("running", "open"), _BUSY),
    **dict.fromkeys(("blocked", "paused", "late", "warning", "quiet", "disabled"), _WAITS),
    **dict.fromkeys(("dead", "failed", "problem", "unhealthy", "error", "unreachable"), _BAD),
    **dict.fromkeys(("cancelled", "gone", "stopped"), _OVER),
}
_COLUMNS: Final = frozenset({"", "state", "health", "outcome", "last run"})
"""The headings of columns, and the names of fields, that hold states."""


def coloured(stream: TextIO) -> bool:
    """True if colours may be sent there: to a terminal whose user has not asked for none."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def state(column: str, text: str) -> str:
    """A cell or a value with its colour, if its column holds states. Blanks behind it stay."""
    return painted(text) if column in _COLUMNS else text


def states(columns: Iterable[str], cells: Iterable[str]) -> list[str]:
    """The cells of a row with their colours."""
    return [state(column, cell) for column, cell in zip(columns, cells, strict=True)]


def verdict(text: str) -> str:
    """A line that is a verdict, or begins with one and a colon: that word in its colour."""
    return text if " " in text.partition(":")[0] else painted(text)


def painted(text: str) -> str:
    """A text whose first word is a state: that word in its colour."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    colour = _COLOURS.get(word.rstrip(":"))
    if colour is None:
        return text
    bare = word.rstrip(":")
    return text.replace(bare, click.style(bare, fg=colour), 1)
