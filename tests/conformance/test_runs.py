"""Runs of sweeps and settlements are kept, the newest of each name, and listed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from offpath.model.run import MOST_KEPT, RunKind, RunRecord, RunReport
from offpath.model.tally import Verdict
from offpath.store.protocol import Store
from tests.conformance.builders import START, uid

pytestmark = pytest.mark.needs("operating")


def run(number: int, name: str = "carts", kind: RunKind = RunKind.SWEEP) -> RunRecord:
    at = START + timedelta(seconds=number)
    report = RunReport(verdict=Verdict.DEGRADED, counts={"moved": number, "failed": 1}, cause="x")
    return RunRecord(id=uid(number), kind=kind, name=name, at=at, report=report)


async def test_a_run_is_kept_as_it_went_and_once(store: Store) -> None:
    first = run(1)
    await store.put_run(first)
    await store.put_run(run(1, "other"))
    assert await store.runs() == [first]


async def test_runs_are_listed_newest_first_by_kind_and_name(store: Store) -> None:
    carts = [run(number) for number in (1, 3, 5)]
    bonus = [run(number, "bonus", RunKind.SETTLEMENT) for number in (2, 4)]
    for one in (*carts, *bonus):
        await store.put_run(one)
    everything = sorted([*carts, *bonus], key=lambda one: one.id, reverse=True)
    assert await store.runs() == everything
    assert await store.runs(kind=RunKind.SETTLEMENT) == bonus[::-1]
    assert await store.runs(name="carts", limit=2) == carts[:0:-1]
    assert await store.runs(after=uid(3)) == everything[3:]
    assert await store.runs(kind=RunKind.SETTLEMENT, name="carts") == []
    assert await store.runs(limit=0) == []


async def test_the_newest_of_each_name_are_kept(store: Store) -> None:
    await store.put_run(run(1, "bonus", RunKind.SETTLEMENT))
    await store.put_run(run(2, "other"))
    for number in range(3, MOST_KEPT + 6):
        await store.put_run(run(number))
    left = await store.runs(name="carts", limit=200)
    assert [one.id for one in left] == [uid(n) for n in range(MOST_KEPT + 5, 5, -1)]
    assert len(await store.runs(limit=200)) == MOST_KEPT + 2


async def test_those_who_keep_at_once_lose_none(store: Store) -> None:
    await asyncio.gather(*(store.put_run(run(number)) for number in range(1, 21)))
    assert [one.id for one in await store.runs()] == [uid(n) for n in range(20, 0, -1)]
