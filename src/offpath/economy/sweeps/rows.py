"""The rows of one pass, several at once, so that what they decide is written in few transactions.

The core's sweeps (``offpath.sweeps.rows``) take one row after the other: theirs are the user's own,
in transactions that nobody can share.

Each row has an error boundary of its own, in which also the recording of its failure lies: what
goes wrong there is the row's alone, and its lease brings it back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from offpath.economy.sweeps.context import Pass, code_of, expected
from offpath.economy.sweeps.summaries import Coded
from offpath.model.ledger.records import SideRow

AT_ONCE = 128
"""Rows in hand at the same time: as many as one transaction has room for."""

Found = tuple[str, Any]
"""The bucket of a row, and what the summary has of it."""
Step = Callable[[Pass, SideRow], Awaitable[Found | None]]
OnError = Callable[[Pass, SideRow, Exception], Awaitable[Found | None]]
FIRST_WAIT = 30.0
LONGEST_WAIT = 3_600.0


def after_failures(run: Pass, failures: int) -> int:
    """The time when a row that failed so often is looked at again (ms): each time twice as late, at
    most an hour.
    """
    wait = min(FIRST_WAIT * 2.0 ** min(max(failures - 1, 0), 30), LONGEST_WAIT)
    return run.at + round(wait * 1000)


async def leased(run: Pass, kind: str, hold: float) -> list[SideRow]:
    """The due rows of a kind, each with its due time pushed by ``hold`` seconds."""
    rows = await run.store.lease_sides(kind, limit=run.limit, hold=hold, now=run.at)
    run.more = len(rows) >= run.limit
    return rows


async def each_row(
    run: Pass,
    rows: Sequence[SideRow],
    step: Step,
    failed: OnError,
    bucket: str,
    *,
    most: int = AT_ONCE,
) -> dict[str, tuple[Any, ...]]:
    """Take each row one step; what the summary has of them, by bucket, in the order of the rows.

    At most ``most`` rows are in hand. ``failed`` records what ``step`` raised; when that fails too
    the row is in ``bucket`` with the code of the first error. Raises nothing but what ends the
    process or the pass.
    """

    async def one(row: SideRow) -> Found | None:
        try:
            return await step(run, row)
        except Exception as error:  # noqa: BLE001 - this row's alone, told in the summary
            return await _failed(run, row, error, failed, bucket)

    found: dict[str, list[Any]] = {}
    for outcome in await at_once(rows, one, most):
        if outcome is not None:
            found.setdefault(outcome[0], []).append(outcome[1])
    return {bucket: tuple(several) for bucket, several in found.items()}


async def _failed(
    run: Pass, row: SideRow, error: Exception, failed: OnError, bucket: str
) -> Found | None:
    if not expected(error):
        run.report(error, f"economy:{row.kind}")
    try:
        return await failed(run, row, error)
    except Exception as second:  # noqa: BLE001 - the row comes back when its lease ends
        if not expected(second):
            run.report(second, f"economy:{row.kind}")
        code = code_of(error)
        event = f"worker.{row.kind}s.unrecorded"
        run.tell(logging.WARNING, event, id=row.id, code=code, second=code_of(second))
        return bucket, Coded(row.id, code)


R = TypeVar("R")
T = TypeVar("T")


async def at_once(
    items: Sequence[T], act: Callable[[T], Awaitable[R]], most: int = AT_ONCE
) -> list[R]:
    """The results of ``act`` for the items, in their order, with at most ``most`` of them going.

    The first that raises ends the others, and is raised.
    """
    answers: dict[int, R] = {}
    waiting = iter(enumerate(items))
    tasks = [
        asyncio.ensure_future(_serve(waiting, act, answers)) for _ in range(min(most, len(items)))
    ]
    try:
        for task in asyncio.as_completed(tasks):
            await task
    finally:
        for left in tasks:
            left.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [answers[index] for index in range(len(items))]


async def _serve(
    waiting: Iterator[tuple[int, T]], act: Callable[[T], Awaitable[R]], answers: dict[int, R]
) -> None:
    for index, item in waiting:
        answers[index] = await act(item)
