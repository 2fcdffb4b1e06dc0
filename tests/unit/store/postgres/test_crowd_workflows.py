"""Everybody at once at the same groups and gates: nothing is lost, counted twice or left over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.gate import Counting, GateState, NewGate
from offpath.model.group import Contribution
from offpath.model.job import DeadReason, LeasedJob
from offpath.model.lease import LeaseRequest
from offpath.model.settlement import Dead, Settlement, SettleStatus, Succeeded
from offpath.store.postgres import PostgresStore
from tests.conformance.builders import (
    TASK,
    enqueue,
    failure,
    fresh_id,
    join,
    new_job,
    take,
    worker_info,
)

from .conftest import Ask, Opened
from .test_crowd import _TORN_GROUPS

LATER = "later"
_TORN_GATES = """
    select count(*) from offpath.job_gate g
    where (g.succeeded, g.failed) is distinct from (
        select (count(*) filter (where w.outcome = 'succeeded'),
            count(*) filter (where w.outcome = 'failed'))
        from offpath.gate_watch w where w.gate = g.id
    )
"""


def _added(so_far: str | None, one: str) -> str:
    return str(int(so_far or "0") + int(one))


async def _family(store: PostgresStore, children: int) -> str:
    """A root that has ended, with so many children that are due."""
    await join(store)
    root = new_job(priority=9)
    await enqueue(store, root)
    (leased,) = await take(store, limit=1)
    jobs = tuple(new_job(parent=root.id) for _ in range(children))
    await store.settle([Settlement(job=leased, outcome=Succeeded(), effects=Effects(jobs=jobs))])
    return root.id


async def test_a_hundred_that_add_one_make_a_hundred(opened: Opened) -> None:
    stores = [await opened() for _ in range(4)]
    root = await _family(stores[0], 100)
    jobs = await take(stores[0], limit=100)
    one = Effects(contributions=(Contribution(payload="1", fold=_added),))
    answers = await asyncio.gather(
        *(
            stores[n % 4].settle(
                [
                    Settlement(job=job, outcome=Succeeded(contributes=False), effects=one)
                    for job in jobs[n : n + 5]
                ]
            )
            for n in range(0, 100, 5)
        )
    )
    (group,) = await stores[0].groups([root])
    assert (group.open, group.result) == (0, "100")
    assert sum(each.group_done for some in answers for each in some) == 1


def _outcome(job: LeasedJob, chance: random.Random) -> Settlement:
    if chance.random() < 0.1:
        return Settlement(job=job, outcome=Dead(reason=DeadReason.ABORTED, failure=failure()))
    return Settlement(job=job, outcome=Succeeded(result="1"))


async def _work(
    store: PostgresStore, worker: str, chance: random.Random, strays: Sequence[str]
) -> None:
    await store.register(worker_info(worker), lease_seconds=300)
    while True:
        leased = await store.lease(LeaseRequest(worker=worker, limit=15, tasks={TASK: 15}))
        if not leased.jobs:
            return
        await asyncio.gather(
            _end(store, [_outcome(job, chance) for job in leased.jobs]),
            store.cancel([chance.choice(strays)]),
            store.expire_blocked(limit=50),
            store.close_groups(limit=20),
        )


async def _end(store: PostgresStore, ends: Sequence[Settlement]) -> None:
    """Write each end once. On a busy machine another may have a row of theirs for a second: it is
    unknown then what was written, and they are repeated, as a worker does.
    """
    allowed = {SettleStatus.APPLIED}
    while ends:
        try:
            answers = await store.settle(ends)
        except StoreUnavailable:
            allowed.add(SettleStatus.LEASE_LOST)  # by the end that was written already
            continue
        busy = {each.id for each in answers if each.status is SettleStatus.BUSY}
        assert {each.status for each in answers if each.id not in busy} <= allowed
        ends = [end for end in ends if end.job.id in busy]


async def test_gates_chains_cancels_and_folds_at_once(opened: Opened, ask: Ask) -> None:
    """Gates over the same jobs in every order, each with a chain behind it."""
    stores = [await opened() for _ in range(4)]
    chance = random.Random(7)
    roots = [new_job() for _ in range(3)]
    watched = [new_job(group_id=chance.choice(roots).id) for _ in range(240)]
    held, gates = [], []
    for n in range(40):
        on = [job.id for job in chance.sample(watched, 30)]
        first = NewGate(
            id=fresh_id(), on=tuple(on), need=30 if n % 2 else 10, of=Counting(_COUNTED[n % 2])
        )
        job = new_job(LATER, gate=first.id, group_id=chance.choice(roots).id)
        second = NewGate(id=fresh_id(), on=(job.id, chance.choice(on)), need=2)
        held += [job, new_job(LATER, gate=second.id)]
        gates += [first, second]
    await stores[0].commit(Effects(jobs=(*roots, *watched, *held), gates=tuple(gates)))
    strays = [job.id for job in (*watched, *held)]
    await asyncio.gather(
        *(_work(stores[n % 4], f"w{n}", random.Random(n), strays) for n in range(8))
    )
    for _ in range(3):
        await stores[0].expire_blocked(limit=500)
    assert ask(_TORN_GROUPS) == [(0,)]
    assert ask(_TORN_GATES) == [(0,)]
    assert ask("select count(*) from offpath.job_gate where behind") == [(0,)]
    left = "select count(*) from offpath.job where watched = 1 and finished_at is not null"
    assert ask(left) == [(0,)]
    # nobody waits at a gate that is decided, and those over ended jobs alone are decided
    stuck = """
        select count(*) from offpath.job j join offpath.job_gate g on g.id = j.gate
        where j.state = 'blocked' and g.state <> 'open'
    """
    assert ask(stuck) == [(0,)]
    assert ask(_DEADLOCKS) == [(0,)]
    first_gates = await stores[0].gates([gate.id for gate in gates[::2]])
    assert {gate.state for gate in first_gates} <= {GateState.FIRED, GateState.UNSATISFIABLE}


_COUNTED = ("settled", "succeeded")
_DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


async def test_a_worker_of_the_release_before_leaves_its_ends_to_be_found(
    opened: Opened, ask: Ask
) -> None:
    """It counts down groups and removes them when they are empty, and knows nothing of gates."""
    store = await opened()
    root = await _family(store, 1)
    (child,) = await take(store, limit=1)
    gate = NewGate(id=fresh_id(), on=(child.id,), need=1)
    waiting = new_job(LATER, gate=gate.id)
    await store.commit(Effects(jobs=(waiting,), gates=(gate,)))
    ask(
        "update offpath.job set state = 'succeeded', worker = null, finished_at = now() "
        "where id = %s",
        child.id,
    )
    ask("update offpath.job_group set open = open - 1 where id = %s", root)
    ask("delete from offpath.job_group where id = %s and open = 0", root)
    assert [group.open for group in await store.groups([root])] == [0]
    await store.expire_blocked(limit=10)
    (fired,) = await store.gates([gate.id])
    assert fired.state is GateState.FIRED
    await join(store, "w2")
    assert [job.id for job in await take(store, "w2", tasks={LATER: 1})] == [waiting.id]


async def test_a_group_goes_with_its_last_job(opened: Opened, ask: Ask) -> None:
    store = await opened()
    root = await _family(store, 1)
    (child,) = await take(store, limit=1)
    await store.settle([Settlement(job=child, outcome=Succeeded(result="7"))])
    await store.delete([root])
    assert [group.result for group in await store.groups([root])] == ["7"]
    await store.delete([child.id])
    assert await store.groups([root]) == []
    assert ask("select count(*) from offpath.job_group") == [(0,)]


async def test_waiting_at_a_gate_costs_no_row_and_no_statement(opened: Opened, ask: Ask) -> None:
    """The statements of a pass over the waits do not grow with them, and it writes nothing."""
    store = await opened()
    watched = [new_job(delay=3600) for _ in range(50)]
    gates = [NewGate(id=fresh_id(), on=(job.id,), need=1) for job in watched]
    held = [new_job(LATER, gate=gate.id) for gate in gates]
    sent: list[str] = []
    store._before_statement = sent.append
    await store.expire_blocked(limit=100)
    idle = sent.copy()
    await store.commit(Effects(jobs=(*watched, *held), gates=tuple(gates)))
    rows = (
        "select xmin::text, ctid::text from offpath.job_gate union all "
        "select xmin::text, ctid::text from offpath.job order by 1, 2"
    )
    written = ask(rows)
    sent.clear()
    assert await store.expire_blocked(limit=100) == []
    frame = {"begin", "commit"}
    assert [name for name in sent if name not in frame] == [n for n in idle if n not in frame]
    assert len(idle) <= 16, idle
    assert ask(rows) == written
