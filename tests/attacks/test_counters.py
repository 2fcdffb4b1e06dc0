"""Positions that rows have although their counter never gave them: by hand, or from a backup."""

from __future__ import annotations

import pytest

from offpath.model.effects import Effects
from offpath.model.job import JobState
from offpath.model.message import Box
from offpath.model.settlement import Settlement, SettleStatus, Succeeded
from offpath.store.postgres.faults import CounterBehind
from offpath.store.protocol import Level, Store
from tests.conformance.backends import Backend
from tests.conformance.builders import new_job, record, start
from tests.conformance.log_builders import event
from tests.conformance.message_builders import inbound, message

MANY = 3000
"""More than ten tries of one row each get past."""
_TAKEN = {
    "log": (
        "insert into offpath.log (position, at, slot, id, domain, type, stream, payload) "
        "select coalesce(pg_sequence_last_value('offpath.log_position_seq'::regclass), 0) + n, "
        "now(), 0, 'by hand ' || n, 'other', 't', 's', '{{}}' from generate_series(1, {0}) as n"
    ),
    "message": (
        "insert into offpath.message (id, position, created_at, due_at, box, stream, payload) "
        "select 'by hand ' || n, "
        "coalesce(pg_sequence_last_value('offpath.message_position_seq'::regclass), 0) + n, "
        "now(), now(), 'out', 'other', '{{}}' from generate_series(1, {0}) as n"
    ),
}


@pytest.fixture
def taken(store: Store, backend: Backend) -> Backend:
    """The next positions of the log and of messages have rows."""
    if backend.name != "postgres":
        pytest.skip("its positions are one more than the largest row")
    for statement in _TAKEN.values():
        backend.execute(statement.format(MANY))
    return backend


def _count(backend: Backend, table: str) -> int:
    ((number,),) = backend.execute(f"select count(*) from offpath.{table}")
    return int(number)


async def test_events_and_messages_are_written_behind_them(store: Store, taken: Backend) -> None:
    effects = Effects(
        log=(event(), event()), messages=(message(), message(), inbound("a"), inbound("b"))
    )
    answers = await store.commit(effects)
    assert [answer.created for answer in answers] == [True] * 4
    assert (_count(taken, "log"), _count(taken, "message")) == (MANY + 2, MANY + 4)
    again = await store.commit(effects)
    assert [answer.created for answer in again] == [False] * 4
    assert (_count(taken, "log"), _count(taken, "message")) == (MANY + 2, MANY + 4)


async def test_a_job_that_announces_its_end_ends(store: Store, taken: Backend) -> None:
    job = await start(store)
    effects = Effects(messages=(message(),), log=(event(),))
    one = Settlement(job=job, outcome=Succeeded(), effects=effects)
    (answer,) = await store.settle([one])
    assert answer.status is SettleStatus.APPLIED
    assert (await record(store, job.id)).state is JobState.SUCCEEDED
    assert _count(taken, "message") == MANY + 1


@pytest.mark.parametrize("box", list(Box))
async def test_in_a_callers_transaction_it_is_an_error(
    store: Store, taken: Backend, box: Box
) -> None:
    new = message() if box is Box.OUT else inbound("a")
    async with taken.async_transaction() as connection:
        with pytest.raises(CounterBehind, match="nothing was written"):
            await store.commit_within(connection, Effects(messages=(new,), jobs=(new_job(),)))
    assert _count(taken, "message") == MANY
    await store.commit(Effects(messages=(new,)))
    assert _count(taken, "message") == MANY + 1


async def test_an_event_in_a_callers_transaction_is_not_lost_in_silence(
    store: Store, taken: Backend
) -> None:
    async with taken.async_transaction() as connection:
        with pytest.raises(Exception, match=r"log_pkey|nothing was written"):
            await store.commit_within(connection, Effects(log=(event(),)))
    await store.commit(Effects(log=(event(),)))
    assert _count(taken, "log") == MANY + 1


async def test_doctor_names_each_counter_that_is_behind(store: Store, taken: Backend) -> None:
    found = {each.name: each for each in await store.diagnose()}["counters"]
    assert found.level is Level.PROBLEM
    assert "log.position" in found.message
    assert "message.position" in found.message
    await store.commit(Effects(log=(event(),), messages=(message(),)))
    found = {each.name: each for each in await store.diagnose()}["counters"]
    assert found.level is Level.FINE, found.message


async def test_doctor_names_a_counter_behind_a_router(store: Store, backend: Backend) -> None:
    """An event would be given a position that the router has passed, and be skipped."""
    if backend.name == "memory":
        pytest.skip("memory keeps no rows that anybody else could change")
    table = "offpath.cursor" if backend.name == "postgres" else "offpath_cursor"
    backend.execute(
        f"insert into {table} (router, partition, position, start) values ('r', 0, 99999999, 0)"
    )
    found = {each.name: each for each in await store.diagnose()}["counters"]
    assert found.level is Level.PROBLEM
    assert "99999999" in found.message
