"""Values on their way to SQLite's statements and back: spans are microseconds, a batch is one text.

Batches travel as one JSON parameter, so that a batch is one statement whatever its size.

Fewer statements also means fewer hand-overs of the interpreter lock between the writer's thread
and a busy event loop, each of which may cost milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from offpath.errors import StoreRejected
from offpath.model.job import Failure, JobState
from offpath.store.programs.aftermath import KEPT_FAILURES
from offpath.store.programs.dialect import Queries
from offpath.store.programs.instants import LAST, instant
from offpath.store.refusals import not_unicode
from offpath.store.sqlite.session import SQL

_encode = msgspec.json.Encoder().encode

# An escaped NUL that is not itself the text of an escape (an even run of backslashes before it).
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def batch(rows: Iterable[Any]) -> str:
    """``rows`` as JSON text.

    Raises ``StoreRejected`` for text that SQLite's JSON functions would not give back unchanged:
    lone surrogates cannot be encoded, and a NUL would silently cut the text.
    """
    try:
        text = _encode(rows if isinstance(rows, list | tuple) else list(rows)).decode()
    except UnicodeEncodeError as error:
        raise not_unicode() from error
    if "\\u0000" in text and _NUL.search(text):
        raise StoreRejected(
            "a text holds a NUL character, which SQLite would cut off: remove or escape it"
        )
    return text


def document(value: Any) -> str:  # noqa: ANN401 - whatever msgspec encodes
    """``value`` as JSON text that no statement takes apart. Raises ``StoreRejected``."""
    try:
        return _encode(value).decode()
    except UnicodeEncodeError as error:
        raise not_unicode() from error


def texts(values: tuple[str, ...]) -> str | None:
    """A list of texts as kept in one column: JSON, NULL when empty."""
    return _encode(values).decode() if values else None


def later(now: int, seconds: float) -> int:
    """``seconds`` after ``now``. Raises ``StoreRejected`` for a time that no datetime can hold."""
    try:
        at = now + round(seconds * 1_000_000)
    except (OverflowError, ValueError):  # infinity, not a number
        at = LAST + 1
    if not 0 <= at <= LAST:
        raise StoreRejected(
            f"{seconds} seconds from now is not a time that can be stored: give a smaller number"
        )
    return at


def span(seconds: float | None) -> int | None:
    """A duration in microseconds; it may be less than nothing."""
    if seconds is None:
        return None
    return later(0, seconds) if seconds >= 0 else -later(0, -seconds)


_encode = msgspec.json.Encoder().encode
_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_failures: Final = msgspec.json.Decoder(tuple[Failure, ...]).decode
OUTER: Final = {
    "scheduled": JobState.QUEUED,
    "ready": JobState.QUEUED,
    **{state.value: state for state in JobState if state is not JobState.QUEUED},
}
"""States as others see them."""


def dated(failure: Failure, now: int) -> Failure:
    """``failure`` with a time."""
    return failure if failure.at is not None else replace(failure, at=instant(now))


def failure_text(failure: Failure, now: int) -> str:
    """A failure as kept: a document. Raises ``StoreRejected``."""
    try:
        return _encode(dated(failure, now)).decode()
    except UnicodeEncodeError as error:
        raise not_unicode() from error


def failure_steps(now: int, failures: Sequence[tuple[int, Failure]]) -> Queries[None]:
    """Add failures to the histories of jobs, named by ``seq``; the oldest give way."""
    if not failures:
        return
    rows = []
    for job, failure in failures:
        # The type is only for filters; the document keeps it exactly.
        kind = failure.type.replace("\0", "\N{REPLACEMENT CHARACTER}")
        rows.append((job, kind, failure_text(failure, now)))
    yield SQL["record_failures"](failures=batch(rows))
    yield SQL["trim_histories"](jobs=batch([job for job, _, _ in rows]), keep=KEPT_FAILURES)
