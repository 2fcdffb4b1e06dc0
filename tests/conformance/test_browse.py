"""Lists for people: they look at a bounded number of rows, and say how far they came."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.model.brief import JobBrief, Kind, StepRecord
from offpath.model.gate import GateState
from offpath.model.job import DeadReason, Failure, JobFilter, JobState, LeasedJob
from offpath.model.settlement import Dead, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    end,
    failure,
    fresh_id,
    join,
    new_job,
    record,
    start,
    succeed,
    take,
    uid,
)
from tests.conformance.log_builders import append
from tests.conformance.log_builders import event as log_event
from tests.conformance.message_builders import put
from tests.conformance.workflow_builders import family, gate_on, hold, hold_one, signal

ALL = JobFilter()
DEAD = JobFilter(states=(JobState.DEAD,))
RUNNING = JobFilter(states=(JobState.RUNNING,))


def ids(items: tuple[JobBrief, ...] | list[JobBrief]) -> list[str]:
    """The ids of briefs, in their order."""
    return [one.id for one in items]


async def fail(store: Store, job: LeasedJob, why: Failure) -> None:
    """A job that has failed as often as it may."""
    await end(store, job, Dead(reason=DeadReason.EXHAUSTED, failure=why))


async def many(store: Store, count: int) -> list[str]:
    """Jobs, the oldest first."""
    return [await add(store) for _ in range(count)]


# -- browsing --------------------------------------------------------------------------------------


async def test_pages_follow_each_other_until_there_is_nothing_behind(store: Store) -> None:
    made = await many(store, 5)
    first = await store.browse(ALL, limit=2)
    assert (ids(first.items), first.next, first.exhausted) == (made[:2:-1], made[3], False)
    second = await store.browse(ALL, limit=2, after=first.next)
    last = await store.browse(ALL, limit=2, after=second.next)
    assert ids(second.items) + ids(last.items) == made[2::-1]
    assert (last.next, last.exhausted) == (None, True)


async def test_the_oldest_come_first_when_that_is_asked_for(store: Store) -> None:
    made = await many(store, 3)
    page = await store.browse(ALL, limit=2, newest=False)
    rest = await store.browse(ALL, after=page.next, newest=False)
    assert ids(page.items) + ids(rest.items) == made


async def test_a_page_looks_at_so_many_rows_and_says_where_it_stopped(
    store: Store, clock: ManualClock
) -> None:
    rare = await add(store, queue="rare")
    clock.advance(1)
    made = await many(store, 6)
    where = JobFilter(queues=("rare",))
    page = await store.browse(where, most=4)
    assert (page.items, page.exhausted) == ((), False)
    assert (page.next, page.reached, page.reached_at) == (
        made[2],
        made[2],
        START + timedelta(seconds=1),
    )
    further = await store.browse(where, most=4, after=page.next)
    assert (ids(further.items), further.next, further.exhausted) == ([rare], None, True)


@pytest.mark.parametrize("newest", [True, False])
async def test_a_walk_by_bounded_pages_finds_what_one_look_finds(
    store: Store, newest: bool
) -> None:
    for number in range(20):
        await add(store, queue=("a", "b")[number % 3 == 0])
    where = JobFilter(queues=("b",))
    whole = await store.browse(where, newest=newest)
    found: list[str] = []
    after = None
    for _ in range(30):
        page = await store.browse(where, most=3, limit=1, after=after, newest=newest)
        found += ids(page.items)
        after = page.next
        if after is None:
            break
    assert found == ids(whole.items)
    assert len(found) == 7


async def test_dead_and_running_jobs_are_looked_at_alone(store: Store) -> None:
    await join(store)
    dead = await start(store)
    await fail(store, dead, failure("boom at 7", type="Boom"))
    running = await start(store)
    await many(store, 5)
    page = await store.browse(DEAD, most=1)
    assert (ids(page.items), page.items[0].error_type, page.items[0].error) == (
        [dead.id],
        "Boom",
        "boom at 7",
    )
    held = await store.browse(RUNNING, most=3)
    assert (ids(held.items), held.exhausted) == ([running.id], True)
    assert held.items[0].worker == "w1"


async def test_a_brief_holds_nothing_that_a_job_carries(store: Store, clock: ManualClock) -> None:
    await join(store)
    job = await start(store, input='{"password":"hunter2"}', tags=("vip",), priority=3)
    await end(store, job, Succeeded(result='"hunter2"'))
    (brief,) = (await store.browse(ALL)).items
    known = await record(store, job.id)
    for name in set(JobBrief.__struct_fields__) - {"error", "error_type", "redriven_at", "ran"}:
        assert getattr(brief, name) == getattr(known, name), name
    assert "hunter2" not in repr(brief)
    assert not any("hunter2" in str(getattr(brief, name)) for name in brief.__struct_fields__)


async def test_a_brief_tells_when_a_job_was_last_put_back(store: Store, clock: ManualClock) -> None:
    await join(store)
    job = await start(store)
    await fail(store, job, failure("x", type="Boom"))
    (brief,) = (await store.browse(ALL)).items
    assert brief.redriven_at is None
    clock.advance(60)
    await store.redrive([JobRedrive(id=job.id)])
    clock.advance(60)
    await store.redrive([JobRedrive(id=job.id)])  # it waits: that it is due now is no return
    (brief,) = (await store.browse(ALL)).items
    assert brief.redriven_at == START + timedelta(seconds=60)


async def test_each_filter_of_a_list_is_a_filter_of_browse(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    first = await start(store, tags=("vip", "eu"))
    await fail(store, first, failure("x", type="Boom"))
    clock.advance(60)
    second = await start(store, queue="mail", parent=first.id)
    await fail(store, second, failure("y", type="Bang"))
    later = START + timedelta(seconds=30)
    chosen = {
        JobFilter(tasks=(TASK,), queues=("mail",)): [second.id],
        JobFilter(tags=("vip",)): [first.id],
        JobFilter(error_types=("Bang",)): [second.id],
        JobFilter(faults=("Bang: y",)): [second.id],
        JobFilter(faults=("Boom: x", "Bang: y")): [second.id, first.id],
        JobFilter(reasons=("exhausted",)): [second.id, first.id],
        JobFilter(ids=(first.id, uid(1))): [first.id],
        JobFilter(parent=first.id): [second.id],
        JobFilter(enqueued_before=later): [first.id],
        JobFilter(enqueued_after=later): [second.id],
        JobFilter(finished_before=later): [first.id],
        JobFilter(finished_after=later): [second.id],
        JobFilter(redrives_below=0): [],
        JobFilter(states=(JobState.QUEUED, JobState.RUNNING)): [],
    }
    for where, expected in chosen.items():
        assert ids((await store.browse(where)).items) == expected, where
        assert [one.id for one in (await store.find(where)).items] == expected, where


async def test_the_members_of_a_group_are_looked_at_alone(store: Store) -> None:
    await join(store)
    root, children = await family(store, 2)
    await many(store, 4)
    page = await store.browse(JobFilter(group_id=root), most=3)
    assert sorted(ids(page.items)) == sorted([root, *(one.id for one in children)])


async def test_a_text_is_looked_for_in_failures_and_in_arguments_if_one_may(store: Store) -> None:
    await join(store)
    dead = await start(store, input='{"to":"ann@example.org"}')
    await fail(store, dead, failure("no route to 100% of_hosts"))
    await add(store, input='{"to":"bob"}')
    assert ids((await store.browse(ALL, text="100% of_")).items) == [dead.id]
    assert ids((await store.browse(ALL, text="100_ of%")).items) == []
    assert ids((await store.browse(ALL, text="ann@")).items) == []
    assert ids((await store.browse(ALL, text="ann@", arguments=True)).items) == [dead.id]


async def test_what_is_behind_nothing_is_empty(store: Store) -> None:
    await many(store, 2)
    assert (await store.browse(ALL, limit=0)).items == ()
    assert (await store.browse(ALL, after=uid(1))).exhausted


async def test_a_message_is_cut(store: Store) -> None:
    await join(store)
    job = await start(store)
    await fail(store, job, failure("é" * 5_000))
    (brief,) = (await store.browse(DEAD)).items
    assert brief.error == "é" * 300


# -- groups, gates ---------------------------------------------------------------------------------


async def test_a_graph_has_the_members_and_what_their_gates_watch(store: Store) -> None:
    await join(store)
    root = fresh_id()
    first = await add(store, id=root)
    second = await add(store, group_id=root, parent=root)
    gate = gate_on(first, second)
    held = await hold_one(store, gate, group_id=root, parent=root)
    graph = await store.graph(root)
    assert {one.id: (one.state, one.gate) for one in graph.members} == {
        first: (JobState.QUEUED, None),
        second: (JobState.QUEUED, None),
        held: (JobState.BLOCKED, gate.id),
    }
    (watch,) = graph.watches
    assert (watch.gate.id, watch.gate.watched, watch.on) == (gate.id, 2, (first, second))
    assert not graph.more


async def test_a_graph_of_many_has_the_first_ones_by_id(store: Store) -> None:
    root = fresh_id()
    made = [await add(store, id=root)]
    made += [await add(store, group_id=root) for _ in range(4)]
    graph = await store.graph(root, limit=3)
    assert ([one.id for one in graph.members], graph.more) == (made[:3], True)
    assert (await store.graph(fresh_id())).members == ()


async def test_a_brief_tells_how_long_an_attempt_took_that_failed(
    store: Store, clock: ManualClock
) -> None:
    """By the worker's own times: the end of the job is stored later."""
    await join(store)
    job = await start(store)
    begun = clock.now()
    clock.advance(9)
    why = failure("no", started_at=begun, at=begun + timedelta(seconds=2.5))
    await end(store, job, Dead(reason=DeadReason.EXHAUSTED, failure=why))
    (brief,) = (await store.browse(ALL)).items
    assert brief.ran == timedelta(seconds=2.5)
    done = await start(store)
    await end(store, done, Succeeded())
    assert [one.ran for one in (await store.browse(ALL)).items if one.id == done.id] == [None]


