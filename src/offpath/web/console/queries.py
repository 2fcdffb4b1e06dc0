"""Queries: the filters of a URL, whose names are those of the commands' options."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.runtime.ids import parse_id

FILTERS: Final = (
    "state", "task", "queue", "tag", "group", "parent", "reason", "error_type", "fault",
)  # fmt: skip
TIMES: Final = ("enqueued_after", "enqueued_before", "finished_after", "finished_before")
"""Filters that are times: ``2026-12-01T08:00`` in UTC, any other zone, or ``15m`` ago."""
_SINGLE: Final = frozenset({"group", "parent"})
_PAGE: Final = ("after", "limit")
_WORDS: Final = {
    "error": "error_type",
    "text": "text",
    "after": "enqueued_after",
    "before": "enqueued_before",
    **{name: name for name in (*FILTERS, *TIMES) if name != "fault"},
}
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

    def where(self, *without: str, now: datetime | None = None) -> dict[str, Any]:
        """The filter of jobs. Raises ``InvalidArgument`` for a time that is none."""
        found: dict[str, Any] = {}
        for name in FILTERS:
            values = self.many(name)
            if values and name not in without:
                found[_TARGETS.get(name, name)] = values[-1] if name in _SINGLE else values
        for name in TIMES:
            if (given := self.one(name)) is not None:
                found[name] = moment(given, name, now)
        return found

    def newest(self) -> bool:
        """True unless the oldest are asked for first. Raises ``InvalidArgument``."""
        given = self.one("sort")
        if given not in {None, *SORTS}:
            raise InvalidArgument(f"sort is {' or '.join(SORTS)}, not {given!r:.40}")
        return given != "oldest"

    def text(self, **changed: str | None) -> str:
        """The query with fields changed, as it stands in a URL; None takes one out."""
        kept = [pair for pair in self.pairs if pair[0] not in changed]
        given = [(name, value) for name, value in changed.items() if value is not None]
        return urlencode([*kept, *given])

    def matching(self, now: datetime, **changed: str | None) -> str:
        """The query of what is seen now, for an action: what is a span ago is a time from then on.

        Else it would have moved by the time that the action is confirmed.
        """
        gone = {"after", "limit", "sort", *changed}
        fixed = [
            (name, moment(value, name, now).isoformat() if name in TIMES else value)
            for name, value in self.pairs
            if name not in gone
        ]
        given = [(name, value) for name, value in changed.items() if value is not None]
        return urlencode([*fixed, *given])

    def without(self, name: str, value: str) -> str:
        """The query without one of its filters."""
        dropped = {(name, value), ("after", self.one("after"))}
        return urlencode([pair for pair in self.pairs if pair not in dropped])


_TARGETS: Final = {"tag": "tags", "group": "group_id"}
SORTS: Final = ("newest", "oldest")
JOB_NAMES: Final = (*FILTERS, *TIMES, "text", "sort", *_PAGE)
MESSAGE_NAMES: Final = ("box", "stream", "topic", "state", "key", "reason", *_PAGE)
LOG_NAMES: Final = ("domain", *_PAGE)
ATTEMPT_NAMES: Final = ("event", "status", "sort", *_PAGE)
STATS_NAMES: Final = (
    "range", "compare", "from", "to", "step", "queue", "task", "stream", "router",
)  # fmt: skip
ACTION_NAMES: Final = ("state", "verb", "actor", *_PAGE)


def moment(text: str, name: str, now: datetime | None = None) -> datetime:
    """A time of a filter: ISO 8601, in UTC where it says no zone, or a span ago, as ``90s``,
    ``15m``, ``2h`` or ``7d``. Raises ``InvalidArgument``.
    """
    size = _SPANS.get(text[-1:])
    if size is not None and text[:-1].isdecimal() and text.isascii():
        seconds = min(int(text[:-1][:_DIGITS]) * size, _LONGEST_AGO)
        return (now or datetime.now(UTC)) - timedelta(seconds=seconds)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{name} is a time, as 2026-12-01T08:00Z, or a span ago, as 15m, 2h or 7d, "
            f"not {text[:60]!r}"
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_SPANS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DIGITS: Final = 9
_LONGEST_AGO: Final = 20 * 365 * 86_400


def searched(text: str) -> tuple[str, str]:
    """The path and the query that a text of the search field leads to.

    ``task:``, ``queue:``, ``tag:``, ``state:``, ``group:``, ``parent:``, ``reason:`` and ``error:``
    are filters, ``after:`` and ``before:`` times of being enqueued, ``text:`` is a word of an error
    or an argument. An id is a job, any other word the name of a task.
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
    words = {name: word for word, name in reversed(_WORDS.items())}
    return " ".join(f"{words[name]}:{value}" for name, value in pairs if name in words)


def _id(word: str) -> str | None:
    try:
        return parse_id(word, "id")
    except InvalidArgument:
        return None
