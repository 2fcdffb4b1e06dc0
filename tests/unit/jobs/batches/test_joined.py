"""Batch tasks: what a handler joins to the end of each job, over every backend."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import offpath
from offpath import App, Handle, JobState, Plan
from offpath.batch_tasks import BatchContext
from offpath.model.ledger.chart import STORED_VALUE
from offpath.model.ledger.posting import Entry, NewPosting
from tests.servers import migrate
from tests.sqlite_files import migrated_url

ANN = "ann:spendable"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("database_from_template")("schema", migrate))
    return "memory://" if request.param == "memory" else migrated_url(tmp_path / "jobs.db")


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    retry = offpath.RetryOptions(attempts=3, base=0, jitter=0.0)
    async with App(url, auto_start=False, migrate=True, retry=retry) as app:
        yield app


@pytest.fixture
def leaf(app: App) -> Any:
    @app.task
    async def leaf(n: int) -> int:
        return n

    return leaf


async def idle(app: App) -> None:
    await app.worker().run_until_idle()


async def ended(handle: Handle[Any, Any]) -> tuple[JobState, str | None]:
    record = await handle.status()
    return record.state, record.reason


async def test_what_is_joined_goes_with_its_own_job(app: App, leaf: Any) -> None:
    @app.batch_task(size=4, max_wait=600)
    async def work(ctx: BatchContext, numbers: list[int]) -> list[int | Exception]:
        for item, n in zip(ctx.items, numbers, strict=True):
            item.enqueue(leaf.job(n))
            item.publish("worked", n)
            item.append("work", "worked", str(n), n)
        return [offpath.Abort("no") if n == 2 else n for n in numbers]

    handles = await app.enqueue([work.job(n) for n in (1, 2, 3)])
    await idle(app)
    children = (await app.jobs.find(task="leaf")).items
    assert {one.parent: int(one.input[5:-1]) for one in children} == {
        handles[0].id: 1,
        handles[2].id: 3,
    }
    assert {one.group_id for one in children} == {handles[0].id, handles[2].id}
    events = (await app.messages.find()).items
    assert sorted(one.payload for one in events) == ["1", "3"]
    assert {event.stream for event in await app.store().read_events()} == {"1", "3"}


async def test_a_retry_joins_it_once(app: App, leaf: Any) -> None:
    @app.batch_task(size=4, max_wait=600)
    async def work(ctx: BatchContext, numbers: list[int]) -> list[int | Exception]:
        for item, n in zip(ctx.items, numbers, strict=True):
            item.enqueue(leaf.job(n))
        return [
            OSError("no") if item.attempt < n else n
            for item, n in zip(ctx.items, numbers, strict=True)
        ]

    handles = await app.enqueue([work.job(n) for n in (1, 2, 3)])
    await idle(app)
    assert [await handle.result() for handle in handles] == [1, 2, 3]
    assert await app.jobs.count(task="leaf") == 3


async def test_a_posting_that_is_not_taken_fails_its_own_job(app: App) -> None:
    @app.batch_task(size=4, max_wait=600)
    async def credit(ctx: BatchContext, amounts: list[int]) -> list[int]:
        for item, amount in zip(ctx.items, amounts, strict=True):
            entries = (Entry(STORED_VALUE, amount), Entry(ANN, -amount))
            item.post(NewPosting(id=f"{item.id}/credit", entries=entries, meta={"kind": "topUp"}))
        return amounts

    good, bad = await app.enqueue([credit.job(500), credit.job(-900)])
    await idle(app)
    assert await good.result() == 500
    assert await ended(bad) == (JobState.DEAD, "exhausted")
    (account,) = await app.store().ledger_accounts(ids=[ANN])
    assert account.balance == 500


async def test_a_child_that_is_not_taken_fails_its_own_job(app: App, leaf: Any) -> None:
    @app.batch_task(size=4, max_wait=600, retry=1)
    async def work(ctx: BatchContext, numbers: list[int]) -> list[int]:
        for item, n in zip(ctx.items, numbers, strict=True):
            item.enqueue(leaf.options(unique="taken" if n < 3 else "free", delay=60).job(n))
        return numbers

    handles = await app.enqueue([work.job(n) for n in (1, 2, 3)])
    await idle(app)
    ends = [await ended(handle) for handle in handles]
    assert sorted(ends[:2]) == [(JobState.DEAD, "exhausted"), (JobState.SUCCEEDED, None)]
    assert ends[2] == (JobState.SUCCEEDED, None)
    assert await app.jobs.count(task="leaf") == 2


# -- plans ------


async def test_each_job_may_have_a_plan_of_its_own(app: App, leaf: Any) -> None:
    @app.batch_task(size=4, max_wait=600)
    async def fan(ctx: BatchContext, numbers: list[int]) -> list[Plan[None, int] | Exception]:
        return [
            ValueError("none") if n == 0 else item.queue(leaf.job(n)).next(leaf.job(10 * n))
            for item, n in zip(ctx.items, numbers, strict=True)
        ]

    first, none, second = await app.enqueue([fan.job(1), fan.options(retry=1).job(0), fan.job(2)])
    await idle(app)
    assert [await first, await second] == [10, 20]
    assert await ended(first) == (JobState.SUCCEEDED, None)
    assert await ended(none) == (JobState.DEAD, "exhausted")
    assert await app.jobs.count(task="leaf") == 4


async def test_the_values_of_groups_are_folded_exactly(app: App) -> None:
    @app.batch_task(size=10, max_wait=600)
    async def count(ctx: BatchContext, numbers: list[int]) -> list[Plan[int, int]]:
        return [
            item.result(n, append=operator.add) for item, n in zip(ctx.items, numbers, strict=True)
        ]

    @app.task
    async def root(ctx: offpath.Context) -> Plan[None, int]:
        return ctx.queue(*(count.job(1) for _ in range(40)))

    handle = await root.enqueue()
    await idle(app)
    assert await handle == 40


async def test_a_plan_that_is_not_its_jobs_output_is_an_error_of_that_job(
    app: App, leaf: Any
) -> None:
    @app.batch_task(size=4, max_wait=600)
    async def careless(ctx: BatchContext, names: list[str]) -> list[Any]:
        pairs = zip(names, ctx.items, strict=True)
        plans = {name: item.queue(leaf.job(1)) for name, item in pairs if name != "swapped"}
        given = {"good": plans["good"], "lost": 1, "swapped": plans["good"]}
        return [given[name] for name in names]

    good, lost, swapped = await app.enqueue(
        [careless.job(name) for name in ("good", "lost", "swapped")]
    )
    await idle(app)
    assert await good == 1
    assert await ended(lost) == (JobState.DEAD, "invalid_plan")
    assert await ended(swapped) == (JobState.DEAD, "invalid_plan")
    with pytest.raises(offpath.JobDead, match="made by the context of another job"):
        await swapped.result()


async def test_a_task_that_is_not_strict_drops_it(app: App, leaf: Any) -> None:
    @app.batch_task(size=4, max_wait=600, strict=False)
    async def careless(ctx: BatchContext, names: list[str]) -> list[int]:
        for item in ctx.items:
            item.queue(leaf.job(1))
        return [1 for _ in names]

    handle = await careless.enqueue("a")
    await idle(app)
    assert await handle.result() == 1
    assert await app.jobs.count(task="leaf") == 0


def test_an_app_that_is_not_strict_has_no_strict_batch_tasks() -> None:
    lax = App(strict=False)

    @lax.batch_task(size=4)
    async def work(ctx: BatchContext, names: list[str]) -> list[str]:
        return names

    @lax.batch_task(size=4, strict=True)
    async def strict(ctx: BatchContext, names: list[str]) -> list[str]:
        return names

    assert (work.strict, strict.strict) == (False, True)


async def test_nothing_is_joined_after_the_end(app: App, leaf: Any) -> None:
    contexts: list[BatchContext] = []

    @app.batch_task(size=4, max_wait=600)
    async def keeps(ctx: BatchContext, numbers: list[int]) -> list[int]:
        contexts.append(ctx)
        return numbers

    await keeps.enqueue(1)
    await idle(app)
    with pytest.raises(offpath.InvalidArgument, match="has ended"):
        contexts[0].items[0].enqueue(leaf.job(1))