async def test_groups_come_newest_first_with_their_counts(store: Store) -> None:
    await join(store)
    ended, members = await family(store, 2)
    for one in members:
        await succeed(store, one)
    live = fresh_id()
    await add(store, id=live)
    await add(store, group_id=live)
    await add(store)  # a lone job is no group to look at
    found = await store.browse_groups()
    assert [one.id for one in found][:1] == [live]
    assert (found[0].open, found[0].task, found[0].failed) == (2, TASK, 0)
    assert [one.id for one in await store.browse_groups(after=live)] == [ended]
    assert [one.id for one in await store.browse_groups(unended=True, limit=5)] == [live]
    assert [one.id for one in await store.browse_groups(unended=False, limit=5)] == [ended]
    assert await store.browse_groups(unended=False, after=ended) == []


async def test_open_gates_tell_how_many_jobs_they_hold(store: Store, clock: ManualClock) -> None:
    watched = await many(store, 3)
    gate = gate_on(*watched, timeout=60.0)
    held = await hold(store, gate, 2)
    (found,) = await store.open_gates()
    assert (found.id, found.state, found.watched, found.holds) == (
        gate.id,
        GateState.OPEN,
        3,
        2,
    )
    assert (found.sample, found.deadline) == (min(held), START + timedelta(seconds=60))
    assert await store.open_gates(after=gate.id) == []


