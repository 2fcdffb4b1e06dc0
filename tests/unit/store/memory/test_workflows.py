"""Memory's own side of workflows and flow control: its indexes stay right, and nothing is left."""

from __future__ import annotations

import pytest

from offpath.model.effects import Effects
from offpath.model.group import GroupPolicy
from offpath.model.limit import LimitSpec, RateSpec
from offpath.model.settlement import Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.hints import Hint
from offpath.store.memory import MemoryStore
from tests.conformance.builders import (
    START,
    add,
    die,
    end,
    enqueue,
    fresh_id,
    join,
    new_job,
    start,
    succeed,
    take,
    take_one,
)
from tests.conformance.test_atomicity_workflows import SCENARIOS
from tests.conformance.workflow_builders import (
    LATER,
    gate_on,
    gives,
    hold_one,
    limited,
    settle_with,
    signal,
    waiting,
)
from tests.unit.store.memory.audit import audit


@pytest.fixture
def clock() -> ManualClock:
    """The store's time."""
    return ManualClock(START)


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """An empty store."""
    return MemoryStore(clock)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_transition_keeps_every_index(
    store: MemoryStore, clock: ManualClock, name: str
) -> None:
    call = await SCENARIOS[name](store, clock)
    audit(store)
    await call()
    audit(store)
    await call()
    audit(store)


async def test_nothing_is_left_of_what_is_gone(store: MemoryStore, clock: ManualClock) -> None:
    root = await start(store, group_policy=GroupPolicy.FAIL_FAST)
    await store.put_step(root, "a", "1")
    await store.put_undo(root, "a", "1")
    children = [new_job(parent=root.id, fair_key="k") for _ in range(3)]
    gate = gate_on(*(job.id for job in children))
    held = new_job(LATER, gate=gate.id, parent=root.id)
    await settle_with(store, root, Effects(jobs=(*children, held), gates=(gate,)))
    for job in await take(store):
        await settle_with(store, job, gives("1"))
    await settle_with(store, await take_one(store, task=LATER), gives("2"), waiting(5.0))
    await store.send_signal(signal(keep=5))
    await take(store, tasks={LATER: 1})
    clock.advance(10)
    await store.cancel_groups([root.id], limit=10)
    await store.rescue(limit=10, max_deliveries=1)
    await store.expire_blocked(limit=10)
    await store.delete([root.id, held.id, *(job.id for job in children)])
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=1)
    await store.delete([held.id])
    tables = store._tables
    groups, gates, steps = tables.groups, tables.gates, tables.steps
    assert [groups.rows, groups.members, groups.open, groups.failed, groups.to_close] == [{}] * 5
    assert [gates.rows, gates.watchers, gates.held, gates._of] == [{}] * 4
    assert [steps.results, steps.undo, steps.to_undo, tables.running_of] == [{}] * 4
    assert [tables.signals.rows, tables.signals.waiting] == [{}] * 2
    assert [tables.waits._asked, tables.waits._by_address, tables._terms] == [{}] * 3
    assert len(tables.waits.until) == len(tables.signals.expiring) == 0


async def test_a_key_is_forgotten_when_nothing_needs_it(
    store: MemoryStore, clock: ManualClock
) -> None:
    await join(store)
    rate = RateSpec(count=1, per=60)
    for key, spec in (("idle", None), ("rated", rate), ("closed", None), ("busy", None)):
        await enqueue(store, new_job(limit=LimitSpec(key=key, rate=spec)))
    await store.admit(limit=10)
    for job in await take(store, limit=3):
        await succeed(store, job)
    await store.close_limit("closed")
    await store.prune(limit=10)
    assert {each.key for each in await store.limits()} == {"rated", "closed", "busy"}
    clock.advance(121)
    await store.open_limit("closed")
    await store.prune(limit=10)
    assert {each.key for each in await store.limits()} == {"busy"}


async def test_a_lone_job_needs_no_row_of_its_group(store: MemoryStore) -> None:
    job = await start(store)
    await end(store, job, Succeeded(result="1"))
    assert store._tables.groups.rows == {}


async def test_waiting_at_a_gate_costs_nothing(store: MemoryStore) -> None:
    """No lease, promotion or sweep looks at what waits."""
    first = await start(store)
    for _ in range(100):
        await hold_one(store, gate_on(first.id))
    tables = store._tables
    assert len(tables.waits.until) == 0
    assert list(tables.lanes) == []


async def test_hints_tell_of_what_moved(store: MemoryStore, clock: ManualClock) -> None:
    heard: list[Hint] = []
    store.listen(heard.append)
    first = await start(store)
    await hold_one(store, gate_on(first.id))
    heard.clear()
    await succeed(store, first)
    assert set(heard) == {Hint.WORK, Hint.ENDED}

    second = await start(store)
    await hold_one(store, gate_on(second.id))
    heard.clear()
    await die(store, second)
    assert Hint.ENDED in heard

    third = await start(store)
    heard.clear()
    await store.cancel_groups([third.id], limit=1)
    assert heard == [Hint.CANCEL]

    await hold_one(store, gate_on(fresh_id(), timeout=5))
    heard.clear()
    clock.advance(6)
    await store.expire_blocked(limit=10)
    assert heard == [Hint.ENDED]

    await join(store)
    await settle_with(store, await start(store, "other"), Effects(), waiting())
    heard.clear()
    await store.send_signal(signal())
    assert heard == [Hint.WORK]

    await enqueue(store, limited(delay=5))
    heard.clear()
    clock.advance(5)
    await take(store)
    assert heard == [Hint.WORK]  # it waits to be admitted now
    heard.clear()
    await store.admit(limit=10)
    assert heard == [Hint.WORK]
    await store.pause_queue("default")
    heard.clear()
    await store.resume_queue("default")
    assert heard == [Hint.WORK]


async def test_a_gate_that_held_nobody_may_be_joined_when_it_has_fired(
    store: MemoryStore,
) -> None:
    gate = gate_on()
    await store.commit(Effects(gates=(gate,)))
    await add(store, LATER, gate=gate.id)
    await join(store)
    assert len(await take(store, tasks={LATER: 5})) == 1
    audit(store)
