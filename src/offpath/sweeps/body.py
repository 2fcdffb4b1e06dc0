"""A user's sweep in one form: coroutines and threads, rows and whole passes."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Protocol

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.tally import Tally
from offpath.runtime.threads import Threads
from offpath.sweeps.context import SweepContext

LONGEST_ID = 500
SYNC_CALLS = 4
"""Threads for the sync methods of one sweep: one is used, the others stand in for those that hang.
"""
ADVANCED = "advanced"
"""The bucket of a row whose ``advance`` returned None."""


class RowSweep(Protocol):
    """A sweep that takes rows one by one; each method may be sync, and then runs in a thread.

    It may also have ``row_id(row) -> str``, ``failed(ctx, row, error, now)`` and
    ``skip() -> str | None``; see the guide on sweeps.
    """

    async def claim(self, ctx: SweepContext, now: datetime, limit: int) -> Iterable[Any]:
        """Up to ``limit`` due rows, oldest due first, each with its due time pushed."""
        ...

    async def advance(self, ctx: SweepContext, row: Any, now: datetime) -> str | None:  # noqa: ANN401
        """Take one row one step further; returns the bucket that it belongs to now."""
        ...


class PassSweep(Protocol):
    """A sweep whose pass is one bounded, set-based transition."""

    async def run(self, ctx: SweepContext, now: datetime, limit: int) -> Tally:
        """Move up to ``limit`` rows; returns what became of them."""
        ...


class Body:
    """Calls the methods of a sweep, in the event loop or in a thread."""

    def __init__(self, target: object) -> None:
        self._target = target
        self._threads: Threads | None = None

    @property
    def by_rows(self) -> bool:
        """True if it takes rows one by one."""
        return hasattr(self._target, "advance")

    @property
    def records_failures(self) -> bool:
        """True if it wants to be told about rows that failed."""
        return hasattr(self._target, "failed")

    def skip(self) -> str | None:
        """The reason why there is nothing to do at all here, if there is a reason."""
        ask = getattr(self._target, "skip", None)
        return None if ask is None else ask()

    async def claim(self, ctx: SweepContext, now: datetime, limit: int) -> list[Any]:
        """The claimed rows: those within the limit, and at most as many beyond it."""
        rows = await self._call("claim", ctx, now, limit)
        if isinstance(rows, AsyncIterable):
            return await _first(rows, 2 * limit)
        if not isinstance(rows, Iterable) or isinstance(rows, str | bytes):
            kind = type(rows).__name__
            raise InvalidArgument(f"{ctx.sweep}: claim must return rows (a list), not {kind}")
        return list(islice(rows, 2 * limit))

    async def advance(self, ctx: SweepContext, row: object, now: datetime) -> str:
        """The bucket of a row that was taken further."""
        bucket = await self._call("advance", ctx, row, now)
        return ADVANCED if bucket is None else _bucket(bucket, ctx.sweep, "advance")

    async def failed(
        self, ctx: SweepContext, row: object, error: Exception, now: datetime
    ) -> str | None:
        """Have a failure recorded; the bucket, when the sweep names one."""
        bucket = await self._call("failed", ctx, row, error, now)
        return None if bucket is None else _bucket(bucket, ctx.sweep, "failed")

    async def run(self, ctx: SweepContext, now: datetime, limit: int) -> Tally:
        """The tally of a whole pass."""
        tally = await self._call("run", ctx, now, limit)
        if not isinstance(tally, Tally):
            kind = type(tally).__name__
            raise InvalidArgument(
                f"{ctx.sweep}: run must return an offpath.sweeps.Tally, not {kind}"
            )
        return tally

    def row_id(self, row: object) -> str:
        """The id of a row: by ``row_id``, ``row.id``, ``row["id"]``, or the row if it is a str.

        Raises ``InvalidArgument`` when there is none.
        """
        given = getattr(self._target, "row_id", None)
        found = _id_of(row) if given is None else given(row)
        if found is None or not str(found):
            raise InvalidArgument(
                f"a row of the type {type(row).__name__} has no id: give it .id or ['id'], "
                "or give the sweep a method row_id(self, row)"
            )
        return str(found)[:LONGEST_ID]

    async def _call(self, name: str, *args: object) -> Any:  # noqa: ANN401 - the user's
        method = getattr(self._target, name)
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            answer = method(*args)
        else:
            answer = await self._in_thread(partial(_called, method, args))
        return await answer if inspect.isawaitable(answer) else answer

    def _in_thread(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        if self._threads is None:
            # Its own: a sweep that hangs takes no thread from the jobs or from another sweep.
            self._threads = Threads(SYNC_CALLS, name="offpath-sweep")
            weakref.finalize(self, self._threads.close)
        return self._threads.run(call)


def _called(method: Callable[..., Any], args: tuple[Any, ...]) -> Any:  # noqa: ANN401 - the user's
    """The return value of a sync method; rows that are made as they are read are read here, in its
    thread.

    A generator, or a cursor, does its work when it is asked for rows: not in the event loop.
    """
    answer = method(*args)
    if not isinstance(answer, Iterator) or inspect.isawaitable(answer):
        return answer
    limit: Any = args[-1]
    return list(islice(answer, 2 * limit)) if isinstance(limit, int) else answer


def _id_of(row: object) -> object:
    if isinstance(row, str):
        return row
    if (found := getattr(row, "id", None)) is not None:
        return found
    unknown: Any = row
    try:
        return unknown["id"]
    except (TypeError, KeyError, IndexError):
        return None


async def _first(rows: AsyncIterable[Any], most: int) -> list[Any]:
    found: list[Any] = []
    async for row in rows:
        found.append(row)
        if len(found) >= most:
            break
    return found


def _bucket(value: object, sweep: str, method: str) -> str:
    return str(checks.name(value, f"{sweep}: what {method} returns (the bucket)"))
