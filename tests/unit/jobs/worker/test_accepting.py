"""Workers that do not want every job, and workers that fall behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from offpath import App
from offpath.errors import InvalidArgument, StoreUnavailable
from offpath.jobs.values.offers import BackedUp, Offer
from offpath.jobs.values.run import Run, StoreTime
from offpath.jobs.worker.acceptance import LONGEST, PASSED_OVER, REMEMBERED, JobSelection
from offpath.jobs.worker.worker import Worker
from offpath.model.job import JobState, LeasedJob
from tests.unit.jobs.worker.rig import Rig

# -- accept ------------------------------------------------------------------------------------


async def test_a28_164_a_declined_job_is_not_started_and_nothing_counts(rig: Rig) -> None:
    ran: list[str] = []

    async def one() -> None:
        ran.append("one")

    rig.task(one)
    job = await rig.enqueue("one", attempts=1)
    await rig.started(accept=lambda offer: False, max_deliveries=1)
    await rig.pass_time(120)
    record = await rig.record(job)
    assert ran == []
    assert (record.state, record.attempt, record.losses) == (JobState.QUEUED, 1, 0)
    assert record.reason == "declined"
    assert record.deliveries <= 5  # it is not offered again for 30 s
    assert rig.errors == []


async def test_a28_180_each_worker_runs_what_it_accepts(rig: Rig) -> None:
    ran: list[str] = []

    async def blue(number: int) -> None:
        ran.append(f"blue {number}")

    async def red(number: int) -> None:
        ran.append(f"red {number}")

    rig.task(blue)
    rig.task(red)
    first = await rig.started(accept=lambda offer: offer.task == "blue", concurrency=2)
    second = await rig.started(accept=lambda offer: offer.task == "red", concurrency=2)
    jobs = [
        await rig.enqueue(name, f'{{"number":{n}}}') for n in range(5) for name in ("blue", "red")
    ]
    await rig.pass_time(30)
    assert {await rig.state(job) for job in jobs} == {JobState.SUCCEEDED}
    assert len(ran) == 10
    assert (first.counts.succeeded, second.counts.succeeded) == (5, 5)


async def test_a_declined_job_is_not_offered_again_for_a_while(rig: Rig) -> None:
    offers: list[str] = []

    def accept(offer: Offer) -> bool:
        offers.append(offer.id)
        return False

    async def one() -> None: ...

    rig.task(one)
    job = await rig.enqueue("one")
    await rig.started(accept=accept)
    await rig.pass_time(29)
    assert offers == [job]
    await rig.pass_time(10)
    assert offers == [job, job]


async def test_a_job_may_be_accepted_later(rig: Rig) -> None:
    wanted: set[str] = set()

    async def one() -> None: ...

    rig.task(one)
    job = await rig.enqueue("one")
    await rig.started(accept=lambda offer: offer.id in wanted)
    await rig.pass_time(5)
    wanted.add(job)
    await rig.pass_time(40)
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_a28_165_a_predicate_that_raises_is_reported_and_the_job_given_back(
    rig: Rig,
) -> None:
    def accept(offer: Offer) -> bool:
        if offer.task == "bad":
            raise OSError("no answer")
        return True

    async def bad() -> None: ...
    async def good() -> None: ...

    rig.task(bad)
    rig.task(good)
    given_back, run = await rig.enqueue("bad"), await rig.enqueue("good")
    await rig.started(accept=accept)
    await rig.pass_time(2)
    assert (await rig.state(given_back), await rig.state(run)) == (
        JobState.QUEUED,
        JobState.SUCCEEDED,
    )
    assert rig.phases() == ["accept"]


async def test_a_coroutine_is_no_answer(rig: Rig) -> None:
    async def accept(offer: Offer) -> bool:
        return True

    async def one() -> None: ...

    rig.task(one)
    job = await rig.enqueue("one")
    await rig.started(accept=accept)
    await rig.pass_time(1)
    assert await rig.state(job) is JobState.QUEUED
    assert rig.phases() == ["accept"]


async def test_an_offer_tells_what_the_job_is(rig: Rig) -> None:
    seen: list[Any] = []

    def accept(offer: Offer) -> bool:
        args, kwargs = offer.arguments()
        seen.append((offer.task, offer.queue, offer.attempt, offer.priority, args, kwargs))
        assert "secret" not in repr(offer)
        return True

    async def one(name: str) -> None: ...

    rig.task(one)
    await rig.enqueue("one", '{"name":"secret"}', queue="q", priority=4)
    await rig.started(accept=accept)
    assert seen == [("one", "q", 1, 4, ("secret",), {})]


async def test_declined_jobs_do_not_hide_others_behind_them(rig: Rig) -> None:
    async def one() -> None: ...
    async def other() -> None: ...

    rig.task(one)
    rig.task(other)
    for _ in range(300):
        await rig.enqueue("one", priority=9)
    job = await rig.enqueue("other")
    await rig.started(accept=lambda offer: offer.task == "other", concurrency=10)
    await rig.pass_time(1)
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_where_some_are_accepted_the_others_are_put_off_for_longer(rig: Rig) -> None:
    async def one() -> None: ...

    rig.task(one)
    worker = rig.worker()
    selection = full(rig, worker, lambda offer: offer.id == "wanted")
    wanted, other = a_run(rig, worker, "wanted"), a_run(rig, worker, "other")
    assert selection.put_off(wanted) is None
    assert [selection.put_off(other) for _ in range(7)] == [0.25, 0.5, 1, 2, 4, LONGEST, LONGEST]
    assert selection.resting() == set()


async def test_a_task_of_which_nothing_is_accepted_rests_for_longer(rig: Rig) -> None:
    async def one() -> None: ...

    rig.task(one)
    worker = rig.worker()
    selection = full(rig, worker, lambda offer: offer.id == "wanted")
    rests = []
    for _ in range(6):
        begun = rig.clock.monotonic()
        for number in range(5):  # what one lease brings
            assert selection.put_off(a_run(rig, worker, str(number))) == 0.25
        while selection.resting():
            rig.clock.advance(0.25)
        rests.append(rig.clock.monotonic() - begun)
    assert rests == [0.5, 1, 2, 4, 8, 10]
    selection.put_off(a_run(rig, worker, "1"))
    assert selection.resting() == {"one"}
    assert selection.put_off(a_run(rig, worker, "wanted")) is None
    assert selection.resting() == set()


async def test_what_is_remembered_is_bounded(rig: Rig) -> None:
    async def one() -> None: ...

    rig.task(one)
    worker = rig.worker()
    selection = JobSelection(lambda offer: False, rig.clock, rig.report)
    for number in range(PASSED_OVER + 10):
        selection.put_off(a_run(rig, worker, str(number)))
    assert len(selection.passed_over()) == PASSED_OVER
    assert len(selection) == PASSED_OVER + 10
    for number in range(REMEMBERED):
        selection.put_off(a_run(rig, worker, f"another {number}"))
    assert len(selection) == PASSED_OVER + REMEMBERED


async def test_declined_jobs_are_passed_over_for_a_while(rig: Rig) -> None:
    async def one() -> None: ...

    rig.task(one)
    worker = rig.worker()
    selection = JobSelection(lambda offer: False, rig.clock, rig.report)
    for name in "ab":
        assert selection.put_off(a_run(rig, worker, name)) == 0
        rig.clock.advance(20)
    assert selection.passed_over() == ("b",)
    assert selection.resting() == set()  # others of the task may be wanted
    rig.clock.advance(20)
    assert selection.passed_over() == ()


async def test_a_declined_job_that_comes_again_holds_up_no_other(rig: Rig) -> None:
    """A lease that was on its way brings it: the others are offered again in their time."""

    async def one() -> None: ...

    rig.task(one)
    worker = rig.worker()
    wanted: set[str] = set()
    selection = JobSelection(lambda offer: offer.id in wanted, rig.clock, rig.report)
    for name in "abca":
        assert selection.put_off(a_run(rig, worker, name)) == 0
        rig.clock.advance(8)
    assert selection.passed_over() == ("b", "c", "a")
    rig.clock.advance(7)
    assert selection.passed_over() == ("c", "a")
    wanted.add("a")
    assert selection.put_off(a_run(rig, worker, "a")) is None
    assert selection.passed_over() == ("c",), "it runs here: should it fail, it is taken again"


async def test_what_is_wanted_is_found_behind_more_than_can_be_passed_over(rig: Rig) -> None:
    ran: list[int] = []

    async def one(number: int) -> None:
        ran.append(number)

    rig.task(one)
    for _ in range(PASSED_OVER + 200):
        await rig.enqueue("one", '{"number":1}')
    wanted = await rig.enqueue("one", '{"number":2}')
    await rig.started(accept=lambda offer: offer.id == wanted, concurrency=100)
    await rig.pass_time(5)
    assert ran == [2]


def full(rig: Rig, worker: Worker, accept: Callable[[Offer], bool]) -> JobSelection:
    """One that passes over as many jobs as it can already."""
    selection = JobSelection(accept, rig.clock, rig.report)
    for number in range(PASSED_OVER):
        assert selection.put_off(a_run(rig, worker, f"passed over {number}")) == 0
    return selection


def a_run(rig: Rig, worker: Worker, job_id: str) -> Run:
    now = rig.clock.now()
    job = LeasedJob(
        id=job_id,
        task="one",
        queue="q",
        input="{}",
        worker="w",
        deliveries=1,
        attempt=1,
        options="{}",
        group_id="g",
        priority=0,
        run_at=now,
        enqueued_at=now,
    )
    return worker._engine.claimer.run_of(job, StoreTime(now, 0.0), 0.0)


# -- on_backlog --------------------------------------------------------------------------------


class Alarm:
    """A hook that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[BackedUp] = []
        self.error: Exception | None = None

    async def __call__(self, what: BackedUp) -> None:
        self.told.append(what)
        if self.error is not None:
            raise self.error


