"""Stats in the store: rows of spans, how they are merged, and what goes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from offpath.model.stats import (
    HOUR,
    MERGED,
    MINUTE,
    SECONDS,
    STEPS,
    StatRow,
    StatSpan,
    read,
    written,
)
from offpath.store.protocol import Store
from offpath.store.stats import MOST_STATS
from tests.conformance.builders import START

pytestmark = pytest.mark.needs("operating")

FIRST = START.replace(minute=0, second=0, microsecond=0)


def row(second: int, source: str, started: int = 1, step: int = SECONDS) -> StatRow:
    """A row of a process that started so many jobs."""
    span = StatSpan(jobs={"started": {"mail\nsend": started}})
    at = FIRST + timedelta(seconds=second)
    return StatRow(step=step, at=at, source=source, body=written(span))


async def told(
    store: Store, limit: int = MOST_STATS, *, named: bool = True
) -> list[tuple[int, int, str, int]]:
    """Step, second, source and started jobs of every row."""
    rows = await store.stats(
        since=FIRST - timedelta(days=100),
        until=FIRST + timedelta(days=1),
        limit=limit,
        named=named,
    )
    return [
        (
            one.step,
            int((one.at - FIRST).total_seconds()),
            one.source,
            sum(read(one.body).jobs.get("started", {}).values()),
        )
        for one in rows
    ]


async def test_a_row_is_added_once(store: Store) -> None:
    await store.put_stats((row(0, "a", 1), row(0, "b", 2)))
    await store.put_stats((row(0, "a", 9), row(10, "a", 3)))
    await store.put_stats(())
    assert await told(store) == [(10, 0, "a", 1), (10, 0, "b", 2), (10, 10, "a", 3)]
    assert await told(store, limit=1) == [(10, 10, "a", 3)]
    assert await told(store, limit=0) == []


async def test_rows_of_a_time_are_read(store: Store) -> None:
    await store.put_stats((row(0, "a"), row(10, "a"), row(20, "a")))
    at = FIRST + timedelta(seconds=10)
    assert [one.at for one in await store.stats(since=at, until=at + timedelta(seconds=10))] == [at]


async def test_rows_of_several_sources_become_one(store: Store) -> None:
    await store.put_stats((row(0, "a", 1), row(0, "b", 2), row(10, "a", 4)))
    first = FIRST + timedelta(seconds=SECONDS)
    assert await store.fold_stats(step=SECONDS, into=SECONDS, before=first)
    assert await told(store) == [(10, 0, MERGED, 3), (10, 10, "a", 4)]
    assert not await store.fold_stats(step=SECONDS, into=SECONDS, before=first)
    # one that came late is taken in
    await store.put_stats((row(0, "c", 5),))
    assert await store.fold_stats(step=SECONDS, into=SECONDS, before=first)
    assert await told(store) == [(10, 0, MERGED, 8), (10, 10, "a", 4)]


async def test_rows_of_a_span_become_one_of_the_next_step_once_it_is_over(store: Store) -> None:
    await store.put_stats((row(0, "a", 1), row(50, MERGED, 2), row(60, "a", 4)))
    minute = FIRST + timedelta(seconds=MINUTE)
    early = minute - timedelta(seconds=1)
    assert not await store.fold_stats(step=SECONDS, into=MINUTE, before=early)
    assert await store.fold_stats(step=SECONDS, into=MINUTE, before=minute)
    assert not await store.fold_stats(step=SECONDS, into=MINUTE, before=minute)
    assert await told(store) == [(10, 60, "a", 4), (60, 0, MERGED, 3)]
    assert await store.fold_stats(step=MINUTE, into=HOUR, before=FIRST + timedelta(hours=1))
    assert await told(store) == [(10, 60, "a", 4), (3600, 0, MERGED, 3)]


async def test_rows_of_every_step_become_one_of_the_next(store: Store) -> None:
    since = FIRST - timedelta(days=100)
    end = FIRST + timedelta(days=2)
    for step, into in pairwise(STEPS):
        await store.put_stats((row(0, "a", 1, step), row(step, "b", 2, step)))
        assert await store.fold_stats(step=step, into=into, before=end), step
        kept = [(one.step, one.source) for one in await store.stats(since=since, until=end)]
        assert kept == [(into, MERGED)]
    assert sum(started for *_, started in await told(store)) == 3 * (len(STEPS) - 1)


async def test_sums_are_those_of_the_rows_also_of_merged_ones(store: Store) -> None:
    await store.put_stats((row(0, "a", 1), row(10, "a", 2), row(70, "b", 4)))
    assert await told(store, named=False) == await told(store)
    minute = FIRST + timedelta(seconds=MINUTE)
    assert await store.fold_stats(step=SECONDS, into=MINUTE, before=minute)
    assert await told(store, named=False) == [(10, 70, "b", 4), (60, 0, MERGED, 3)]
    # one that came late is in the sums, too
    await store.put_stats((row(20, "late", 8),))
    assert await store.fold_stats(step=SECONDS, into=MINUTE, before=minute)
    assert await told(store, named=False) == [(10, 70, "b", 4), (60, 0, MERGED, 11)]
    assert await told(store, limit=1, named=False) == [(10, 70, "b", 4)]
    assert await told(store, limit=0, named=False) == []


async def test_several_who_merge_at_once_count_nothing_twice(store: Store) -> None:
    rows = [row(second, f"w{n}") for second in range(0, 60, 10) for n in range(4)]
    await store.put_stats(rows)
    minute = FIRST + timedelta(seconds=MINUTE)
    merging = (store.fold_stats(step=SECONDS, into=MINUTE, before=minute) for _ in range(4))
    await asyncio.gather(*merging, store.put_stats((row(30, "late", 5),)))
    while await store.fold_stats(step=SECONDS, into=MINUTE, before=minute):
        pass
    assert await told(store) == [(60, 0, MERGED, len(rows) + 5)]


async def test_old_rows_go(store: Store) -> None:
    await store.put_stats([row(n * HOUR, MERGED, step=HOUR) for n in range(3)])
    before = FIRST + timedelta(seconds=2 * HOUR)
    assert await store.prune_stats(step=MINUTE, before=before, limit=10) == 0
    assert await store.prune_stats(step=HOUR, before=before, limit=1) == 1
    assert await store.prune_stats(step=HOUR, before=before, limit=9) == 1
    assert await told(store) == [(HOUR, 2 * HOUR, MERGED, 1)]