async def test_a_gate_that_fired_is_not_open(store: Store) -> None:
    await join(store)
    job = await start(store)
    await hold_one(store, gate_on(job.id))
    await succeed(store, job)
    assert await store.open_gates() == []


# -- signals ---------------------------------------------------------------------------------------


async def test_signals_that_nobody_took_are_listed_and_dropped(
    store: Store, clock: ManualClock
) -> None:
    sent = signal(target="order-7", event="paid", keep=60.0)
    assert await store.send_signal(sent)
    (found,) = await store.pending_signals()
    assert (found.id, found.target, found.event, found.payload) == (
        sent.id,
        "order-7",
        "paid",
        sent.payload,
    )
    assert (found.sent_at, found.expires_at) == (START, START + timedelta(seconds=60))
    assert await store.drop_signals([sent.id, fresh_id()]) == [sent.id]
    assert await store.pending_signals() == []
    assert await store.drop_signals([sent.id]) == []
    assert not await store.send_signal(sent)  # it is known, and nobody gets it


async def test_a_signal_whose_time_is_over_is_not_pending(store: Store, clock: ManualClock) -> None:
    await store.send_signal(signal(keep=10.0))
    clock.advance(10)
    assert await store.pending_signals() == []


# -- queues, the log, ids --------------------------------------------------------------------------


