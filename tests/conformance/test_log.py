"""The log: appended to by every door, read by position, and never past an open writer."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from offpath.errors import InvalidArgument, StoreRejected
from offpath.model.effects import Effects
from offpath.model.route import SLOTS, AttemptStatus, slot_of
from offpath.runtime.clock import ManualClock
from offpath.store.log_trim import trim
from offpath.store.protocol import Store
from offpath.sweeps.context import SweepContext
from offpath.sweeps.prune import Prune
from tests.conformance.backends import Backend
from tests.conformance.builders import START
from tests.conformance.log_builders import (
    ROUTER,
    append,
    append_many,
    declare,
    event,
    everything,
    read,
    run_router,
)
from tests.conformance.message_builders import find_all, message

pytestmark = pytest.mark.needs("log")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


# -- appending -------------------------------------------------------------------------------------


async def test_an_event_is_kept_as_it_was_written(store: Store, clock: ManualClock) -> None:
    clock.advance(2)
    new = event("paid", domain="iu", stream="orders", key="k", payload='{"n":1}')
    assert await store.commit(Effects(log=(new,))) == []
    (kept,) = await store.read_events()
    assert (kept.id, kept.domain, kept.type, kept.stream) == (new.id, "iu", "paid", "orders")
    assert (kept.key, kept.payload, kept.at) == ("k", '{"n":1}', at(2))
    assert kept.position > 0


async def test_positions_grow_in_the_order_of_writing(store: Store) -> None:
    new = [*await append_many(store, 3), *await append_many(store, 3)]
    found = await everything(store)
    assert [each.id for each in found] == new
    positions = [each.position for each in found]
    assert positions == sorted(set(positions))


async def test_an_event_of_a_known_id_is_a_repeat(store: Store) -> None:
    first = event("a", payload="1")
    await append(store, first)
    before = await everything(store)
    other = event("c")
    await append(store, event("b", domain="x", id=first.id, payload="2"), other)
    found = await everything(store)
    assert found[:1] == before
    assert [each.id for each in found] == [first.id, other.id]
    await append(store, first, other)
    assert await everything(store) == found


async def test_a_repeat_within_one_commit_is_written_once(store: Store) -> None:
    new = event()
    await append(store, new, new)
    assert [each.id for each in await everything(store)] == [new.id]


async def test_concurrent_commits_of_one_id_write_it_once(rivals: tuple[Store, ...]) -> None:
    for _ in range(5):
        new = event()
        await asyncio.gather(*(append(rival, new, event()) for rival in rivals))
    found = [each.id for each in await everything(rivals[0])]
    assert len(found) == len(set(found)) == 25


@pytest.mark.parametrize(
    "text", ['it\'s "x"; -- 100%s', "日本語 😀\n\t", "  ", "", '{"a":[1]}', "C:\\x"]
)
async def test_every_text_comes_back_equal(store: Store, text: str) -> None:
    new = event(text or "t", domain=text or "d", stream=text, key=text, payload=text)
    await append(store, new)
    (kept,) = await store.read_events(domain=new.domain)
    assert (kept.type, kept.domain, kept.stream) == (new.type, new.domain, text)
    assert (kept.key, kept.payload) == (text, text)


async def test_a_large_payload_comes_back_equal(store: Store) -> None:
    text = '"' + "é" * 500_000 + '"'
    await append(store, event(payload=text))
    await declare(store)
    assert [each.payload for each in (await read(store)).events] == [text]


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"], ids=["nul", "lone surrogate"])
async def test_an_unstorable_text_is_kept_equal_or_refused_whole(store: Store, text: str) -> None:
    good, bad = event(), event(payload=text)
    try:
        await store.commit(Effects(log=(good, bad), messages=(message(),)))
    except (StoreRejected, InvalidArgument):
        assert await everything(store) == []
        assert await find_all(store) == []
    else:
        assert [each.payload for each in await everything(store)] == ["{}", text]


async def test_looking_at_events_goes_by_domain_position_and_limit(store: Store) -> None:
    for n in range(9):
        await append(store, event(domain="abc"[n % 3]))
    found = await everything(store)
    assert len(found) == 9
    assert await store.read_events(domain="b") == [found[n] for n in (1, 4, 7)]
    assert await store.read_events(after=found[3].position, limit=2) == found[4:6]
    assert await store.read_events(domain="a", after=found[0].position, limit=1) == [found[3]]
    assert await store.read_events(domain="none") == []
    assert await store.read_events(after=found[-1].position) == []


# -- reading as a router ---------------------------------------------------------------------------


async def test_a_router_reads_its_domain_by_position(store: Store) -> None:
    await declare(store)
    for n in range(6):
        await append(store, event(domain="dx"[n % 2]))
    mine = await store.read_events(domain="d")
    assert list((await read(store)).events) == mine
    assert list((await read(store, limit=2)).events) == mine[:2]
    assert list((await read(store, after=mine[0].position)).events) == mine[1:]
    assert list((await read(store, after=mine[0].position, limit=1)).events) == mine[1:2]
    assert (await read(store, after=mine[-1].position)).events == ()


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 7, 12])
async def test_partitions_have_every_slot_exactly_once(store: Store, partitions: int) -> None:
    await declare(store, partitions=partitions)
    slots = [0, 1, 2, 3, SLOTS - 1, SLOTS - 2, *range(5, SLOTS, 97)]
    await append(store, *(event(slot=slot, payload=str(slot)) for slot in slots))
    seen: list[int] = []
    for partition in range(partitions):
        mine = [int(e.payload) for e in (await read(store, partition=partition)).events]
        assert {slot % partitions for slot in mine} <= {partition}
        assert mine
        seen += mine
    assert sorted(seen) == sorted(slots)


async def test_a_key_stays_in_one_partition(store: Store) -> None:
    await declare(store, partitions=4)
    for n in range(20):
        await append(store, event(key=f"k{n % 5}"))
    for partition in range(4):
        keys = {e.key for e in (await read(store, partition=partition)).events}
        assert {slot_of(key or "") % 4 for key in keys} <= {partition}


async def test_what_is_written_after_a_read_is_above_its_horizon(store: Store) -> None:
    await declare(store)
    for domain in "dxd":
        await append(store, event(domain=domain))
        page = await read(store)
        newest = (await everything(store))[-1]
        assert page.horizon >= (page.events[-1].position if page.events else 0)
        if domain == "d":
            assert page.events[-1].position == newest.position
        await append(store, event("later"))
        assert (await everything(store))[-1].position > page.horizon
        assert page.waiting_for == ()


async def test_a_router_is_told_what_it_has_decided(store: Store) -> None:
    await declare(store)
    await declare(store, "other")
    await append_many(store, 3)
    await run_router(store, limit=2)
    assert [each.decided for each in (await read(store)).events] == [True, True, False]
    assert [each.decided for each in (await read(store, "other")).events] == [False] * 3


async def test_reading_writes_nothing(store: Store, backend: Backend) -> None:
    if not store.capabilities.shared:
        pytest.skip("nobody can look behind its back")
    await declare(store)
    await append_many(store, 3)
    before = backend.content()
    await read(store)
    await store.read_events()
    await store.routers()
    await store.router_facts(ROUTER)
    assert backend.content() == before


# -- in the caller's transaction -------------------------------------------------------------------


async def test_a_rolled_back_transaction_leaves_no_message_and_no_event(
    store: Store, caller: Backend
) -> None:
    effects = Effects(messages=(message(),), log=(event(),))
    with caller.transaction() as connection:
        (answer,) = store.commit_within_blocking(connection, effects)
        assert answer.created
    async with caller.async_transaction() as connection:
        (answer,) = await store.commit_within(connection, effects)
        assert answer.created
    assert await find_all(store) == []
    assert await everything(store) == []
    (answer,) = await store.commit(effects)
    assert answer.created


async def test_a_committed_transaction_leaves_both(store: Store, caller: Backend) -> None:
    one, two = [Effects(messages=(message(),), log=(event(),)) for _ in range(2)]
    with caller.transaction() as connection:
        store.commit_within_blocking(connection, one)
        connection.commit()
    async with caller.async_transaction() as connection:
        await store.commit_within(connection, two)
        await connection.commit()
    wanted = [*one.messages, *two.messages]
    assert [each.id for each in await find_all(store)] == [each.id for each in wanted]
    logged = [*one.log, *two.log]
    assert [each.id for each in await everything(store)] == [each.id for each in logged]


async def test_a_repeat_is_told_within_a_transaction_too(store: Store, caller: Backend) -> None:
    effects = Effects(messages=(message(),), log=(event(),))
    await store.commit(effects)
    with caller.transaction() as connection:
        (answer,) = store.commit_within_blocking(connection, effects)
        assert not answer.created
        connection.commit()
    assert len(await find_all(store)) == len(await everything(store)) == 1


async def test_a_gap_of_a_rollback_is_not_waited_for(store: Store, caller: Backend) -> None:
    await declare(store)
    first = await append_many(store, 1)
    with caller.transaction() as connection:
        store.commit_within_blocking(connection, Effects(log=(event(), event())))
    second = await append_many(store, 1)
    page = await read(store)
    assert [each.id for each in page.events] == [*first, *second]
    assert page.waiting_for == ()


async def test_an_open_writer_is_never_skipped(store: Store, caller: Backend) -> None:
    """Cases A2: what commits late with an earlier position is read all the same."""
    if not caller.many_writers:
        pytest.skip("nobody else can write while a transaction is open")
    await declare(store)
    before = await append_many(store, 1)
    late = event(key="late")
    with caller.transaction() as connection:
        store.commit_within_blocking(connection, Effects(log=(late,)))
        after = await append_many(store, 2)
        page = await read(store)
        assert [each.id for each in page.events] == before
        assert page.waiting_for
        newest = (await everything(store))[-1].position
        assert page.horizon < newest
        connection.commit()
    page = await read(store, after=page.horizon)
    assert [each.id for each in page.events] == [late.id, *after]
    assert page.waiting_for == ()


async def test_an_open_transaction_that_writes_no_event_holds_nothing_back(
    store: Store, caller: Backend
) -> None:
    if not caller.many_writers:
        pytest.skip("nobody else can write while a transaction is open")
    await declare(store)
    with caller.transaction() as connection:
        store.commit_within_blocking(connection, Effects(messages=(message(),)))
        new = await append_many(store, 2)
        assert [each.id for each in (await read(store)).events] == new


# -- trimming --------------------------------------------------------------------------------------


async def test_only_what_is_old_and_passed_by_every_router_is_trimmed(
    store: Store, clock: ManualClock
) -> None:
    for name in ("fast", "slow"):
        await declare(store, name)
    new = await append_many(store, 4)
    clock.advance(10)
    new += await append_many(store, 1)
    await run_router(store, "fast")
    await run_router(store, "slow", limit=2)
    assert await store.trim_log(before=at(0), limit=10) == 0
    assert await store.trim_log(before=at(5), limit=10) == 2
    assert [each.id for each in await everything(store)] == new[2:]
    await run_router(store, "slow")
    assert await store.trim_log(before=at(5), limit=10) == 2
    assert [each.id for each in await everything(store)] == new[4:]
    assert await store.trim_log(before=at(10), limit=10) == 0
    assert await store.trim_log(before=at(11), limit=10) == 1


async def test_events_of_a_domain_without_routers_go_too(store: Store) -> None:
    await declare(store)
    await append_many(store, 2, domain="nobodys")
    kept = await append_many(store, 1)
    assert await store.trim_log(before=at(1), limit=10) == 2
    assert [each.id for each in await everything(store)] == kept


async def test_a_trim_takes_no_more_than_its_limit_and_the_oldest(store: Store) -> None:
    new = await append_many(store, 5)
    assert await store.trim_log(before=at(1), limit=2) == 2
    assert [each.id for each in await everything(store)] == new[2:]
    assert [await store.trim_log(before=at(1), limit=2) for _ in range(3)] == [2, 1, 0]


async def test_partitions_are_each_looked_at(store: Store) -> None:
    await declare(store, partitions=2)
    for slot in (0, 1, 2, 3):
        await append(store, event(slot=slot))
    found = await everything(store)
    await store.move_cursor(ROUTER, 0, found[-1].position)
    assert await store.trim_log(before=at(1), limit=10) == 2
    assert await everything(store) == [found[1], found[3]]


async def test_attempts_go_with_their_event_unless_there_is_a_dead_letter(store: Store) -> None:
    await declare(store)
    good, bad = await append_many(store, 2)
    await run_router(store, failed=[bad])
    assert await store.trim_log(before=at(1), limit=10) == 2
    assert await everything(store) == []
    (left,) = await store.attempts(ROUTER)
    assert (left.event, left.status) == (bad, AttemptStatus.FAILED)
    (kept,) = await store.letters(ROUTER)
    assert (kept.event.id, kept.resolved_at) == (bad, None)
    assert good


# -- the sweep -------------------------------------------------------------------------------------

KEEP = 30 * 86_400.0
CONTEXT = SweepContext(app=None, sweep="prune", id="one", now=START)


def pruning(store: Store) -> Prune:
    return Prune(lambda: store, keep_log=KEEP)


async def test_the_log_and_its_attempts_are_flat_under_steady_load(
    store: Store, clock: ManualClock
) -> None:
    await declare(store)
    await append_many(store, 300)
    await run_router(store, limit=300)
    assert len(await store.attempts(ROUTER, limit=1000)) == 300
    clock.advance(400 * 86_400)
    kept = await append_many(store, 1)
    for left in (200, 100, 0):
        tally = await pruning(store).run(CONTEXT, clock.now(), 100)
        assert (tally.counted, tally.more) == ({"events": 100}, True)
        assert len(await store.attempts(ROUTER, limit=1000)) == left
    assert not (await pruning(store).run(CONTEXT, clock.now(), 100)).counted
    assert [each.id for each in await everything(store)] == kept


async def test_nothing_that_a_router_has_yet_to_pass_is_removed(
    store: Store, clock: ManualClock
) -> None:
    """Of these two one was never opened, and one was made after the events had their time."""
    await declare(store, "open")
    await declare(store, "closed")
    new = await append_many(store, 3)
    await run_router(store, "open")
    clock.advance(400 * 86_400)
    await pruning(store).run(CONTEXT, clock.now(), 100)
    assert [each.id for each in await everything(store)] == new
    await run_router(store, "closed")
    await declare(store, "late")
    await pruning(store).run(CONTEXT, clock.now(), 100)
    assert [each.id for each in await everything(store)] == new
    await run_router(store, "late")
    await pruning(store).run(CONTEXT, clock.now(), 100)
    assert await everything(store) == []


async def test_what_is_younger_than_the_setting_stays(store: Store, clock: ManualClock) -> None:
    await declare(store)
    new = await append_many(store, 1)
    await run_router(store)
    clock.advance(KEEP)
    assert await trim(store, KEEP, 10) == 0
    assert await trim(store, None, 10) == 0
    assert [each.id for each in await everything(store)] == new
    clock.advance(0.001)
    assert await trim(store, KEEP, 10) == 1


async def test_headers_of_an_event_are_kept_and_read_wherever_it_is(store: Store) -> None:
    await declare(store)
    with_some, plain = event(headers='{"tenant":"ä"}'), event()
    await append(store, with_some, plain)
    wanted = {with_some.id: '{"tenant":"ä"}', plain.id: None}
    page = await store.read_log(ROUTER, 0, after=0, limit=10)
    for found in (
        page.events,
        await store.find_events([with_some.id, plain.id]),
        await store.read_events(),
        await store.read_events(domain="d"),
    ):
        assert {one.id: one.headers for one in found} == wanted