async def jam(rig: Rig, count: int = 8, **settings: Any) -> asyncio.Event:
    """A worker with two slots and so many jobs that do not end until the event is set."""
    door = asyncio.Event()

    async def one() -> None:
        await door.wait()

    rig.task(one)
    for _ in range(count):
        await rig.enqueue("one")
    await rig.started(concurrency=2, **settings)
    return door


async def test_a28_083_it_is_told_once_per_episode(rig: Rig) -> None:
    alarm = Alarm()
    door = await jam(rig, on_backlog=alarm, backlog_after=20.0)
    await rig.pass_time(19)
    assert alarm.told == []
    await rig.pass_time(60)
    (told,) = alarm.told
    assert (told.active, told.queued) == (2, 6)
    assert 20 <= told.seconds < 23
    door.set()
    await rig.pass_time(5)
    door.clear()
    for _ in range(8):
        await rig.enqueue("one")
    await rig.pass_time(30)
    assert len(alarm.told) == 2
    door.set()


async def test_a28_084_and_125_it_is_told_again_where_that_is_asked_for(rig: Rig) -> None:
    alarm = Alarm()
    door = await jam(rig, on_backlog=alarm, backlog_after=15.0, backlog_every=15.0)
    await rig.pass_time(55)
    assert len(alarm.told) == 3
    assert [round(one.seconds / 15) for one in alarm.told] == [1, 2, 3]
    door.set()