async def test_who_is_next_in_a_queue_is_who_a_lease_hands_out(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    for priority in (0, 5, 1):
        await add(store, priority=priority)
        await add(store, "other", priority=priority + 1)
    await add(store, queue="elsewhere", priority=9)
    await add(store, delay=60.0, priority=9)
    expected = ids(await store.next_due("default", limit=4))
    leased = await take(store, limit=4, tasks={TASK: 4, "other": 4}, queues=("default",))
    assert expected == [one.id for one in leased]
    assert await store.next_due("nowhere") == []


async def test_the_log_is_read_from_its_head(store: Store) -> None:
    made = await append(store, log_event("a"), log_event("b"), log_event("c", domain="other"))
    newest = await store.newest_events(limit=2)
    assert [one.id for one in newest] == [made[2], made[1]]
    behind = await store.newest_events(before=newest[-1].position)
    assert [one.id for one in behind] == [made[0]]
    assert [one.id for one in await store.newest_events(domain="other")] == [made[2]]


async def test_ids_are_found_by_their_beginning(store: Store) -> None:
    job = "0198c0de-1111-7000-8000-000000000001"
    twin = "0198c0de-2222-7000-8000-000000000002"
    for each in (job, twin):
        await add(store, id=each)
    assert await store.ids_beginning(Kind.JOB, "0198c0de") == [job, twin]
    assert await store.ids_beginning(Kind.JOB, "0198C0DE-11") == [job]
    assert await store.ids_beginning(Kind.JOB, "0198c0de11") == [job]
    assert await store.ids_beginning(Kind.JOB, "0198c0de", limit=1) == [job]
    for nothing in ("", "019", "x198c0de", "0198c0de-3", job + "0"):
        assert await store.ids_beginning(Kind.JOB, nothing) == []


async def test_each_kind_has_its_ids(store: Store) -> None:
    await join(store, "0198c0de-0000-7000-8000-000000000009")
    watched = await add(store)
    gate = gate_on(watched)
    await hold_one(store, gate)
    message = await put(store)
    (event,) = await append(store, log_event())
    known = {
        Kind.WORKER: "0198c0de-0000-7000-8000-000000000009",
        Kind.GATE: gate.id,
        Kind.MESSAGE: message,
        Kind.EVENT: event,
        Kind.JOB: new_job().id,
    }
    for kind in Kind:
        found = await store.ids_beginning(kind, known.get(kind, fresh_id())[:30])
        assert (known.get(kind) in found) is (kind in known and kind is not Kind.JOB)


# -- steps and children of a job -------------------------------------------------------------------


@pytest.mark.needs("workflows")
async def test_steps_are_told_in_their_order_with_their_times(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    job = await start(store)
    await store.put_step(job, "render", '"pdf"')
    clock.advance(5)
    await store.put_step(job, "again", None)
    clock.advance(5)
    await store.put_step(job, "render", '"other"')
    assert await store.step_records(job.id) == [
        StepRecord(name="render", result='"pdf"', at=START),
        StepRecord(name="again", result=None, at=START + timedelta(seconds=5)),
    ]
    assert await store.step_records(uid(1)) == []


@pytest.mark.parametrize("newest", [True, False])
async def test_the_children_of_a_job_are_looked_at_alone(store: Store, newest: bool) -> None:
    root = await add(store, id=fresh_id())
    own = [await add(store, group_id=root, parent=root) for _ in range(2)]
    grandchild = await add(store, group_id=root, parent=own[0])
    apart = await add(store, parent=root)
    await many(store, 5)
    page = await store.browse(JobFilter(parent=root), most=4, newest=newest)
    assert (sorted(ids(page.items)), page.exhausted) == (sorted([*own, apart]), True)
    page = await store.browse(JobFilter(parent=own[0]), most=2, newest=newest)
    assert (ids(page.items), page.exhausted) == ([grandchild], True)
