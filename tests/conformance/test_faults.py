"""Dead jobs by their fault: one cause is one, whatever id or address stands in its text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from offpath.model.brief import DeadTally, FaultCount
from offpath.model.job import DeadReason, Failure
from offpath.model.settlement import Dead
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import LEASE, START, TASK, add, end, failure, join, start, take


async def died(store: Store, message: str, type: str = "Boom", **fields: object) -> str:  # noqa: A002
    """A job that has failed as often as it may."""
    job = await start(store, **fields)  # type: ignore[arg-type]
    why: Failure = failure(message, type=type)
    await end(store, job, Dead(reason=DeadReason.EXHAUSTED, failure=why))
    return job.id


async def told(store: Store, **fields: Any) -> list[tuple[str | None, int]]:
    """The keys and how many jobs have each."""
    return [(one.key, one.jobs) for one in (await store.faults(**fields)).items]


async def test_failures_of_one_cause_are_one_fault(store: Store, clock: ManualClock) -> None:
    await join(store)
    await died(store, "connection 17 to 10.0.0.3 closed")
    clock.advance(5)
    newest = await died(store, "connection 900 to 10.9.0.3 closed", queue="mail")
    await died(store, "no such user 'ann'", type="Missing")
    tally = await store.faults()
    assert tally.items[0] == FaultCount(
        task=TASK,
        reason="exhausted",
        key="Boom: connection <…> to <…> closed",
        jobs=2,
        first_at=START,
        last_at=START + timedelta(seconds=5),
        queues=("default", "mail"),
        sample=newest,
    )
    assert tally.items[1].key == "Missing: no such user <…>"
    assert (tally.looked_at, tally.more) == (3, False)


async def test_a_death_that_no_attempt_brought_about_has_no_key(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    await start(store)
    clock.advance(LEASE + 1)
    for _ in range(2):
        await store.rescue(limit=10, max_deliveries=1)
    (one,) = (await store.faults()).items
    assert (one.reason, one.key, one.jobs) == ("worker_lost", None, 1)


async def test_what_was_put_back_has_no_fault_and_a_new_death_has_its_own(store: Store) -> None:
    await join(store)
    job = await died(store, "first")
    await store.redrive([JobRedrive(id=job)])
    assert await told(store) == []
    (held,) = await take(store, limit=1)
    await end(store, held, Dead(reason=DeadReason.ABORTED, failure=failure("second", type="Bang")))
    assert await told(store) == [("Bang: second", 1)]


async def test_only_the_newest_are_looked_at_and_that_is_said(store: Store) -> None:
    await join(store)
    for number in range(4):
        await died(store, ("old", "new")[number > 1])
    tally = await store.faults(most=2)
    assert ([one.key for one in tally.items], tally.looked_at, tally.more) == (
        ["Boom: new"],
        2,
        True,
    )
    assert await told(store, limit=1) == [("Boom: new", 2)]
    assert (await store.faults(limit=0)).items == ()


async def test_the_order_is_the_same_everywhere(store: Store) -> None:
    await join(store)
    for text in ("b", "B", "a", "ä"):
        await died(store, text, type="T")
    assert await told(store) == [("T: B", 1), ("T: a", 1), ("T: b", 1), ("T: ä", 1)]


async def test_a_secret_and_a_nul_are_not_in_a_key(store: Store) -> None:
    await join(store)
    await died(store, "password=hunter2 and more")
    (one,) = (await store.faults()).items
    assert "hunter2" not in (one.key or "")


async def test_a_live_job_is_no_fault(store: Store) -> None:
    await add(store)
    assert (await store.faults()).items == ()


async def test_faults_of_one_task_are_those_of_its_jobs_among_the_newest(store: Store) -> None:
    await join(store)
    await died(store, "boom", task="other")
    for _ in range(2):
        await died(store, "boom")
    await died(store, "late", task="other")
    tally = await store.faults(task="other")
    assert [(one.task, one.key) for one in tally.items] == [
        ("other", "Boom: boom"),
        ("other", "Boom: late"),
    ]
    assert [one.key for one in (await store.faults(task="other", most=3)).items] == ["Boom: late"]
    assert (await store.faults(task="nobody")).items == ()


async def test_faults_since_a_time_are_of_those_that_died_then_or_later(
    store: Store, clock: ManualClock
) -> None:
    """By their death, not by when they were enqueued: an old job that dies now is told."""
    await join(store)
    await died(store, "before")
    late = await start(store, task="other")
    clock.advance(60)
    await died(store, "after")
    why = failure("after", type="Boom")
    await end(store, late, Dead(reason=DeadReason.EXHAUSTED, failure=why))
    tally = await store.faults(since=START + timedelta(seconds=60))
    assert {(one.task, one.key) for one in tally.items} == {
        (TASK, "Boom: after"),
        ("other", "Boom: after"),
    }
    assert (tally.looked_at, tally.more) == (2, False)
    assert (await store.faults(since=START + timedelta(seconds=60), task="other")).items[
        0
    ].sample == late.id
    assert (await store.faults(since=START, most=2)).more
    assert (await store.faults(since=START + timedelta(seconds=61))).items == ()


# -- how many are dead, and since when -------------------------------------------------------------


async def test_the_dead_are_counted_up_to_a_limit_and_the_oldest_is_told(
    store: Store, clock: ManualClock
) -> None:
    assert await store.dead_tally() == DeadTally(jobs=0)
    await join(store)
    first = await died(store, "boom")
    clock.advance(60)
    for _ in range(3):
        await died(store, "boom")
    await add(store)
    assert await store.dead_tally() == DeadTally(jobs=4, oldest_at=START)
    assert (await store.dead_tally(most=2)).jobs == 2
    await store.redrive([JobRedrive(id=first)])
    assert await store.dead_tally() == DeadTally(jobs=3, oldest_at=START + timedelta(seconds=60))