async def test_a28_085_draining_in_time_tells_nothing(rig: Rig) -> None:
    alarm = Alarm()
    door = await jam(rig, on_backlog=alarm, backlog_after=20.0)
    await rig.pass_time(15)
    door.set()
    await rig.pass_time(60)
    assert alarm.told == []


async def test_a28_126_nothing_is_told_after_catching_up(rig: Rig) -> None:
    alarm = Alarm()
    door = await jam(rig, on_backlog=alarm, backlog_after=10.0, backlog_every=5.0)
    await rig.pass_time(12)
    assert len(alarm.told) == 1
    door.set()
    await rig.pass_time(60)
    assert len(alarm.told) == 1


async def test_a_full_worker_that_keeps_nobody_waiting_tells_nothing(rig: Rig) -> None:
    alarm = Alarm()
    door = await jam(rig, 2, on_backlog=alarm, backlog_after=10.0)
    await rig.enqueue("unknown")
    await rig.pass_time(60)
    assert alarm.told == []
    door.set()


async def test_a28_129_the_alarm_goes_off_without_a_number(rig: Rig) -> None:
    alarm = Alarm()
    door = await jam(rig, on_backlog=alarm, backlog_after=10.0)
    rig.faulty.fail("backlog", StoreUnavailable("away"), times=1_000)
    await rig.pass_time(15)
    assert [one.queued for one in alarm.told] == [None]
    assert "on_backlog" in rig.phases()
    door.set()


async def test_a28_086_and_130_a_hook_that_raises_is_reported(rig: Rig) -> None:
    alarm = Alarm()
    alarm.error = OSError("no answer")
    door = await jam(rig, on_backlog=alarm, backlog_after=10.0, backlog_every=10.0)
    await rig.pass_time(35)
    assert len(alarm.told) == 3
    assert rig.phases() == ["on_backlog"] * 3
    door.set()
    await rig.pass_time(2)
    assert (await rig.memory.backlog()) == []


# -- the app's side ----------------------------------------------------------------------------


async def test_hooks_may_be_given_to_every_worker_of_an_app() -> None:
    app = App(auto_start=False)
    app.configure_workers(accept=lambda offer: offer.task == "yes")

    @app.task
    async def yes() -> None: ...

    @app.task
    async def no() -> None: ...

    async with app:
        wanted, other = await yes.enqueue(), await no.enqueue()
        assert (await app.worker().run_until_idle()).succeeded == 1
        assert (await wanted.status()).state is JobState.SUCCEEDED
        assert (await other.status()).reason == "declined"
        third = await no.enqueue()
        assert (await app.worker(accept=None).run_until_idle()).succeeded >= 1
        assert (await third.status()).state is JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("hooks", "text"),
    [({"accept": 5}, "callable"), ({"backpressure": "slow"}, "callable"), ({"acept": len}, "hook")],
)
async def test_what_is_no_hook_is_refused(hooks: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        App().configure_workers(**hooks)
