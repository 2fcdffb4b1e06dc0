"""Every statement of every transition of workflows and flow control fails once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.gate import Counting, NewGate
from offpath.model.group import Contribution, GroupPolicy
from offpath.model.job import JobFilter, LeasedJob, NewJob
from offpath.model.limit import LimitSpec, RateSpec
from offpath.model.settlement import Settlement, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.bench import Bench, Call, Check, Scenario, cut_everywhere, repeat
from tests.conformance.builders import (
    TASK,
    die,
    enqueue,
    join,
    new_job,
    outcomes,
    take,
    take_one,
    uid,
)
from tests.conformance.workflow_builders import LATER, adding, settle_with, signal, waiting


def job(number: int, task: str = TASK, **fields: Any) -> NewJob:
    """A job of a fixed id, so that every run of a scenario makes the same rows."""
    return new_job(task, id=uid(number), **fields)


def gate(number: int, *on: int, need: int | None = None, **fields: Any) -> NewGate:
    """A gate of a fixed id on jobs of these numbers."""
    ids = tuple(uid(each) for each in on)
    return NewGate(id=uid(number), on=ids, need=len(on) if need is None else need, **fields)


def limited(number: int, room: int = 1, **fields: Any) -> NewJob:
    """A job of a fixed id with a limit."""
    rate = RateSpec(count=5, per=60)
    return job(number, limit=LimitSpec(key="api", max_running=room, rate=rate), **fields)


async def _running(store: Store, count: int, **fields: Any) -> tuple[LeasedJob, ...]:
    await join(store)
    await enqueue(store, *(job(n, **fields) for n in range(1, count + 1)))
    return await take(store, limit=count)


def _batch(jobs: Sequence[LeasedJob], *names: str, **fields: Any) -> list[Settlement]:
    kinds = [outcomes()[name] for name in names]
    return [
        Settlement(job=each, outcome=kinds[n % len(kinds)], keep=60, **fields)
        for n, each in enumerate(jobs)
    ]


# -- gates and groups ------------------------------------------------------------------------------


async def _commit_gates(store: Store, clock: ManualClock) -> Call:
    """One waits, one fires as it is made, one ends as it is made, and so does the one behind it."""
    first, second = await _running(store, 2)
    await die(store, second)
    effects = Effects(
        jobs=(
            job(11, LATER, gate=uid(51), delay=5),
            job(12, LATER, gate=uid(52), deadline_in=5),
            job(13, LATER, gate=uid(53)),
            job(14, LATER, gate=uid(54)),
        ),
        gates=(
            gate(51, 1, timeout=60),
            gate(52, 1, 2, need=1, of=Counting.SETTLED),
            gate(53, 1, 2),
            gate(54, 13),
        ),
    )
    assert first.id == uid(1)
    return lambda: store.commit(effects)


async def _settle_to_gates(store: Store, clock: ManualClock) -> Call:
    """Gates that fire, that count, that end with a chain behind them."""
    jobs = await _running(store, 4)
    await store.commit(
        Effects(
            jobs=(
                job(11, LATER, gate=uid(51)),
                job(12, LATER, gate=uid(51), delay=5),
                job(13, LATER, gate=uid(52), group_id=uid(1)),
                job(14, LATER, gate=uid(53), group_id=uid(1)),
                job(15, LATER, gate=uid(54)),
            ),
            gates=(
                gate(51, 1, 2, 3, need=2),
                gate(52, 4),
                gate(53, 13),
                gate(54, 1, 11),
            ),
        )
    )
    batch = _batch(jobs, "succeeded", "succeeded", "retry", "dead")
    return lambda: store.settle(batch)


async def _settle_with_a_plan(store: Store, clock: ManualClock) -> Call:
    """Children, a gate over them, one that follows the job itself, and a contribution."""
    (root,) = await _running(store, 1)
    effects = Effects(
        jobs=(
            job(11, parent=uid(1)),
            job(12, parent=uid(1)),
            job(13, LATER, parent=uid(1), gate=uid(51)),
            job(14, LATER, parent=uid(1), gate=uid(52)),
        ),
        gates=(gate(51, 11, 12), gate(52, 1, timeout=60)),
        contributions=(Contribution(payload="1", fold=adding),),
    )
    batch = [Settlement(job=root, outcome=Succeeded(contributes=False), effects=effects)]
    return lambda: store.settle(batch)


async def _family(store: Store, count: int, **root: Any) -> tuple[LeasedJob, ...]:
    (held,) = await _running(store, 1, **root)
    children = tuple(job(10 + n, parent=uid(1)) for n in range(count))
    await settle_with(store, held, Effects(jobs=children))
    return await take(store, limit=count)


async def _settle_with_contributions(store: Store, clock: ManualClock) -> Call:
    """Folds of several members and a final one, in one batch that ends the group."""
    jobs = await _family(store, 4)
    gives = [
        Contribution(payload="1", fold=adding),
        Contribution(payload="2", fold=adding),
        Contribution(payload="3", final=True, fold=adding),
        Contribution(payload="4"),
    ]
    batch = [
        Settlement(job=each, outcome=Succeeded(result="9"), effects=Effects(contributions=(one,)))
        for each, one in zip(jobs, gives, strict=True)
    ]
    return lambda: store.settle(batch)


async def _settle_in_a_fail_fast_group(store: Store, clock: ManualClock) -> Call:
    jobs = await _family(store, 3, group_policy=GroupPolicy.FAIL_FAST)
    batch = _batch(jobs[:2], "dead", "succeeded")
    return lambda: store.settle(batch)


async def _close_groups(store: Store, clock: ManualClock) -> Call:
    jobs = await _family(store, 3, group_policy=GroupPolicy.FAIL_FAST)
    await enqueue(store, job(20, group_id=uid(1), delay=60), job(21, group_id=uid(1), delay=60))
    await die(store, jobs[0])
    return lambda: store.close_groups(limit=10, keep=60)


async def _cancel_groups(store: Store, clock: ManualClock) -> Call:
    """Running and waiting members, a lone job, one at a gate, and one that waits for a member."""
    await _family(store, 2)
    await enqueue(store, job(20, group_id=uid(1), delay=60), job(30, delay=60))
    await store.commit(
        Effects(
            jobs=(
                job(40, LATER, gate=uid(51), group_id=uid(1)),
                job(41, LATER, gate=uid(52)),
                job(42, LATER, gate=uid(53)),
            ),
            gates=(gate(51, 20), gate(52, 20), gate(53, 41)),
        )
    )
    return lambda: store.cancel_groups([uid(1), uid(30)], limit=10, keep=60)


async def _expire_blocked(store: Store, clock: ManualClock) -> Call:
    """A deadline, a gate's time, a wait's end, and a chain behind the gate."""
    held = await _running(store, 2)
    await settle_with(store, held[0], Effects(), waiting(5.0))
    await store.commit(
        Effects(
            jobs=(
                job(11, LATER, gate=uid(51), group_id=uid(1)),
                job(12, LATER, gate=uid(51)),
                job(13, LATER, gate=uid(52)),
                limited(14, deadline_in=5),
            ),
            gates=(gate(51, 2, timeout=5), gate(52, 12)),
        )
    )
    await store.send_signal(signal(id=uid(60), target="other", keep=5))
    clock.advance(6)
    return lambda: store.expire_blocked(limit=10, keep=60)


async def _rescue_to_gates(store: Store, clock: ManualClock) -> Call:
    await _family(store, 2, group_policy=GroupPolicy.FAIL_FAST)
    await store.commit(
        Effects(
            jobs=(
                job(20, LATER, gate=uid(51)),
                job(21, LATER, gate=uid(52)),
                job(22, LATER, gate=uid(53)),
            ),
            gates=(gate(51, 10), gate(52, 11, of=Counting.SETTLED), gate(53, 20)),
        )
    )
    clock.advance(31)
    return lambda: store.rescue(limit=10, max_deliveries=1, keep=60)


async def _cancel_to_gates(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, job(1, delay=60), limited(2))
    await store.admit(limit=10)
    await store.commit(
        Effects(
            jobs=(
                job(20, LATER, gate=uid(51)),
                job(21, LATER, gate=uid(52)),
                job(22, LATER, gate=uid(53)),
            ),
            gates=(gate(51, 1), gate(52, 2, of=Counting.SETTLED), gate(53, 20)),
        )
    )
    return lambda: store.cancel([uid(1), uid(2)], keep=60)


async def _redrive_from_gates(store: Store, clock: ManualClock) -> Call:
    jobs = await _family(store, 2, group_policy=GroupPolicy.FAIL_FAST)
    await store.commit(
        Effects(
            jobs=(job(20, LATER, gate=uid(51)),),
            gates=(gate(51, 10, 11, of=Counting.SETTLED),),
        )
    )
    await die(store, jobs[0])
    return lambda: store.redrive([JobRedrive(id=uid(10))])


async def _redrive_behind_gates(store: Store, clock: ManualClock) -> Call:
    """A chain that died at its gates, beside one that is asked for itself."""
    jobs = await _family(store, 2)
    await store.commit(
        Effects(
            jobs=(
                job(20, LATER, gate=uid(51), group_id=uid(1)),
                job(21, LATER, gate=uid(52)),
                job(22, LATER, gate=uid(53)),
            ),
            gates=(gate(51, 10), gate(52, 20), gate(53, 11)),
        )
    )
    await die(store, jobs[0])
    await store.cancel([uid(22)])
    return lambda: store.redrive([JobRedrive(id=uid(n)) for n in (10, 22)])


async def _lead_on(store: Store, clock: ManualClock) -> Call:
    """Jobs that end together, with gates over both and over one, and what they lead to."""
    jobs = await _family(store, 2)
    led = tuple(replace(gate(*each), descendants=True) for each in ((51, 10), (52, 10, 11)))
    held = (job(20, LATER, gate=uid(51)), job(21, LATER, gate=uid(52)))
    await store.commit(Effects(jobs=held, gates=led))
    ends = [
        Settlement(job=one, outcome=Succeeded(), effects=Effects(jobs=(job(n), job(n + 10))))
        for n, one in enumerate(jobs, 30)
    ]
    return lambda: store.settle(ends)


async def _delete_all(store: Store, clock: ManualClock) -> Call:
    """The last jobs of a group and of a gate, with steps and something to undo."""
    jobs = await _family(store, 1)
    await store.commit(Effects(jobs=(job(20, LATER, gate=uid(51)),), gates=(gate(51, 10),)))
    await store.put_step(jobs[0], "a", "1")
    await store.put_undo(jobs[0], "a", "1")
    await die(store, jobs[0])
    return lambda: store.delete([uid(1), uid(10), uid(20)])


# -- steps, signals, undoing -----------------------------------------------------------------------


async def _put_step(store: Store, clock: ManualClock) -> Call:
    (held,) = await _running(store, 1)
    return lambda: store.put_step(held, "a", "1")


async def _put_undo(store: Store, clock: ManualClock) -> Call:
    (held,) = await _running(store, 1)
    return lambda: store.put_undo(held, "a", "1")


async def _send_signal(store: Store, clock: ManualClock) -> Call:
    first, second = await _running(store, 2)
    await settle_with(store, first, Effects(), waiting(60.0))
    await settle_with(store, second, Effects(), waiting())
    return lambda: store.send_signal(signal(id=uid(60)))


async def _take_signal(store: Store, clock: ManualClock) -> Call:
    (held,) = await _running(store, 1)
    await store.send_signal(signal("1", id=uid(60)))
    await store.send_signal(signal("2", id=uid(61)))
    return lambda: store.take_signal(held, target="order-1", event="paid", step="w")


async def _wait(store: Store, clock: ManualClock) -> Call:
    """One waits, one finds its signal there."""
    first, second = await _running(store, 2)
    await store.send_signal(signal(id=uid(60), target="there"))
    batch = [
        Settlement(job=first, outcome=waiting(60.0), effects=Effects(jobs=(job(11),))),
        Settlement(job=second, outcome=waiting(target="there")),
    ]
    return lambda: store.settle(batch)


async def _succeed_with_undo(store: Store, clock: ManualClock) -> Call:
    (held,) = await _running(store, 1)
    await store.put_undo(held, "a", "1")
    batch = _batch([held], "succeeded")
    return lambda: store.settle(batch)


async def _compensate(store: Store, clock: ManualClock) -> Call:
    (held,) = await _running(store, 1)
    await store.put_step(held, "a", "1")
    await store.put_undo(held, "a", "1")
    await store.put_undo(held, "b", "2")
    await die(store, held)
    effects = Effects(
        jobs=(job(11, group_id=uid(1)), job(12, LATER, group_id=uid(1), gate=uid(51))),
        gates=(gate(51, 11),),
    )
    return lambda: store.compensate(uid(1), effects)


# -- flow control ----------------------------------------------------------------------------------


async def _commit_limited(store: Store, clock: ManualClock) -> Call:
    jobs = limited(1), limited(2, 3), limited(3, delay=60)
    return lambda: enqueue(store, *jobs)


async def _admit(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, *(limited(n, 3, priority=n) for n in range(1, 6)))
    return lambda: store.admit(limit=10)


async def _admitted(store: Store, clock: ManualClock) -> tuple[LeasedJob, ...]:
    await join(store, lease=600)
    await enqueue(store, *(limited(n, 3) for n in range(1, 6)))
    await store.admit(limit=10)
    return await take(store)


async def _settle_limited(store: Store, clock: ManualClock) -> Call:
    """The room that is given back may be taken in a transaction of its own."""
    jobs = await _admitted(store, clock)
    return _settling_and_admitting(store, _batch(jobs, "succeeded", "retry", "dead"))


def _settling_and_admitting(store: Store, batch: list[Settlement]) -> Call:
    async def call() -> None:
        await store.settle(batch)
        await store.admit(limit=10)

    return call


async def _cool_down(store: Store, clock: ManualClock) -> Call:
    """Others of the key have been let in and have not begun."""
    await join(store)
    await enqueue(store, *(limited(n, 3) for n in range(1, 6)))
    await store.admit(limit=10)
    (first,) = await take(store, limit=1)
    batch = [Settlement(job=first, outcome=Snoozed(delay=5, cool_down=30))]
    return _settling_and_admitting(store, batch)


async def _close_limit(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, *(limited(n, 3) for n in range(1, 6)))
    await store.admit(limit=10)
    return lambda: store.close_limit("api", seconds=30)


async def _open_limit(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, limited(1))
    await store.close_limit("api")
    return lambda: store.open_limit("api")


async def _pause_queue(store: Store, clock: ManualClock) -> Call:
    return lambda: store.pause_queue("q")


async def _resume_queue(store: Store, clock: ManualClock) -> Call:
    await store.pause_queue("q")
    return lambda: store.resume_queue("q")


async def _start(store: Store, clock: ManualClock) -> Call:
    await join(store)
    await enqueue(store, job(1, delay=60))
    return lambda: store.start(job(11, group_id=uid(1)), "w1")


async def _signal_to_a_limited_job(store: Store, clock: ManualClock) -> Call:
    await _admitted(store, clock)
    (held, *_) = await store.held("w1")
    await settle_with(store, held, Effects(), waiting())
    return lambda: store.send_signal(signal(id=uid(60)))


async def _release_to_a_limit(store: Store, clock: ManualClock) -> Call:
    await join(store)
    await enqueue(store, job(1))
    held = await take_one(store)
    await store.commit(Effects(jobs=(limited(11, gate=uid(51)),), gates=(gate(51, 1),)))
    batch = _batch([held], "succeeded")
    return lambda: store.settle(batch)


SCENARIOS: dict[str, Scenario] = {
    "commit gates": _commit_gates,
    "settle to gates": _settle_to_gates,
    "settle with a plan": _settle_with_a_plan,
    "settle with contributions": _settle_with_contributions,
    "settle in a fail-fast group": _settle_in_a_fail_fast_group,
    "close groups": _close_groups,
    "cancel groups": _cancel_groups,
    "expire blocked": _expire_blocked,
    "rescue to gates": _rescue_to_gates,
    "cancel to gates": _cancel_to_gates,
    "redrive from gates": _redrive_from_gates,
    "redrive behind gates": _redrive_behind_gates,
    "gates over descendants": _lead_on,
    "delete all": _delete_all,
    "put step": _put_step,
    "put undo": _put_undo,
    "send signal": _send_signal,
    "take signal": _take_signal,
    "wait": _wait,
    "succeed with undo": _succeed_with_undo,
    "compensate": _compensate,
    "commit limited": _commit_limited,
    "admit": _admit,
    "settle limited": _settle_limited,
    "cool down": _cool_down,
    "close limit": _close_limit,
    "open limit": _open_limit,
    "pause queue": _pause_queue,
    "resume queue": _resume_queue,
    "start": _start,
    "signal to a limited job": _signal_to_a_limited_job,
    "release to a limit": _release_to_a_limit,
}


async def _the_count_is_right(store: Store) -> None:
    """However far it came: what is admitted is what is ready or running."""
    (known,) = await store.limits(keys=["api"])
    (queue,) = await store.queues()
    assert known.admitted == queue.ready + queue.running
    found = await store.find(JobFilter(reasons=("limit",)))
    assert known.held == len(found.items)


async def _nothing_begins(store: Store) -> None:
    """However far it came: nobody but its worker may be there to go on with it."""
    await _the_count_is_right(store)
    assert await take(store) == ()


_PIECEWISE: dict[str, Check] = {
    "settle limited": _the_count_is_right,
    "cool down": _nothing_begins,
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_cut_at_any_statement_leaves_before_or_after(bench: Bench, name: str) -> None:
    await cut_everywhere(bench, SCENARIOS[name], piecewise=_PIECEWISE.get(name))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_repeat_after_a_lost_answer_changes_nothing(bench: Bench, name: str) -> None:
    """A compensation that was carried out is not carried out again, a gate does not fire twice."""
    await repeat(bench, SCENARIOS[name])
