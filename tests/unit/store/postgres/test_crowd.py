"""Everybody at once on one table: no error reaches a caller, and the counts are right."""

from __future__ import annotations

import asyncio
import random

from offpath.model.effects import Effects
from offpath.model.job import DeadReason, LeasedJob
from offpath.model.lease import LeaseRequest
from offpath.model.settlement import Dead, Outcome, Retry, Settlement, SettleStatus, Succeeded
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import JobRedrive
from tests.conformance.builders import TASK, failure, new_job, worker_info

from .conftest import Ask, Opened

ROUNDS = 12
_TORN_GROUPS = """
    select count(*)
    from (
        select coalesce(j.group_id, j.id::text) as id,
            count(*) filter (where j.finished_at is null) as open,
            count(*) filter (where j.state in ('dead', 'cancelled')) as failed
        from offpath.job j where j.grouped group by 1
    ) as members
    full join offpath.job_group g on g.id = members.id
    where (members.open, members.failed) is distinct from (g.open, g.failed)
"""


def _outcome(chance: random.Random) -> Outcome:
    outcomes: list[Outcome] = [
        Succeeded(result="1"),
        Succeeded(result="1"),
        Dead(reason=DeadReason.ABORTED, failure=failure()),
        Retry(delay=0.0, failure=failure()),
    ]
    return chance.choice(outcomes)


def _settlement(job: LeasedJob, chance: random.Random) -> Settlement:
    children = job.parent is None and chance.random() < 0.2
    effects = Effects(jobs=tuple(new_job(parent=job.id) for _ in range(3 if children else 0)))
    outcome = Succeeded() if children else _outcome(chance)
    return Settlement(job=job, outcome=outcome, effects=effects)


async def _work(store: PostgresStore, worker: str, chance: random.Random) -> int:
    """Lease, settle, cancel, redrive and rescue for some rounds; how many were settled."""
    await store.register(worker_info(worker), lease_seconds=300)
    applied = 0
    for _ in range(ROUNDS):
        leased = await store.lease(LeaseRequest(worker=worker, limit=20, tasks={TASK: 20}))
        ids = [job.id for job in leased.jobs]
        chance.shuffle(ids)
        answers, *_ = await asyncio.gather(
            store.settle([_settlement(job, chance) for job in leased.jobs]),
            store.cancel(ids[:5]),
            store.redrive([JobRedrive(id=job) for job in ids[5:10]]),
            store.rescue(limit=50, max_deliveries=3),
        )
        applied += sum(answer.status is SettleStatus.APPLIED for answer in answers)
    return applied


async def test_eight_do_everything_at_once(opened: Opened, ask: Ask) -> None:
    stores = [await opened() for _ in range(4)]
    await stores[0].commit(Effects(jobs=tuple(new_job() for _ in range(1000))))
    applied = await asyncio.gather(
        *(_work(stores[n % 4], f"w{n}", random.Random(n)) for n in range(8))
    )
    assert sum(applied) > 8 * ROUNDS * 10
    assert ask(_TORN_GROUPS) == [(0,)]
    assert ask("select count(*) from offpath.job where state = 'running'") == [(0,)]
