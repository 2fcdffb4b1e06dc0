"""Waiting jobs cost nothing: an idle worker does the same with thousands of them as without.

A worker idles for a time by a clock that the test moves. Compared are the calls to the store, the
statements, and the rows that were written and read.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any, NamedTuple, cast

import pytest

import offpath
from offpath import JobState
from offpath.runtime.clock import ManualClock
from tests.conformance.builders import START
from tests.integration import workflow_service as service
from tests.integration.polling import eventually
from tests.integration.scale import scaled

WAITING = 1000
"""Jobs at gates, and as many that wait for signals."""
IDLE = scaled(20, 60)
"""Seconds."""
QUIET = 0.03
"""Real seconds without a statement after which the worker has done what was due."""
MOMENTS = max(4, IDLE // 6)
FEW = WAITING // 2
"""Rows that may be read in passing: far from one for each that waits, in each of the rounds."""
COUNTED = 5
"""Rows and entries that a count of what waits reads for each of these jobs, at most."""


class Spent(NamedTuple):
    """The cost of an idle worker."""

    calls: Counter[str]
    """Of the store."""
    statements: Counter[str]
    written: int
    read: int


class Meter:
    """Counts what a store is asked for, when it last was, and what a SQLite file's writer wrote."""

    def __init__(self, url: str) -> None:
        self.statements: Counter[str] = Counter()
        self.last = 0.0
        self.store: Any = None
        self._file = url.startswith("sqlite")
        self._changes: list[int] = []

    def __call__(self, name: str) -> None:
        """Told of each statement before it is sent; on SQLite in the thread that writes."""
        self.statements[name] += 1
        self.last = time.monotonic()
        if self._file:
            self._changes.append(self.store._writer._session._connection.total_changes)

    @property
    def written(self) -> int:
        """Rows that the file's writer changed."""
        return self._changes[-1] - self._changes[0] if self._changes else 0


SHARED = frozenset({"begin", "commit", "synchronous", "synchronous_later"})
"""Statements of transactions: how many calls share one is chance, more so on a busy machine."""


@pytest.mark.timeout(120)
async def test_idle_workers_do_the_same_with_thousands_of_waiting_jobs_as_without(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)  # rests are not shortened at random
    clock = ManualClock(START)
    later = service.leaf.options(delay=86_400).job("later")
    async with _app(url, clock) as app:
        await app.enqueue(later)
    without = await _idle(url, clock)
    await _let_wait(url, clock, later.id)
    beside = await _idle(url, clock)
    for before, after in ((without.calls, beside.calls), (without.statements, beside.statements)):
        for name in (before | after).keys() - SHARED:
            # which round falls into it is chance; a busy machine skips some of them
            assert after[name] - before[name] <= MOMENTS + before[name] // 2, name
    assert beside.statements.total() - without.statements.total() < WAITING // 10
    assert beside.written <= without.written + MOMENTS
    # each look of the stats, one in ten seconds of the fleet, counts what waits up to a limit
    looks = beside.statements["set_stat"] + 1
    assert beside.read <= without.read + FEW + looks * COUNTED * WAITING


async def _let_wait(url: str, clock: ManualClock, later: str) -> None:
    """Jobs at gates on a job that is not due, and jobs that wait for signals."""
    async with _app(url, clock) as app:
        held = (service.leaf.job(f"held {number}") for number in range(WAITING))
        await app.enqueue([offpath.gate(on=[later], queue=[one]) for one in held])
        await app.enqueue([service.patient.job() for _ in range(WAITING)])
        await app.worker().run_until_idle()
        assert await app.jobs.count(state=JobState.BLOCKED) == 2 * WAITING


def _app(url: str, clock: ManualClock) -> offpath.App:
    made = offpath.App(url, clock=clock, auto_start=False)
    for task in service.app.tasks.values():
        made.tasks.add(task)
    return made


async def _idle(url: str, clock: ManualClock) -> Spent:
    meter = Meter(url)
    before = await asyncio.to_thread(_touched, url)
    app = _app(url, clock)
    async with app, app.worker():
        await _pass(5, clock, meter)  # what a start does once is done
        store = cast("Any", app.store())._inner
        meter.store = store
        store._before_statement = meter
        calls = _calls(app)
        await _pass(IDLE, clock, meter)
        store._before_statement = None
        calls = _calls(app) - calls
    # a server's counters are complete when the connections are gone
    after = await asyncio.to_thread(_touched, url)
    written, read = (now - then for now, then in zip(after, before, strict=True))
    return Spent(calls, meter.statements, meter.written or written, read)


def _calls(app: offpath.App) -> Counter[str]:
    """Operations of the store so far."""
    found = Counter[str]()
    for one in app.metrics.list("offpath_store_operation_seconds"):
        found[one.labels["operation"]] += int(one.value)
    return found


async def _pass(seconds: int, clock: ManualClock, meter: Meter) -> None:
    for _ in range(seconds):
        clock.advance(1.0)
        moved = time.monotonic()
        await eventually(
            lambda: time.monotonic() - max(meter.last, moved) > QUIET,  # noqa: B023
            within=20,
            what="the worker has done what is due",
        )


def _touched(url: str) -> tuple[int, int]:
    """Rows of our tables on a server that were written and read so far."""
    if url.startswith("sqlite"):
        return 0, 0
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(
            """
            select
                sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint,
                sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint
            from pg_stat_user_tables where schemaname = 'offpath'
            """
        ).fetchone()
    assert row is not None
    return row[0], row[1]
