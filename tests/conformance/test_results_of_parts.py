"""Fan-in: a job reads what it has waited for, in the order listed, typed by the task."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

import offpath
from offpath import App, Context, JobState, Plan, Unique
from offpath.batch_tasks import BatchContext
from offpath.errors import JobNotFound
from offpath.jobs.handler import fan_in
from offpath.records import PartOutcome
from tests.sqlite_files import migrated_url

pytestmark = pytest.mark.needs("workflows")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> App:
    """An app on a store of each kind, without a worker of its own."""
    if request.param == "postgres":
        url = str(request.getfixturevalue("swept_postgres"))
    else:
        url = "memory://" if request.param == "memory" else migrated_url(tmp_path / "jobs.db")
    return App(url, auto_start=False)


async def test_results_come_in_the_order_listed_whatever_ran_first(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_in, "PAGE", 3)
    read: dict[str, object] = {}

    @app.task
    async def square(n: int) -> int:
        return n * n

    @app.task
    async def day(n: int) -> date:
        return date(2026, 1, n)

    @app.task
    async def join(ctx: Context) -> int:
        read["days"] = await ctx.results(day)
        read["squares"] = await ctx.results(square)
        return sum(await ctx.results(square))

    @app.task
    async def split(ctx: Context) -> Plan[None, object]:
        squares = [square.options(priority=n).job(n) for n in range(8)]
        return ctx.queue(*squares, day.job(2), day.job(1)).next(join.job())

    async with app:
        handle = await split.enqueue()
        await app.worker().run_until_idle()
        assert await handle.group() == sum(n * n for n in range(8))
    assert read["squares"] == [n * n for n in range(8)]
    assert read["days"] == [date(2026, 1, 2), date(2026, 1, 1)]


async def test_each_of_a_chain_reads_the_one_before_it(app: App) -> None:
    @app.task
    async def first() -> int:
        return 2

    @app.task
    async def second(ctx: Context) -> str:
        (number,) = await ctx.results(first)
        return "x" * number

    @app.task
    async def third(ctx: Context) -> int:
        (text,) = await ctx.results(second)
        assert await ctx.results(first) == []  # it waited for the second alone
        return len(text) + 1

    @app.task
    async def chain(ctx: Context) -> Plan[None, int | str]:
        return ctx.queue(first.job()).next(second.job()).next(third.job())

    async with app:
        handle = await chain.enqueue()
        await app.worker().run_until_idle()
        assert await handle.group() == 3


async def test_outcomes_tell_of_those_that_failed_too(app: App) -> None:
    read: list[PartOutcome] = []

    @app.task
    async def good(n: int) -> date:
        return date(2026, 1, n)

    @app.task(retry=1)
    async def bad() -> int:
        raise RuntimeError("no")

    @app.task
    async def join(ctx: Context) -> int:
        read.extend(await ctx.outcomes())
        assert await ctx.results(bad) == []
        return len(await ctx.results(good))

    async with app:
        parts = [good.job(3), bad.job(), good.job(1)]
        gate = offpath.gate(on=parts, queue=[join.job()], when=offpath.all_settled)
        *handles, held = await app.enqueue([*parts, gate])
        await app.worker().run_until_idle()
        assert await held.group() == 2
        assert [one.id for one in read] == [handle.id for handle in handles]
    assert [one.state for one in read] == [JobState.SUCCEEDED, JobState.DEAD, JobState.SUCCEEDED]
    assert [one.value for one in read] == [date(2026, 1, 3), None, date(2026, 1, 1)]
    assert [one.task for one in read] == [good.name, bad.name, good.name]
    failure = read[1].failure
    assert failure is not None
    assert failure.message == "no"
    assert read[0].failure is None


async def test_a_part_that_attached_to_another_job_gives_that_ones_value(app: App) -> None:
    @app.task(unique=Unique(key="one"))
    async def once(n: int) -> int:
        return n

    @app.task
    async def join(ctx: Context) -> Sequence[int]:
        return await ctx.results(once)

    async with app:
        first = await once.enqueue(5)
        part = once.job(5)
        *_, held = await app.enqueue([part, offpath.gate(on=[part], queue=[join.job()])])
        await app.worker().run_until_idle()
        assert await first.result() == 5
        assert await held.group() == [5]


async def test_who_waited_for_nothing_has_no_parts_and_a_deleted_one_is_told(app: App) -> None:
    @app.task
    async def part(n: int) -> int:
        return n

    @app.task(retry=1)
    async def join(ctx: Context) -> int:
        return len(await ctx.results(part)) + len(await ctx.outcomes())

    async with app:
        assert await _value(app, await join.enqueue()) == 0
        one = part.job(1)
        gate = offpath.gate(on=[one], queue=[join.job()])
        handle, _ = await app.enqueue([one, gate])
        await app.worker().run_until_idle(limit=1)
        await app.store().delete([handle.id])
        await app.worker().run_until_idle()
        (dead,) = (await app.jobs.find(state=JobState.DEAD)).items
        assert dead.failure is not None
        assert dead.failure.type == JobNotFound.__name__
        assert handle.id in dead.failure.message


async def test_a_thread_and_a_batch_item_read_them_too(app: App) -> None:
    @app.task
    async def part(n: int) -> int:
        return n

    @app.task
    def in_a_thread(ctx: Context) -> int:
        return sum(ctx.blocking(ctx.results(part)))

    @app.batch_task(size=5)
    async def in_a_batch(ctx: BatchContext, names: list[str]) -> list[int]:
        return [sum(await item.results(part)) for item in ctx.items]

    async with app:
        for last in (in_a_thread.job(), in_a_batch.job("x")):
            parts = [part.job(n) for n in (1, 2, 3)]
            *_, held = await app.enqueue([*parts, offpath.gate(on=parts, queue=[last])])
            await app.worker().run_until_idle()
            assert await held.group() == 6


@pytest.mark.timeout(180)
@pytest.mark.parametrize("app", ["sqlite", "postgres"], indirect=True)
async def test_ten_thousand_results_of_8_kb_are_read_in_the_memory_of_some_hundred(
    app: App,
) -> None:
    """80 MB pass through the job that joins them."""
    many, size, peaks = 10_000, 8_000, list[float]()

    @app.task(priority=1)
    async def part(n: int) -> str:
        return f"{n:06}" + "x" * (size - 6)

    @app.task
    async def join(ctx: Context) -> int:
        last = number = -1
        with _traced(peaks):
            async for value in ctx.each_result(part):
                number = int(value[:6])
                assert number == last + 1
                last = number
        return number + 1

    async with app:
        parts = [part.job(n) for n in range(many)]
        *_, held = await app.enqueue([*parts, offpath.gate(on=parts, queue=[join.job()])])
        await app.worker().run_until_idle()
        assert await held.group() == many
    assert peaks[0] < many * size / 4


@contextmanager
def _traced(peaks: list[float]) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


async def test_what_is_read_one_by_one_is_what_the_lists_have(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_in, "PAGE", 2)
    read: list[object] = []

    @app.task
    async def part(n: int) -> int:
        return n

    @app.task
    async def join(ctx: Context) -> None:
        read.append([each async for each in ctx.each_result(part)] == await ctx.results(part))
        read.append([each async for each in ctx.each_outcome()] == await ctx.outcomes())
        read.append(len(await ctx.outcomes()))

    async with app:
        parts = [part.job(n) for n in range(5)]
        await app.enqueue([*parts, offpath.gate(on=parts, queue=[join.job()])])
        await app.worker().run_until_idle()
    assert read == [True, True, 5]


async def _value(app: App, handle: offpath.Handle[int, int]) -> int:
    await app.worker().run_until_idle()
    return await handle.result()
