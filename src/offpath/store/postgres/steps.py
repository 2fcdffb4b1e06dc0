"""The form of values for Postgres and of its answers: JSON, ids, times, states."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from offpath.model.job import JobState
from offpath.store.programs.dialect import Rows, Send, Steps
from offpath.store.refusals import not_unicode
from offpath.store.sql import Catalogue, Query

T = TypeVar("T")

_PUBLIC: Final = {
    **{state.value: state for state in JobState},
    "ready": JobState.QUEUED,
    "scheduled": JobState.QUEUED,
}

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NEVER: Final = 2**63 - 1
"""The number that ``offpath.micros`` makes of a time too late to be read; negative, of one too
early.
"""
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)

_encoder = msgspec.json.Encoder()
_canonical: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def told_the_time(
    query: Query, now: datetime | None, sql: Catalogue, *, first: tuple[Query, ...] = ()
) -> Steps[Rows]:
    """Send a statement that may put jobs back, in a transaction that knows a time that was given.

    The messages about announced jobs are written by the database, which otherwise takes its own.
    ``first`` go before it.
    """
    told = () if now is None else (sql["tell_the_time"](now=moment(now)),)
    answers = yield Send((*told, *first, query))
    return answers[-1]


def to_json(value: Any) -> str:  # noqa: ANN401 - whatever msgspec encodes
    """One JSON parameter. Raises ``StoreRejected`` for text that is not valid Unicode."""
    try:
        return _encoder.encode(value).decode()
    except (UnicodeEncodeError, ValueError) as error:
        raise not_unicode() from error


def ids_json(ids: Iterable[str]) -> str:
    """The ids that can exist, once each, as a JSON array. No job has another."""
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
    # Whole numbers throughout: a float of seconds would round the last microsecond.
    return EPOCH + timedelta(microseconds=micros)


def readable_time(micros: int) -> datetime:
    """The time of :func:`from_micros`, or the first or last time there is for one that cannot be
    read.
    """
    if abs(micros) < NEVER:
        return from_micros(micros)
    return _LAST if micros > 0 else _FIRST


def public(state: str) -> JobState:
    """The state that everybody sees."""
    return _PUBLIC[state]


def is_state(state: str) -> bool:
    """True if a column holds a state that we write."""
    return state in _PUBLIC


# The server takes a batch apart in memory, and ends a statement that lasts half a minute.
_CHUNK: Final = 2000
"""Rows that are added by one statement."""


def chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    """``items`` in pieces, of which each is added by one statement."""
    return (items[at : at + _CHUNK] for at in range(0, len(items), _CHUNK))
