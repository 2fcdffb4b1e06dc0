"""Every statement of every transition of schedules fails once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from offpath.model.announce import BITS, announced
from offpath.model.declaration import KEEP
from offpath.model.schedule import Overlap
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.bench import Bench, Call, Scenario, cut_everywhere, repeat
from tests.conformance.builders import START, enqueue, new_job, uid, unique
from tests.conformance.schedule_builders import (
    CRON,
    NIGHTLY,
    at,
    by_hand,
    fired,
    firing,
    known,
    missed,
    plan,
    schedule,
)


async def _declare(store: Store, clock: ManualClock) -> Call:
    """One is new, one is overruled, one is forgotten."""
    await store.declare("schedule", {"old": "1"})
    clock.advance(KEEP + 1)
    await store.declare("schedule", {"a": "1", "b": "1"})
    clock.advance(1)
    await store.declare("schedule", {"a": "2"})
    return lambda: store.declare("schedule", {"a": "1", "b": "2", "c": "1"})


async def _put(store: Store, clock: ManualClock) -> Call:
    return lambda: plan(store)


async def _put_another(store: Store, clock: ManualClock) -> Call:
    await plan(store)
    return lambda: store.put_schedule(schedule(grace=5), next_at=at(60))


async def _put_other_times(store: Store, clock: ManualClock) -> Call:
    """One is due, and is skipped."""
    await plan(store)
    timing = replace(CRON, expression="0 4 * * *")
    return lambda: store.put_schedule(schedule(timing=timing), next_at=at(60))


async def _pause(store: Store, clock: ManualClock) -> Call:
    await plan(store)
    return lambda: store.pause_schedule(NIGHTLY, paused=True)


async def _resume(store: Store, clock: ManualClock) -> Call:
    await plan(store)
    await store.pause_schedule(NIGHTLY, paused=True)
    return lambda: store.pause_schedule(NIGHTLY, paused=False, next_at=at(60))


async def _delete(store: Store, clock: ManualClock) -> Call:
    await store.fire(firing(await plan(store)))
    return lambda: store.delete_schedule(NIGHTLY)


async def _fire(store: Store, clock: ManualClock) -> Call:
    """One that was missed, one that attaches, one that joins a group and is announced."""
    await enqueue(store, new_job(id=uid(9), unique=unique("k")))
    rows = missed(START), fired(at(1), 1), fired(at(2), 2)
    joining = new_job(id=uid(2), group_id=uid(9), announce=announced(BITS, details=True))
    jobs = new_job(id=uid(1), unique=unique("k")), joining
    planned = firing(await plan(store), occurrences=rows, jobs=jobs)
    return lambda: store.fire(planned)


async def _skip(store: Store, clock: ManualClock) -> Call:
    await store.fire(firing(await plan(store)))
    planned = firing(await known(store), 2, overlap=Overlap.SKIP)
    return lambda: store.fire(planned)


async def _trigger(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, new_job(id=uid(9)))
    await plan(store)
    job = new_job(id=uid(1), group_id=uid(9))
    return lambda: store.trigger_schedule(NIGHTLY, job, by_hand(at(1), 1))


async def _prune(store: Store, clock: ManualClock) -> Call:
    await store.fire(firing(await plan(store)))
    await store.fire(firing(await known(store), 2))
    return lambda: store.prune_occurrences(before=at(1), limit=10)


SCENARIOS: dict[str, Scenario] = {
    "declare": _declare,
    "put": _put,
    "put another": _put_another,
    "put other times": _put_other_times,
    "pause": _pause,
    "resume": _resume,
    "delete": _delete,
    "fire": _fire,
    "skip": _skip,
    "trigger": _trigger,
    "prune": _prune,
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_cut_at_any_statement_leaves_before_or_after(bench: Bench, name: str) -> None:
    await cut_everywhere(bench, SCENARIOS[name])


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_repeat_after_a_lost_answer_changes_nothing(bench: Bench, name: str) -> None:
    await repeat(bench, SCENARIOS[name])
