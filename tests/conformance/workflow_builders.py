"""Short ways to make gates, groups, limits and signals, and to look at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offpath.model.effects import Effects
from offpath.model.gate import Counting, GateRecord, NewGate
from offpath.model.group import Contribution, Fold, GroupRecord
from offpath.model.job import JobRecord, LeasedJob, NewJob
from offpath.model.limit import LimitRecord, LimitSpec, RateSpec
from offpath.model.settlement import Outcome, Settled, Settlement, SettleStatus, Succeeded, Waiting
from offpath.model.wait import NewSignal
from offpath.store.protocol import Store
from tests.conformance.builders import add, enqueue, fresh_id, new_job, record, take

LATER = "later.run"
"""The task of jobs that wait at gates."""


# -- groups --------------------------------------------------------------------------------------


def adding(so_far: str | None, new: str) -> str:
    """A fold of numbers."""
    return str(int(so_far or "0") + int(new))


def gives(payload: str, *, final: bool = False, fold: Fold | None = None) -> Effects:
    """Effects that contribute this."""
    return Effects(contributions=(Contribution(payload=payload, final=final, fold=fold),))


async def group_of(store: Store, group_id: str) -> GroupRecord:
    """A group, which must exist."""
    (found,) = await store.groups([group_id])
    return found


async def settle_with(
    store: Store, job: LeasedJob, effects: Effects, outcome: Outcome | None = None
) -> Settled:
    """Settle one job with these effects, which must be applied."""
    if outcome is None:
        outcome = Succeeded(contributes=False)
    (answer,) = await store.settle([Settlement(job=job, outcome=outcome, effects=effects)])
    assert answer.status is SettleStatus.APPLIED, answer
    return answer


async def family(store: Store, members: int, **root: Any) -> tuple[str, tuple[LeasedJob, ...]]:
    """A group of a succeeded root without a result and these many running members (of w1)."""
    root_id = await add(store, **root)
    (held,) = await take(store, limit=1)
    assert held.id == root_id
    children = tuple(new_job(parent=root_id) for _ in range(members))
    await settle_with(store, held, Effects(jobs=children), Succeeded())
    leased = await take(store, limit=members)
    assert len(leased) == members
    return root_id, leased


# -- gates ---------------------------------------------------------------------------------------


def gate_on(
    *ids: str,
    need: int | None = None,
    of: Counting = Counting.SUCCEEDED,
    timeout: float | None = None,
) -> NewGate:
    """A gate with an own id; without ``need`` it waits for all."""
    return NewGate(
        id=fresh_id(), on=ids, need=len(ids) if need is None else need, of=of, timeout=timeout
    )


async def hold(store: Store, gate: NewGate, count: int = 1, **fields: Any) -> list[str]:
    """Commit a gate with jobs that it holds; their ids."""
    jobs = [new_job(LATER, gate=gate.id, **fields) for _ in range(count)]
    await store.commit(Effects(jobs=tuple(jobs), gates=(gate,)))
    return [job.id for job in jobs]


async def hold_one(store: Store, gate: NewGate, **fields: Any) -> str:
    """Commit a gate with one job that it holds; its id."""
    (job_id,) = await hold(store, gate, **fields)
    return job_id


async def gate_of(store: Store, gate: NewGate) -> GateRecord:
    """The store's record of a gate, which must exist."""
    (found,) = await store.gates([gate.id])
    return found


async def fates(store: Store, *ids: str) -> list[tuple[str, str | None]]:
    """State and reason of these jobs, in this order."""
    found: dict[str, JobRecord] = {each.id: each for each in await store.get(ids)}
    return [(found[each].state.value, found[each].reason) for each in ids]


# -- limits --------------------------------------------------------------------------------------


def limited(
    key: str = "api", max_running: int | None = 1, rate: RateSpec | None = None, **fields: Any
) -> NewJob:
    """A job with a limit."""
    limit = LimitSpec(key=key, max_running=max_running, rate=rate)
    return new_job(fields.pop("task", "mail.send"), limit=limit, **fields)


async def hold_limited(
    store: Store, count: int, max_running: int | None = 1, key: str = "api"
) -> list[str]:
    """Enqueue so many jobs of one limit; their ids."""
    jobs = [limited(key, max_running) for _ in range(count)]
    await enqueue(store, *jobs)
    return ids_of(jobs)


async def limit_of(store: Store, key: str = "api") -> LimitRecord:
    """The store's record of a key, which must exist."""
    (found,) = await store.limits(keys=[key])
    return found


def ids_of(jobs: Sequence[NewJob | LeasedJob]) -> list[str]:
    """Their ids, in this order."""
    return [job.id for job in jobs]


# -- signals -------------------------------------------------------------------------------------


def signal(payload: str = '"yes"', **fields: Any) -> NewSignal:
    """A signal for the order's payment."""
    fields.setdefault("id", fresh_id())
    fields.setdefault("target", "order-1")
    fields.setdefault("event", "paid")
    fields.setdefault("keep", 3600.0)
    return NewSignal(payload=payload, **fields)


def waiting(timeout: float | None = None, **fields: Any) -> Waiting:
    """The outcome of an attempt that waits for the order's payment."""
    fields.setdefault("target", "order-1")
    fields.setdefault("event", "paid")
    return Waiting(timeout=timeout, **fields)


async def sleeper(store: Store, patience: float | None = None, **fields: Any) -> str:
    """A job that was run and waits for the order's payment; its id."""
    job_id = await add(store, **fields)
    held = [job for job in await take(store, limit=100) if job.id == job_id]
    await settle_with(store, held[0], Effects(), waiting(patience))
    return job_id


async def taken(store: Store, job: LeasedJob, step: str = "wait") -> str | None:
    """Take the order's payment."""
    return await store.take_signal(job, target="order-1", event="paid", step=step)


async def reason_of(store: Store, job_id: str) -> str | None:
    """Why a job is as it is."""
    return (await record(store, job_id)).reason
