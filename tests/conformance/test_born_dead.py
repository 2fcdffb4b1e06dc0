"""Jobs that die as they are made, since their gate can fire no more: each is told of, once."""

from __future__ import annotations

import pytest

from offpath import App, JobEvent
from offpath.model.changes import ChangedJob
from offpath.model.effects import Effects
from offpath.model.event import EventKind
from offpath.model.job import Enqueued, JobState
from offpath.model.message import Box
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import die, fresh_id, new_job, start
from tests.conformance.message_builders import hand_one, inbound, post, settle_message
from tests.conformance.workflow_builders import (
    LATER,
    fates,
    gate_on,
    group_of,
    hold_one,
    settle_with,
)

pytestmark = pytest.mark.needs("workflows")

Told = tuple[str, str, str | None, bool]


def told(some: tuple[ChangedJob, ...] | list[ChangedJob]) -> list[Told]:
    return [(one.id, one.state.value, one.reason, one.group_done) for one in some]


def along(answers: list[Enqueued]) -> dict[str, list[Told]]:
    return {one.id: told(one.along) for one in answers}


async def dead_one(store: Store) -> str:
    job = await start(store)
    await die(store, job)
    return job.id


async def test_a_commit_tells_of_each_with_its_own_answer(store: Store) -> None:
    gone = await dead_one(store)
    gate, next_gate = gate_on(gone), gate_on(fresh_id(), timeout=60)
    lives = new_job()
    first = new_job(LATER, gate=gate.id)
    beside = new_job(LATER, gate=gate.id, group_id=first.id)
    chain = gate_on(first.id)
    second = new_job(LATER, gate=chain.id)
    waits = new_job(LATER, gate=next_gate.id)
    answers = await store.commit(
        Effects(jobs=(lives, first, beside, second, waits), gates=(gate, chain, next_gate))
    )
    found = along(answers)
    assert (found[lives.id], found[waits.id]) == ([], [])
    assert found[second.id] == [(second.id, "dead", "unsatisfiable", True)]
    # two of one group: the one that is told last says that it is done
    both = found[first.id] + found[beside.id]
    assert {one[:3] for one in both} == {
        (first.id, "dead", "unsatisfiable"),
        (beside.id, "dead", "unsatisfiable"),
    }
    assert sorted(one[3] for one in both) == [False, True]
    assert (await group_of(store, first.id)).failed == 2


async def test_who_waited_for_one_that_is_born_dead_is_told_of_too(store: Store) -> None:
    gone = await dead_one(store)
    late = fresh_id()
    waiting = await hold_one(store, gate_on(late, timeout=60))
    gate = gate_on(gone)
    job = new_job(LATER, id=late, gate=gate.id)
    (answer,) = await store.commit(Effects(jobs=(job,), gates=(gate,)))
    assert sorted(told(answer.along)) == sorted(
        [(late, "dead", "unsatisfiable", True), (waiting, "dead", "unsatisfiable", True)]
    )


async def test_a_repeat_tells_of_nobody(store: Store) -> None:
    gone = await dead_one(store)
    gate = gate_on(gone)
    effects = Effects(jobs=(new_job(LATER, gate=gate.id),), gates=(gate,))
    (first,) = await store.commit(effects)
    (again,) = await store.commit(effects)
    assert (len(first.along), again.created, again.along) == (1, False, ())


async def test_a_job_that_joins_a_gate_that_has_failed_is_told_of(store: Store) -> None:
    watched = await start(store)
    gate = gate_on(watched.id)
    await hold_one(store, gate)
    await die(store, watched)
    late = new_job(LATER, gate=gate.id)
    (answer,) = await store.commit(Effects(jobs=(late,)))
    assert told(answer.along) == [(late.id, "dead", "unsatisfiable", True)]


async def test_a_settlement_tells_of_its_own(store: Store) -> None:
    gone = await dead_one(store)
    parent = await start(store)
    gate = gate_on(gone)
    child = new_job(LATER, gate=gate.id, parent=parent.id)
    answer = await settle_with(store, parent, Effects(jobs=(child,), gates=(gate,)))
    assert told(answer.along) == [(child.id, "dead", "unsatisfiable", False)]
    assert answer.group_done
    assert [one.along for one in answer.enqueued] == [()]


async def test_a_settlement_tells_of_one_that_joins_a_gate_that_has_failed(store: Store) -> None:
    watched = await start(store)
    gate = gate_on(watched.id)
    await hold_one(store, gate)
    await die(store, watched)
    parent = await start(store)
    child = new_job(LATER, gate=gate.id, group_id=fresh_id())
    answer = await settle_with(store, parent, Effects(jobs=(child,)))
    assert [one[:3] for one in told(answer.along)] == [(child.id, "dead", "unsatisfiable")]
    assert await fates(store, child.id) == [("dead", "unsatisfiable")]


async def test_hooks_and_metrics_hear_of_it(store: Store, clock: ManualClock) -> None:
    gone = await dead_one(store)
    events: list[JobEvent] = []
    async with App(store=store, clock=clock, auto_start=False, on_event=events.append) as app:
        gate = gate_on(gone)
        job = new_job("later.run", gate=gate.id)
        await app.store().commit(Effects(jobs=(job,), gates=(gate,)))
        moves = {
            (one.labels["left"], one.labels["entered"]): one.value
            for one in app.metrics.list("offpath_job_moves_total")
        }
        assert moves == {("none", "queued"): 1, ("queued", "dead"): 1}
        assert await app.jobs.count(state=JobState.DEAD) == 2
    kinds = [one.kind for one in events if one.id == job.id]
    assert kinds == [EventKind.QUEUED, EventKind.DEAD, EventKind.GROUP_DONE]


async def test_a_message_that_makes_one_tells_of_it(store: Store) -> None:
    gone = await dead_one(store)
    gate, fired = gate_on(gone), gate_on(gone, need=0)
    job, other = new_job(LATER, gate=gate.id), new_job(LATER, gate=fired.id)
    await post(store, inbound("k"))
    held = await hand_one(store, box=Box.IN)
    effects = Effects(jobs=(other, job), gates=(gate, fired))
    answer = await settle_message(store, held, effects=effects)
    assert along(list(answer.enqueued)) == {
        other.id: [],
        job.id: [(job.id, "dead", "unsatisfiable", True)],
    }
    assert await fates(store, other.id, job.id) == [("queued", None), ("dead", "unsatisfiable")]
