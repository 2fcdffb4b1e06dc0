"""Queries: the filters of a URL, whose names are those of the commands' options."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.runtime.ids import parse_id

FILTERS: Final = ("state", "task", "queue", "tag", "group", "reason", "error_type")
_PAGE: Final = ("after", "limit")
_WORDS: Final = {"error": "error_type", "text": "text", **{name: name for name in FILTERS}}
"""The words before a colon in the search field."""
_LONGEST: Final = 200
"""Rows of one page."""
ROWS: Final = 50


class RequestQuery:
    """The fields of one request's query."""

    def __init__(self, text: str, known: Collection[str]) -> None:
        pairs = parse_qsl(text, keep_blank_values=False, max_num_fields=100)
        if unknown := sorted({name for name, _ in pairs} - set(known)):
            listed = ", ".join(known) or "none"
            raise InvalidArgument(f"there is no filter {', '.join(unknown)}; here are: {listed}")
        self.pairs = pairs

    def many(self, name: str) -> tuple[str, ...]:
        """Every value of a field."""
        return tuple(value for field, value in self.pairs if field == name)

    def one(self, name: str) -> str | None:
        """The last value of a field."""
        return next(iter(self.many(name)[::-1]), None)

    def limit(self) -> int:
        """The number of rows that is asked for. Raises ``InvalidArgument``."""
        given = self.one("limit")
        if given is None:
            return ROWS
        if not given.isascii() or not given.isdecimal():
            raise InvalidArgument(f"limit must be a number from 1 to {_LONGEST}, not {given!r}")
        return checks.integer(int(given[:9]), "limit", least=1, most=_LONGEST)

    def where(self, *without: str) -> dict[str, Any]:
        """The filter of jobs."""
        found: dict[str, Any] = {}
        for name in FILTERS:
            values = self.many(name)
            if values and name not in without:
                found[_TARGETS.get(name, name)] = values[-1] if name == "group" else values
        return found

    def text(self, **changed: str | None) -> str:
        """The query with fields changed, as it stands in a URL; None takes one out."""
        kept = [pair for pair in self.pairs if pair[0] not in changed]
        given = [(name, value) for name, value in changed.items() if value is not None]
        return urlencode([*kept, *given])

    def without(self, name: str, value: str) -> str:
        """The query without one of its filters."""
        dropped = {(name, value), ("after", self.one("after"))}
        return urlencode([pair for pair in self.pairs if pair not in dropped])


_TARGETS: Final = {"tag": "tags", "group": "group_id"}
JOB_NAMES: Final = (*FILTERS, "text", *_PAGE)
MESSAGE_NAMES: Final = ("box", "stream", "topic", "state", "key", "reason", *_PAGE)
LOG_NAMES: Final = ("domain", *_PAGE)
ATTEMPT_NAMES: Final = ("event", "status", *_PAGE)
STATS_NAMES: Final = ("range", "queue", "task", "stream", "router")
ACTION_NAMES: Final = ("state", "verb", "actor", *_PAGE)


def searched(text: str) -> tuple[str, str]:
    """The path and the query that a text of the search field leads to.

    ``task:``, ``queue:``, ``tag:``, ``state:``, ``group:``, ``reason:`` and ``error:`` are filters,
    ``text:`` is a word of an error or an argument. An id is a job, any other word the name of a
    task.
    """
    pairs: list[tuple[str, str]] = []
    for word in text.split():
        name, colon, value = word.partition(":")
        if colon and value and name in _WORDS:
            pairs.append((_WORDS[name], value))
        elif (job_id := _id(word)) is not None:
            return f"/jobs/{job_id}", ""
        else:
            pairs.append(("task", word))
    return "/jobs", urlencode(pairs)


def field_text(pairs: Iterable[tuple[str, str]]) -> str:
    """The text of the search field for these filters."""
    short: Mapping[str, str] = {"error_type": "error"}
    return " ".join(f"{short.get(name, name)}:{value}" for name, value in pairs if name in _WORDS)


def _id(word: str) -> str | None:
    try:
        return parse_id(word, "id")
    except InvalidArgument:
        return None
