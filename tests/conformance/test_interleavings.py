"""Somebody else acts between two statements of one transition."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from offpath.errors import StoreBusy
from offpath.model.effects import Effects
from offpath.model.job import JobState, LeasedJob, UniquePolicy
from offpath.model.ledger.book import Book
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.backends import Backend
from tests.conformance.builders import add, die, enqueue, join, new_job, record, take, unique
from tests.conformance.interleaving import before
from tests.conformance.ledger_builders import STORED_VALUE, done, move, op, plain, why
from tests.conformance.workflow_builders import LATER, gate_on, hold_one


@pytest.fixture
def place(store: Store, backend: Backend) -> Backend:
    """Backends on which several transactions write at once."""
    if not backend.many_writers:
        pytest.skip("there is one writer at a time")
    return backend


async def test_a_lease_waits_for_who_replaces_the_job(store: Store, place: Backend) -> None:
    """Else a running job would be put back as ready, and run twice."""
    old = new_job(unique=unique("k"))
    await enqueue(store, old)
    new = new_job(unique=unique("k", policy=UniquePolicy.REPLACE), input='{"n":2}')
    lease = (
        "update offpath.job set state = 'running', worker = 'w9', deliveries = deliveries + 1 "
        f"where id = '{old.id}' and state = 'ready'"
    )
    with before(store, "replace_holders", lambda: place.run_script(lease), waits=True) as leased:
        (answer,) = await enqueue(store, new)
    assert leased.waited
    assert (answer.job_id, answer.created) == (old.id, False)
    job = await record(store, old.id)
    assert (job.state, job.worker, job.input) == (JobState.RUNNING, "w9", '{"n":2}')


async def test_a_rescue_leaves_a_job_alone_that_another_worker_is_taking(
    store: Store, place: Backend, clock: ManualClock
) -> None:
    """The job of a dead worker is another's by the time at which the rescue wants its row."""
    await join(store)
    job = await add(store)
    (held,) = await take(store)
    clock.advance(31)
    await join(store, "w9")
    lease = (
        "update offpath.job set worker = 'w9', deliveries = deliveries + 1 "
        f"where id = '{job}' and worker = '{held.worker}'"
    )
    async with place.async_transaction() as connection:
        await connection.execute(lease)
        assert await store.rescue(limit=10, max_deliveries=3) == []
        await connection.commit()
    assert await store.rescue(limit=10, max_deliveries=3) == []
    found = await record(store, job)
    assert (found.state, found.worker, found.losses) == (JobState.RUNNING, "w9", 0)


async def test_who_joins_a_gate_in_an_open_transaction_is_released_with_it(
    store: Store, place: Backend
) -> None:
    await join(store)
    watched = await add(store)
    gate = gate_on(watched)
    held = await hold_one(store, gate)
    (last,) = await take(store)
    joiner = new_job(LATER, gate=gate.id)
    async with place.async_transaction() as connection:
        await store.commit_within(connection, Effects(jobs=(joiner,)))
        settling = asyncio.create_task(store.settle([Settlement(job=last, outcome=Succeeded())]))
        done, _ = await asyncio.wait({settling}, timeout=0.3)
        await connection.commit()
    assert not done, "the gate was decided beside a job that was about to join it"
    await settling
    await store.expire_blocked(limit=10)
    states = await store.states([held, joiner.id])
    assert set(states.values()) == {JobState.QUEUED}


async def test_a_gate_that_fired_does_not_time_out_for_a_job_that_was_locked(
    store: Store, place: Backend, clock: ManualClock
) -> None:
    await join(store)
    watched = await add(store)
    held = await hold_one(store, gate_on(watched, timeout=60))
    (last,) = await take(store)
    async with place.async_transaction() as connection:
        await connection.execute(f"select from offpath.job where id = '{held}' for update")
        await store.settle([Settlement(job=last, outcome=Succeeded())])
    assert (await record(store, held)).state is JobState.BLOCKED
    clock.advance(61)
    await store.expire_blocked(limit=10)
    job = await record(store, held)
    assert (job.state, job.reason) == (JobState.QUEUED, None)


