"""A large fan-out is queued in pieces: all of it or nothing, once, in order, by short commits."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from offpath import App, Context, JobState, Plan, Snooze, Unique
from offpath.config import Settings
from offpath.jobs.values import fan_out
from offpath.model import fan_out as bounds
from offpath.model.effects import Effects
from offpath.model.job import JobRecord
from offpath.runtime.clock import ManualClock
from offpath.runtime.ids import new_id
from offpath.store.protocol import Store

pytestmark = pytest.mark.needs("workflows")

PIECE, WHOLE, MANY = 5, 10, 23
SETTINGS = Settings(max_children=WHOLE)


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand jobs take minutes here, and a bound is a bound."""
    monkeypatch.setattr(bounds, "PIECE", PIECE)
    monkeypatch.setattr(bounds, "WHOLE", WHOLE)


class Watching:
    """A store that notes how many jobs each settlement makes."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.made: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def settle(self, settlements: Any) -> Any:
        self.made.append(sum(len(one.effects.jobs) for one in settlements))
        return await self._inner.settle(settlements)


@pytest.fixture
def watched(store: Store) -> Watching:
    return Watching(store)


@pytest.fixture
async def app(watched: Watching, clock: ManualClock) -> AsyncIterator[App]:
    async with App(store=watched, clock=clock, auto_start=False, settings=SETTINGS) as made:
        yield made


async def run(app: App) -> None:
    await app.worker().run_until_idle()


async def stored(app: App, task: str) -> list[JobRecord]:
    return list((await app.jobs.find(task=task, limit=1_000)).items)


class Numbers:
    """A task that notes its calls, and one that queues many of it."""

    def __init__(self, app: App, *, by: str = "plan", fails: int = 0) -> None:
        self.app, self.seen = app, []  # type: ignore[var-annotated]
        self.attempts = 0

        @app.task(name="child")
        async def child(ctx: Context, n: int) -> Plan[int, int]:
            self.seen.append(n)
            return ctx.result(1, append=operator.add)

        @app.task(name="lead", retry=3)
        async def lead(ctx: Context) -> Any:
            self.attempts += 1
            jobs = [child.job(n) for n in range(MANY)]
            plan = ctx.queue(*jobs) if by == "plan" else None
            if plan is None:
                ctx.enqueue(jobs)
            if self.attempts <= fails:
                raise RuntimeError("crashed before its end was recorded")
            return plan

        self.child, self.lead = child, lead


@pytest.mark.parametrize("by", ["plan", "enqueue"])
async def test_all_are_queued_in_their_order_and_no_transaction_makes_many(
    app: App, watched: Watching, by: str
) -> None:
    numbers = Numbers(app, by=by)
    handle = await numbers.lead.enqueue()
    await app.worker(concurrency=1).run_until_idle()
    assert numbers.seen == list(range(MANY))
    assert await handle == MANY
    assert watched.made[0] == 5  # pieces: 23 by 5
    assert max(watched.made) <= WHOLE
    parents = {job.parent for job in await stored(app, "child")}
    groups = {job.group_id for job in await stored(app, "child")}
    assert (parents, groups) == ({handle.id}, {handle.id})


async def test_a_failed_attempt_queues_nothing_and_the_next_one_everything_once(
    app: App, clock: ManualClock
) -> None:
    numbers = Numbers(app, fails=1)
    await numbers.lead.enqueue()
    await run(app)
    assert await stored(app, bounds.TASK) == await stored(app, "child") == []
    clock.advance(60)
    await run(app)
    assert sorted(numbers.seen) == list(range(MANY))


async def test_a_piece_that_runs_again_queues_nothing_twice(app: App, store: Store) -> None:
    numbers = Numbers(app)
    await numbers.lead.enqueue()
    await app.worker().run_until_idle(limit=1)
    pieces = await stored(app, bounds.TASK)
    assert len(pieces) == 5  # 23 by 5
    await run(app)
    for piece in pieces:
        repeat = Effects(jobs=fan_out.queued_by(piece, fan_out.decoded(piece.input)))
        assert {one.created for one in await store.commit(repeat)} == {False}
    assert sorted(numbers.seen) == list(range(MANY))


async def test_the_group_is_open_until_the_last_of_them_has_ended(app: App) -> None:
    numbers = Numbers(app)
    handle = await numbers.lead.enqueue()
    worker = app.worker(concurrency=1)
    done: list[tuple[int, int]] = []
    await worker.start()
    try:
        while not done or done[-1][0]:
            await worker.run_until_idle(limit=1)
            group = await app.groups.get(handle.id)
            done.append((group.open, len(numbers.seen)))
    finally:
        await worker.stop()
    assert [seen for left, seen in done if not left] == [MANY]


async def test_what_may_be_refused_or_is_counted_is_made_with_the_end(
    app: App, watched: Watching
) -> None:
    ran: list[str] = []

    @app.task(name="child")
    async def child(n: int) -> None:
        ran.append("child")

    @app.task(name="last")
    async def last() -> None:
        ran.append("last")

    @app.task(name="lead")
    async def lead(ctx: Context) -> Any:
        free = [child.job(n) for n in range(MANY)]
        kept = child.options(unique="only one").job(100)
        named = child.options(id=new_id()).job(101)
        counted = [child.job(n) for n in (200, 201)]
        return ctx.queue(*free, kept, named, ctx.queue(*counted).next(last.job()))

    await lead.enqueue()
    await app.worker().run_until_idle(limit=1)
    there = await stored(app, "child")
    assert len(there) == 4
    assert len(await stored(app, "last")) == 1
    await run(app)
    assert Counter(ran) == {"child": MANY + 4, "last": 1}


async def test_a_taken_key_still_fails_the_attempt(app: App) -> None:
    @app.task(name="child")
    async def child(n: int) -> None: ...

    @app.task(name="lead", retry=1)
    async def lead(ctx: Context) -> Any:
        free = [child.job(n) for n in range(MANY)]
        return ctx.queue(*free, child.options(unique=Unique(key="k", policy="refuse")).job(100))

    await child.options(unique="k", delay=3600).enqueue(1)
    handle = await lead.enqueue()
    await run(app)
    assert (await app.jobs.get(handle.id)).state is JobState.DEAD
    assert len(await stored(app, "child")) == 1
    assert await stored(app, bounds.TASK) == []


async def test_more_than_one_transaction_may_make_is_refused_with_what_to_do(app: App) -> None:
    @app.task(name="child")
    async def child(n: int) -> None: ...

    @app.task(name="lead")
    async def lead(ctx: Context) -> Any:
        return ctx.queue(*(child.job(n) for n in range(WHOLE + 1))).next(child.job(-1))

    @app.task(name="late")
    async def late(ctx: Context) -> None:
        ctx.enqueue([child.options(unique=f"k{n}").job(n) for n in range(WHOLE + 1)])
        raise Snooze(60)

    refused = [await lead.enqueue(), await late.enqueue()]
    await run(app)
    for handle in refused:
        record = await app.jobs.get(handle.id)
        assert record.failure is not None
        assert (record.state, record.reason) == (JobState.DEAD, "invalid_plan")
        assert "max_children" in record.failure.message
    assert await stored(app, "child") == []


async def test_times_count_from_the_end_of_the_attempt_however_late_a_piece_runs(
    app: App, clock: ManualClock
) -> None:
    @app.task(name="child")
    async def child(n: int) -> None: ...

    @app.task(name="lead")
    async def lead(ctx: Context) -> Any:
        return ctx.queue(*(child.job(n) for n in range(MANY)), delay=3600)

    await lead.enqueue()
    await app.worker().run_until_idle(limit=1)
    ended = clock.now()
    clock.advance(600)
    await run(app)
    due = [job.run_at - ended for job in await stored(app, "child")]
    assert len(due) == MANY
    assert all(timedelta(0) <= timedelta(hours=1) - one < timedelta(seconds=1) for one in due)


async def test_a_job_that_snoozes_queues_its_many_anew_each_time(
    app: App, clock: ManualClock
) -> None:
    rounds: list[int] = []

    @app.task(name="child")
    async def child(n: int) -> None:
        rounds.append(n)

    @app.task(name="lead")
    async def lead(ctx: Context) -> None:
        ctx.enqueue([child.job(n) for n in range(MANY)])
        if len(rounds) < MANY:
            raise Snooze(60)

    await lead.enqueue()
    await run(app)
    clock.advance(61)
    await run(app)
    assert Counter(rounds) == dict.fromkeys(range(MANY), 2)


async def test_cancelling_the_group_ends_what_is_not_queued_yet(app: App) -> None:
    numbers = Numbers(app)
    handle = await numbers.lead.enqueue()
    await app.worker().run_until_idle(limit=1)
    await app.groups.cancel(handle.id)
    await run(app)
    assert numbers.seen == []
    assert {job.state for job in await stored(app, bounds.TASK)} == {JobState.CANCELLED}


async def test_who_is_asked_what_runs_here_is_not_asked_about_pieces(app: App) -> None:
    numbers = Numbers(app)
    await numbers.lead.enqueue()
    asked: set[str] = set()

    def accept(offer: Any) -> bool:
        asked.add(offer.task)
        return offer.task in {"lead", "child"}

    await app.worker(accept=accept).run_until_idle()
    assert sorted(numbers.seen) == list(range(MANY))
    assert asked == {"lead", "child"}


async def test_pieces_go_to_the_queues_of_their_jobs(app: App) -> None:
    """There are workers of those, wherever the job itself has run."""

    @app.task(name="child", queue="bulk")
    async def child(n: int) -> None: ...

    @app.task(name="lead")
    async def lead(ctx: Context) -> Any:
        others = [child.options(queue="other").job(n) for n in range(MANY)]
        return ctx.queue(*(child.job(n) for n in range(MANY)), *others)

    await lead.enqueue()
    await app.worker(queues=["default"]).run_until_idle()
    assert {job.queue for job in await stored(app, bounds.TASK)} == {"bulk", "other"}
    await run(app)
    assert len(await stored(app, "child")) == 2 * MANY
