"""Recent deaths and the lag of routers, as health asks for them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.model.deaths import Deaths, Whose
from offpath.model.effects import Effects
from offpath.model.message import Box
from offpath.model.route import RouterLag
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import START, die, start, succeed
from tests.conformance.log_builders import (
    DOMAIN,
    ROUTER,
    append,
    append_many,
    declare,
    event,
    run_router,
)
from tests.conformance.message_builders import (
    dead,
    end_message,
    hand_one,
    inbound,
    post,
    put,
)


async def dead_job(store: Store, task: str) -> None:
    await die(store, await start(store, task=task))


async def dead_event(store: Store, stream: str) -> None:
    await put(store, stream)
    await end_message(store, await hand_one(store, stream), dead())


async def dead_message(store: Store, source: str, key: str) -> None:
    await post(store, inbound(key, source))
    await end_message(store, await hand_one(store, source, box=Box.IN), dead())


def told(found: list[Deaths]) -> list[tuple[str, str, int]]:
    return [(one.whose, one.name, one.count) for one in found]


async def one_of_each(store: Store) -> None:
    await dead_job(store, "charge")
    await dead_event(store, "wallet")
    await dead_message(store, "bank", "k")
    await declare(store)
    await run_router(store, failed=await append(store, event()))


async def test_dead_letters_of_every_kind_are_counted_by_name(store: Store) -> None:
    await one_of_each(store)
    await dead_job(store, "charge")
    await succeed(store, await start(store, task="charge"))
    assert told(await store.deaths()) == [
        ("router", ROUTER, 1),
        ("source", "bank", 1),
        ("stream", "wallet", 1),
        ("task", "charge", 2),
    ]


async def test_only_those_since_a_time_are_new(store: Store, clock: ManualClock) -> None:
    await one_of_each(store)
    clock.advance(60)
    await dead_job(store, "mail")
    found = await store.deaths(since=START + timedelta(seconds=1))
    assert told(found) == [("task", "mail", 1)]
    assert len(await store.deaths(since=START)) == 5


async def test_so_many_are_counted_and_no_more(store: Store) -> None:
    for number in range(4):
        await dead_job(store, "charge")
        await dead_event(store, "wallet")
        await dead_message(store, "bank", f"k{number}")
    assert {one.count for one in await store.deaths(limit=2)} == {2}


async def test_what_was_resolved_redriven_or_removed_is_no_dead_letter(store: Store) -> None:
    await one_of_each(store)
    (letter,) = await store.letters(ROUTER)
    assert await store.resolve_letter(letter.id, "known")
    left = await store.deaths()
    assert [one.whose for one in left] == [Whose.SOURCE, Whose.STREAM, Whose.TASK]


# -- how far behind routers are -------------------------------------------------------------------


async def test_a_router_is_behind_by_its_oldest_event(store: Store, clock: ManualClock) -> None:
    await declare(store)
    await declare(store, "idle", domain="other")
    await append_many(store, 2)
    clock.advance(30)
    await append_many(store, 2)
    closed = RouterLag(router=ROUTER, open=False, oldest_at=START)
    idle = RouterLag(router="idle", open=False, oldest_at=None)
    assert list(await store.router_lags()) == [idle, closed]
    await store.set_gate(None, opened=True)
    await store.set_gate(ROUTER, opened=True)
    await run_router(store, limit=2)
    first, second = await store.router_lags()
    assert first == idle
    assert (second.open, second.oldest_at) == (True, START + timedelta(seconds=30))
    await run_router(store)
    assert [one.oldest_at for one in await store.router_lags()] == [None, None]


async def test_each_partition_is_looked_at(store: Store, clock: ManualClock) -> None:
    await declare(store, partitions=3)
    await append(store, event(slot=1))
    clock.advance(10)
    await append(store, *(event(slot=slot) for slot in (0, 2)))
    (lag,) = await store.router_lags()
    assert lag.oldest_at == START


async def test_an_event_behind_an_open_writer_waits_too(
    store: Store, caller: Backend, clock: ManualClock
) -> None:
    if not caller.many_writers:
        pytest.skip("nobody else can write while a transaction is open")
    await declare(store)
    with caller.transaction() as connection:
        store.commit_within_blocking(connection, Effects(log=(event(),)))
        await append(store, event(domain=DOMAIN))
        clock.advance(7_200)
        assert await run_router(store) == []
        assert (await store.router_facts(ROUTER)).oldest_lag == 7_200
        (lag,) = await store.router_lags()
        assert lag.oldest_at == START
        connection.commit()
    assert len(await run_router(store)) == 2
    assert (await store.router_facts(ROUTER)).oldest_lag == 0