async def _dead_join(store: Store, live: int) -> tuple[str, str, list[LeasedJob]]:
    """A part that has died, the join that died of it, and the other parts, which run."""
    await join(store)
    ids = [await add(store) for _ in range(live + 1)]
    held = await hold_one(store, gate_on(*ids))
    first, *others = await take(store, limit=live + 1)
    await die(store, first)
    return first.id, held, others


@pytest.mark.parametrize("statement", ["hold_jobs", "recount_gates", "reopen_gates"])
async def test_a_part_that_ends_beside_a_redrive_is_counted(
    store: Store, place: Backend, statement: str
) -> None:
    """Else its join would wait for it for ever."""
    first, held, (other,) = await _dead_join(store, 1)
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    ends: list[asyncio.Task[Any]] = []

    def end() -> None:
        loop.call_soon_threadsafe(ending.set)

    async def settle() -> None:
        await ending.wait()
        await store.settle([Settlement(job=other, outcome=Succeeded())])

    ends.append(asyncio.create_task(settle()))
    with before(store, statement, end):
        await store.redrive([JobRedrive(id=first)])
    await asyncio.gather(*ends)
    (again,) = await take(store)
    await store.settle([Settlement(job=again, outcome=Succeeded())])
    assert (await record(store, held)).state is JobState.QUEUED


async def test_two_redrives_of_one_join_at_once_bring_it_back(store: Store, place: Backend) -> None:
    """Each sees the other's part as dead until it has the gate."""
    first, held, others = await _dead_join(store, 1)
    await die(store, others[0])
    async with place.async_transaction() as connection:
        await connection.execute(
            "select from offpath.job_gate where state = 'unsatisfiable' for update"
        )
        both = [
            asyncio.create_task(store.redrive([JobRedrive(id=each)]))
            for each in (first, others[0].id)
        ]
        done, _ = await asyncio.wait(both, timeout=0.3)
        assert not done
        await connection.commit()
    changed = [one.id for answer in await asyncio.gather(*both) for one in answer]
    assert sorted(changed) == sorted([first, others[0].id, held])
    assert (await record(store, held)).state is JobState.BLOCKED


async def test_a_gate_that_is_made_beside_a_redrive_makes_it_look_again(
    store: Store, place: Backend
) -> None:
    await join(store)
    first = await add(store)
    (job,) = await take(store)
    await die(store, job)
    gate = gate_on(first)
    held = new_job(LATER, gate=gate.id)

    def make() -> None:
        with place.transaction() as connection:
            store.commit_within_blocking(connection, Effects(jobs=(held,), gates=(gate,)))
            connection.commit()

    with before(store, "hold_jobs", make), contextlib.suppress(StoreBusy):
        await store.redrive([JobRedrive(id=first)])
    await store.redrive([JobRedrive(id=first)])
    assert (await record(store, held.id)).state is JobState.BLOCKED


# -- a ledger's accounts that seldom exist ---------------------------------------------------------

SAM, SAMS_DEBT = "sam:spendable", "sam:owed"


async def _until_it_waits(place: Backend, task: asyncio.Task[Any]) -> None:
    """Return once a session of this database waits for a lock."""
    asked = (
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock'"
    )
    while not place.execute(asked)[0][0]:
        assert not task.done(), "it waited for nobody"
        await asyncio.sleep(0)


async def test_income_sees_a_debt_that_is_born_while_it_waits_for_its_debtor(
    store: Store, place: Backend
) -> None:
    """Else income would go to a wallet while its owner owes.

    The statement that waits for the wallet does not see the row of the debt: it was made behind
    its back. The lock is taken once more, by a statement that sees it.
    """
    await done(store, plain(100, SAM))
    owing = op(lambda book: book.post(move(70, SAM, given=SAMS_DEBT)), accounts={SAM, SAMS_DEBT})
    seen: list[int] = []

    def take_in(book: Book) -> None:
        seen.append(book.balance(SAMS_DEBT))
        book.post(move(30, SAM))

    income = op(take_in, accounts={SAM, STORED_VALUE}, perhaps={SAMS_DEBT})
    async with place.async_transaction() as connection:
        await store.commit_within(connection, Effects(operations=(owing,)))
        coming = asyncio.create_task(store.post([income]))
        await _until_it_waits(place, coming)
        await connection.commit()
    assert why((await coming)[0]) is None
    assert seen[-1] == 70
