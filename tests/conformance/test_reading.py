"""Reading: single jobs, pages, counts and the backlog."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from offpath.model.job import Count, DeadReason, JobFilter, JobState
from offpath.model.settlement import Dead, Retry, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import MOST_ON_A_PAGE, Backlog, JobRedrive, Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    end,
    enqueue,
    failure,
    fresh_id,
    join,
    new_job,
    start,
    take,
    take_one,
    uid,
)


def at(seconds: float) -> Any:
    return START + timedelta(seconds=seconds)


# -- by id -----------------------------------------------------------------------------------------


async def test_get_finds_what_exists(store: Store) -> None:
    ids = [await add(store) for _ in range(3)]
    found = await store.get([ids[2], fresh_id(), ids[0], ids[2]])
    assert sorted(job.id for job in found) == [ids[0], ids[2]]
    assert await store.get([]) == []


async def test_states_of_every_kind(store: Store) -> None:
    ready, scheduled, cancelled = await add(store), await add(store, delay=9), await add(store)
    await store.cancel([cancelled])
    running = await start(store, task="t")
    unknown = fresh_id()
    assert await store.states([ready, scheduled, cancelled, running.id, unknown, ready]) == {
        ready: JobState.QUEUED,
        scheduled: JobState.QUEUED,
        cancelled: JobState.CANCELLED,
        running.id: JobState.RUNNING,
    }
    assert await store.states([]) == {}


async def test_a_thousand_by_id(store: Store) -> None:
    jobs = [new_job() for _ in range(1_000)]
    await enqueue(store, *jobs)
    ids = [job.id for job in jobs]
    assert len(await store.get(ids)) == 1_000
    assert await store.states(ids) == dict.fromkeys(ids, JobState.QUEUED)


# -- filters ---------------------------------------------------------------------------------------


async def _zoo(store: Store, clock: ManualClock) -> dict[str, str]:
    """Seven jobs that differ in all that can be asked for; their ids by name."""
    await join(store, lease=9_000)
    ids: dict[str, str] = {}

    async def one(name: str, task: str, **fields: Any) -> str:
        ids[name] = await add(store, task, **fields)
        clock.advance(10)
        return ids[name]

    await one("plain", "a", tags=("x", "y"))
    await one("later", "a", delay=9_000, queue="slow", tags=("x",))
    root = await one("root", "b", tags=("y", "z"))
    await one("member", "c", group_id=root, parent=root, queue="slow")
    await one("dead", "d")
    await one("gone", "e")
    await one("again", "f")
    leased = {job.task: job for job in await take(store, tasks={"b": 1, "d": 1, "f": 1})}
    await end(store, leased["b"], Succeeded(result="1"))
    clock.advance(10)
    bad = failure("x", type="pkg.Bad")
    await end(store, leased["d"], Retry(delay=0, failure=failure("y", type="pkg.First")))
    again = await take_one(store, task="d")
    await end(store, again, Dead(reason=DeadReason.EXHAUSTED, failure=bad))
    clock.advance(10)
    await store.cancel([ids["gone"]])
    await end(store, leased["f"], Dead(reason=DeadReason.ABORTED, failure=failure("z")))
    await store.redrive([JobRedrive(id=ids["again"])])
    return ids


FILTERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "any": ({}, {"plain", "later", "root", "member", "dead", "gone", "again"}),
    "queued": ({"states": (JobState.QUEUED,)}, {"plain", "later", "member", "again"}),
    "ended": ({"states": (JobState.DEAD, JobState.SUCCEEDED)}, {"dead", "root"}),
    "blocked": ({"states": (JobState.BLOCKED,)}, set()),
    "task": ({"tasks": ("a",)}, {"plain", "later"}),
    "tasks": ({"tasks": ("a", "d", "nobody")}, {"plain", "later", "dead"}),
    "queue": ({"queues": ("slow",)}, {"later", "member"}),
    "tag": ({"tags": ("x",)}, {"plain", "later"}),
    "all tags": ({"tags": ("y", "x")}, {"plain"}),
    "no tag": ({"tags": ("w",)}, set()),
    "reason": ({"reasons": ("exhausted",)}, {"dead"}),
    "error type": ({"error_types": ("pkg.Bad",)}, {"dead"}),
    "not an earlier error type": ({"error_types": ("pkg.First",)}, set()),
    "enqueued after": ({"enqueued_after": at(45)}, {"gone", "again"}),
    "enqueued before": ({"enqueued_before": at(15)}, {"plain", "later"}),
    "enqueued between": ({"enqueued_after": at(15), "enqueued_before": at(35)}, {"root", "member"}),
    "finished after": ({"finished_after": at(75)}, {"dead", "gone"}),
    "finished before": ({"finished_before": at(75)}, {"root"}),
    "never redriven": (
        {"redrives_below": 1},
        {"plain", "later", "root", "member", "dead", "gone"},
    ),
    "rarely redriven": ({"redrives_below": 2, "tasks": ("f",)}, {"again"}),
    "several": ({"tasks": ("a", "c"), "queues": ("slow",), "tags": ("x",)}, {"later"}),
}


@pytest.mark.parametrize("name", FILTERS)
async def test_find_and_count_agree_on_a_filter(
    store: Store, clock: ManualClock, name: str
) -> None:
    ids = await _zoo(store, clock)
    fields, right = FILTERS[name]
    where = JobFilter(**fields)

    page = await store.find(where)
    counts = await store.count(where)

    names = {job_id: each for each, job_id in ids.items()}
    assert [names[job.id] for job in page.items] == [
        each for each in reversed(ids) if each in right
    ]
    assert page.next is None
    assert sum(one.count for one in counts) == len(right)


async def test_filters_by_id_group_and_parent(store: Store, clock: ManualClock) -> None:
    ids = await _zoo(store, clock)

    async def found(**fields: Any) -> set[str]:
        page = await store.find(JobFilter(**fields))
        assert sum(one.count for one in await store.count(JobFilter(**fields))) == len(page.items)
        return {job.id for job in page.items}

    root = ids["root"]
    assert await found(ids=(ids["dead"], fresh_id(), root)) == {ids["dead"], root}
    assert await found(group_id=root) == {root, ids["member"]}
    assert await found(group_id=ids["plain"]) == {ids["plain"]}
    assert await found(group_id=fresh_id()) == set()
    assert await found(parent=root) == {ids["member"]}
    assert await found(ids=(root,), states=(JobState.DEAD,)) == set()


async def test_counts_by_state_queue_and_task(store: Store) -> None:
    await join(store)
    await enqueue(store, new_job("a"), new_job("a"), new_job("a", queue="q"), new_job("b"))
    await take_one(store, task="b")

    def key(one: Count) -> tuple[str, ...]:
        return (one.state, one.queue, one.task)

    assert sorted(await store.count(JobFilter()), key=key) == [
        Count(state=JobState.QUEUED, queue="default", task="a", count=2),
        Count(state=JobState.QUEUED, queue="q", task="a", count=1),
        Count(state=JobState.RUNNING, queue="default", task="b", count=1),
    ]


async def test_scheduled_and_ready_jobs_are_one_count(store: Store) -> None:
    await enqueue(store, new_job(), new_job(delay=60))
    assert await store.count(JobFilter()) == [
        Count(state=JobState.QUEUED, queue="default", task=TASK, count=2)
    ]


# -- pages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("newest", [True, False], ids=["newest", "oldest"])
@pytest.mark.parametrize("size", [1, 3, 7, 100])
async def test_pages_hold_every_job_once_in_order(store: Store, newest: bool, size: int) -> None:
    numbers = [13, 1, 8, 2, 5, 21, 3]
    await enqueue(store, *(new_job(id=uid(n)) for n in numbers))
    await add(store, "other")

    got: list[str] = []
    after = None
    while True:
        page = await store.find(JobFilter(tasks=(TASK,)), limit=size, after=after, newest=newest)
        assert len(page.items) <= size
        got += [job.id for job in page.items]
        after = page.next
        if after is None:
            break

    assert got == [uid(n) for n in sorted(numbers, reverse=newest)]


async def test_new_jobs_do_not_shift_the_pages(store: Store) -> None:
    await enqueue(store, *(new_job(id=uid(n)) for n in range(1, 7)))
    first = await store.find(JobFilter(), limit=3)
    await enqueue(store, new_job(id=uid(100)))
    second = await store.find(JobFilter(), limit=3, after=first.next)
    assert [job.id for job in second.items] == [uid(3), uid(2), uid(1)]


async def test_a_page_may_end_where_its_last_job_was_deleted(store: Store) -> None:
    await enqueue(store, *(new_job(id=uid(n)) for n in range(1, 5)))
    first = await store.find(JobFilter(), limit=2)
    await store.cancel([uid(3)])
    await store.delete([uid(3)])
    second = await store.find(JobFilter(), limit=2, after=first.next)
    assert [job.id for job in second.items] == [uid(2), uid(1)]


async def test_no_jobs_no_page(store: Store) -> None:
    page = await store.find(JobFilter())
    assert (page.items, page.next) == ((), None)


async def test_found_and_got_are_the_same_record(store: Store) -> None:
    job = await start(store, tags=("a",), deadline_in=9)
    await end(store, job, Retry(delay=1, failure=failure()))
    (found,) = (await store.find(JobFilter(ids=(job.id,)))).items
    assert [found] == await store.get([job.id])


# -- backlog ---------------------------------------------------------------------------------------


async def test_the_backlog_is_what_is_due(store: Store, clock: ManualClock) -> None:
    await join(store)
    await enqueue(
        store,
        new_job("a", run_at=at(-60), priority=-1),
        new_job("a", run_at=at(-30), priority=9),
        new_job("a", queue="q"),
        new_job("b", delay=10),
        new_job("c"),
    )
    await take_one(store, task="c")
    clock.advance(5)

    def key(one: Backlog) -> tuple[str, str]:
        return (one.queue, one.task)

    assert sorted(await store.backlog(), key=key) == [
        Backlog(queue="default", task="a", ready=2, oldest_run_at=at(-60)),
        Backlog(queue="q", task="a", ready=1, oldest_run_at=at(0)),
    ]


async def test_the_backlog_counts_due_jobs_that_were_not_promoted_yet(
    store: Store, clock: ManualClock
) -> None:
    """With no worker alive nothing is promoted: that is when somebody looks."""
    await enqueue(store, new_job("b", delay=10), new_job("b", delay=20), new_job("b"))
    clock.advance(15)
    assert await store.backlog() == [
        Backlog(queue="default", task="b", ready=2, oldest_run_at=at(0))
    ]


async def test_the_backlog_counts_up_to_its_limit(store: Store) -> None:
    await enqueue(store, *(new_job() for _ in range(30)))
    (one,) = await store.backlog(limit=10)
    assert one.ready == 10


async def test_a_low_limit_of_the_backlog_hides_no_task(store: Store, clock: ManualClock) -> None:
    await enqueue(store, *(new_job("a", delay=10) for _ in range(5)), new_job("b", delay=20))
    clock.advance(30)
    found = await store.backlog(limit=2)
    assert sorted((one.task, one.ready) for one in found) == [("a", 2), ("b", 1)]


async def test_no_backlog(store: Store) -> None:
    await add(store, delay=10)
    assert await store.backlog() == []


async def test_a_page_has_a_bound_whatever_was_asked_for(store: Store) -> None:
    await enqueue(store, *(new_job() for _ in range(MOST_ON_A_PAGE + 1)))
    page = await store.find(JobFilter(), limit=10 * MOST_ON_A_PAGE)
    assert len(page.items) == MOST_ON_A_PAGE
    rest = await store.find(JobFilter(), limit=10 * MOST_ON_A_PAGE, after=page.next)
    assert (len(rest.items), rest.next) == (1, None)
