"""Messages on Postgres: how room is shared, how few statements are sent, what others do in SQL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offpath.model import announce
from offpath.model.effects import Effects
from offpath.model.job import JobState
from offpath.model.lease import LeaseRequest
from offpath.model.message import Box, MessageFilter, MessageRequest, StreamRoom
from offpath.model.settlement import Settlement, Succeeded
from offpath.store.hints import Hint
from offpath.store.postgres import PostgresStore
from offpath.store.postgres import deliveries as messages
from offpath.store.postgres.deliveries import share_out
from tests.conformance.builders import TASK, new_job, worker_info
from tests.conformance.message_builders import finish, hand, message, post


@pytest.mark.parametrize(
    ("dues", "limit", "shares"),
    [
        ([("a", 100, 5), ("b", 100, 6)], 10, {"a": 5, "b": 5}),
        ([("a", 100, 5), ("b", 2, 6)], 10, {"a": 8, "b": 2}),
        ([("a", 3, 5), ("b", 0, 0)], 10, {"a": 3, "b": 0}),
        ([("a", 9, 7), ("b", 9, 5), ("c", 9, 6)], 2, {"a": 0, "b": 1, "c": 1}),
        ([("a", 9, 7), ("b", 9, 5)], 3, {"a": 1, "b": 2}),
        ([], 3, {}),
    ],
)
def test_room_is_shared_evenly_and_the_rest_goes_to_those_that_wait_longest(
    dues: list[tuple[Any, ...]], limit: int, shares: dict[str, int]
) -> None:
    assert share_out(dues, limit) == shares


async def test_a_lease_and_a_settlement_are_one_statement_each(
    opened: Any,
) -> None:
    store: PostgresStore = await opened()
    await post(store, *(message() for _ in range(20)))
    sent: list[str] = []
    await store._announcer.close()
    store._before_statement = sent.append
    held = await hand(store)
    await store.settle_messages([finish(each) for each in held])
    assert sent == ["lease_messages", "done_messages"]
    assert len(held) == 20


async def test_an_ordered_lease_is_one_round_trip(opened: Any) -> None:
    store: PostgresStore = await opened()
    request = MessageRequest(
        box=Box.OUT,
        holder="h",
        streams=(StreamRoom(stream="s", limit=5, ordered=True),),
        limit=5,
        lease_seconds=5.0,
    )
    send = next(messages.lease_steps(request, None, sql=store._sql))
    assert [query.name for query in send.queries] == ["lock_streams", "lease_ordered"]
    assert send.last


async def test_what_waits_behind_others_hides_nobody(opened: Any) -> None:
    """More than a lease looks at are due and behind those that are not: it looks at the keys."""
    store: PostgresStore = await opened()
    await post(store, *(message(key=f"k{n}", delay=90) for n in range(30)))
    await post(store, *(message(key=f"k{n % 30}") for n in range(400)))
    goes = [message(key="z"), message()]
    await post(store, *goes)
    held = await hand(store, ordered=True, limit=10)
    assert sorted(each.id for each in held) == sorted(each.id for each in goes)


async def test_changes_in_sql_are_told_too(opened: Any, ask: Any) -> None:
    """No path, ours or anybody's, changes an announced job without its message."""
    store: PostgresStore = await opened()
    states = announce.announced(
        [JobState.QUEUED, JobState.RUNNING, JobState.CANCELLED], details=True
    )
    job = new_job(announce=states)
    await store.commit(Effects(jobs=(job, new_job())))
    ask("update offpath.job set state = 'scheduled' where id = %s", job.id)
    ask("update offpath.job set state = 'cancelled', finished_at = now()")
    page = await store.find_messages(MessageFilter(streams=(announce.STREAM,)), newest=False)
    told = [json.loads(each.payload) for each in page.items]
    assert [(each["previous"], each["state"], each["sequence"]) for each in told] == [
        (None, "queued", 1),
        ("queued", "cancelled", 3),
    ]
    assert {each["job"] for each in told} == {job.id}
    assert [each.topic for each in page.items] == ["job.queued", "job.cancelled"]
    assert told[0].keys() == {
        *("job", "task", "queue", "previous", "state", "attempt", "sequence", "at", "reason"),
        *("result", "error"),
    }


async def test_another_schema_announces_in_the_same_stream(url: str) -> None:
    store = PostgresStore(url, schema="tenant_2", migrate=True)
    await store.open()
    try:
        job = new_job(announce=announce.announced([JobState.QUEUED]))
        await store.commit(Effects(jobs=(job,)))
        (only,) = await hand(store, announce.STREAM)
        assert only.key == job.id
        (answer,) = await store.settle_messages([finish(only, Succeeded())])
        assert answer.state == "done"
    finally:
        await store.close()


def test_positions_are_given_one_by_one(ask: Any) -> None:
    """A session that kept some for later would give a lower one after a higher one was settled."""
    rows = ask(
        "select seqcache from pg_sequence where seqrelid = 'offpath.log_position_seq'::regclass"
    )
    assert rows == [(1,)]


@pytest.mark.parametrize("bits", [announce.RUNNING | announce.SUCCEEDED, 0])
async def test_others_are_told_of_messages_when_an_announced_job_moves(
    opened: Any, bits: int
) -> None:
    store: PostgresStore = await opened()
    told: list[Hint] = []
    await store.register(worker_info(), lease_seconds=30)
    await store.commit(Effects(jobs=(new_job(announce=bits),)))
    store._hints.subscribe(told.append)
    leased = await store.lease(LeaseRequest(worker="w1", limit=1, tasks={TASK: 1}))
    assert (Hint.MESSAGES in told) is bool(bits)
    told.clear()
    await store.settle([Settlement(job=job, outcome=Succeeded()) for job in leased.jobs])
    assert Hint.ENDED in told
    assert (Hint.MESSAGES in told) is bool(bits)
