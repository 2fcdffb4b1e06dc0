"""Transitions as generators that do no I/O: they yield statements and are sent the rows.

So one transition runs on our own pool, in a caller's transaction on any driver, and in a test.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from offpath.errors import StoreRejected
from offpath.model.job import JobState
from offpath.store.sql import Catalogue, Query, Row

T = TypeVar("T")

Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Send:
    """Statements that go out together. ``last``: nothing follows, so COMMIT goes with them."""

    queries: tuple[Query, ...]
    last: bool = False
    severable: bool = False
    """It does no harm if the first of them are kept and the others are not."""


@dataclass(slots=True)
class Announced:
    """Whether a transition changed jobs that are announced, so that there may be messages."""

    any: bool = False
    moved: set[JobState] = field(default_factory=set)
    """What other jobs, of which no answer tells, have become."""

    def hear(self, bits: Iterable[int | None]) -> None:
        """Take in what the changed jobs announce."""
        self.any = self.any or any(bits)


Steps = Generator[Send, list[Rows], T]
"""A transition on our own connection: it may send several statements at once."""

Enqueueing = Generator[Query, Sequence[Row], T]
"""A transition that any connection can run, one statement at a time."""

_PUBLIC: Final = {
    **{state.value: state for state in JobState},
    "ready": JobState.QUEUED,
    "scheduled": JobState.QUEUED,
}

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NEVER: Final = 2**63 - 1
"""What ``offpath.micros`` makes of a time too late to be read; negative, of one too early."""
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)

_encoder = msgspec.json.Encoder()
_canonical: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def ask(query: Query, *, last: bool = False) -> Steps[Rows]:
    """Send one statement; returns its rows."""
    (rows,) = yield Send((query,), last)
    return rows


def one(query: Query) -> Steps[Rows]:
    """A transaction of one statement."""
    return (yield from ask(query, last=True))


def told_the_time(
    query: Query, now: datetime | None, sql: Catalogue, *, first: tuple[Query, ...] = ()
) -> Steps[Rows]:
    """Send a statement that may put jobs back, in a transaction that knows a time that was given.

    The messages about announced jobs are written by the database, which else takes its own.
    ``first`` go before it.
    """
    told = () if now is None else (sql["tell_the_time"](now=moment(now)),)
    answers = yield Send((*told, *first, query))
    return answers[-1]


def embed(steps: Enqueueing[T]) -> Steps[T]:
    """Run one-at-a-time steps as a part of a transaction of our own."""
    try:
        query = next(steps)
        while True:
            try:
                rows = yield from ask(query)
            except GeneratorExit:
                steps.close()
                raise
            query = steps.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


def to_json(value: Any) -> str:  # noqa: ANN401 - whatever msgspec encodes
    """One JSON parameter. Raises ``StoreRejected`` for text that is not valid Unicode."""
    try:
        return _encoder.encode(value).decode()
    except (UnicodeEncodeError, ValueError) as error:
        message = f"a value is not valid Unicode text and cannot be stored: {error}"
        raise StoreRejected(message) from None


def ids_json(ids: Iterable[str]) -> str:
    """The ids that can exist, once each, as a JSON array. Others are no job's id."""
    return to_json(sorted({known for one in ids if (known := job_id(one)) is not None}))


def job_id(text: str) -> str | None:
    """``text`` as a canonical job id, None when it is none."""
    try:
        # nearly all are canonical: no object is made to find that out
        return text if _canonical(text) else str(UUID(text))
    except (ValueError, AttributeError, TypeError):
        return None


def moment(now: datetime | None) -> str | None:
    """A time as a parameter; None is the database's own clock."""
    return None if now is None else now.isoformat()


def from_micros(micros: int) -> datetime:
    """The time of a whole number of microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)


def readable_time(micros: int) -> datetime:
    """As :func:`from_micros`, but the first or last time there is for one that cannot be read."""
    if abs(micros) < NEVER:
        return from_micros(micros)
    return _LAST if micros > 0 else _FIRST


def public(state: str) -> JobState:
    """The state that everybody sees."""
    return _PUBLIC[state]


def is_state(state: str) -> bool:
    """Whether a column holds a state that we write."""
    return state in _PUBLIC


def chunks(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    """``items`` in pieces of at most ``size``."""
    return (items[at : at + size] for at in range(0, len(items), size))
