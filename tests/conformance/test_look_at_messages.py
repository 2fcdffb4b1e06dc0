"""Messages in lists for people: bounded pages, how far each came, and a place that is exact."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from offpath.model.message import Box, MessageFilter, MessageLook, MessageState
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START, fresh_id
from tests.conformance.message_builders import (
    ALL,
    dead,
    end_message,
    find_all,
    hand,
    hand_one,
    ids,
    inbound,
    post,
    put,
)

pytestmark = pytest.mark.needs("operating")
DEAD = MessageFilter(states=(MessageState.DEAD,))


async def walked(store: Store, where: MessageFilter, limit: int, most: int) -> list[str]:
    """The ids of all pages, one after another, each from where the one before had come."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await store.look_at_messages(where, limit=limit, after=after, most=most)
        found += ids(page.items)
        if page.next is None:
            assert page.exhausted
            return found
        after = page.next


async def test_pages_follow_each_other_and_nothing_is_there_twice(store: Store) -> None:
    known = [await put(store) for _ in range(7)]
    for limit, most in ((1, 1), (2, 3), (3, 2), (7, 7), (50, 100)):
        assert await walked(store, ALL, limit, most) == known[::-1]


async def test_what_came_meanwhile_does_not_move_a_page(store: Store) -> None:
    known = [await put(store) for _ in range(4)]
    first = await store.look_at_messages(ALL, limit=2)
    assert ids(first.items) == [known[3], known[2]]
    await put(store)
    rest = await store.look_at_messages(ALL, limit=2, after=first.next)
    assert ids(rest.items) == [known[1], known[0]]


async def test_the_oldest_come_first_when_that_is_asked_for(store: Store) -> None:
    known = [await put(store) for _ in range(3)]
    page = await store.look_at_messages(ALL, limit=2, newest=False)
    assert ids(page.items) == known[:2]
    rest = await store.look_at_messages(ALL, limit=2, after=page.next, newest=False)
    assert (ids(rest.items), rest.next, rest.exhausted) == ([known[2]], None, True)


async def test_a_page_looks_at_so_many_rows_and_says_how_far_it_came(
    store: Store, clock: ManualClock
) -> None:
    wanted = await put(store, "rare")
    for n in range(1, 6):
        clock.set(START + timedelta(seconds=n))
        await put(store)
    where = MessageFilter(streams=("rare",))
    page = await store.look_at_messages(where, limit=5, most=3)
    assert (page.items, page.exhausted) == ((), False)
    assert page.reached_at == START + timedelta(seconds=3)
    rest = await store.look_at_messages(where, limit=5, after=page.next, most=4)
    assert (ids(rest.items), rest.next, rest.exhausted) == ([wanted], None, True)


async def test_dead_ones_are_looked_at_alone(store: Store) -> None:
    await put(store, "a")
    (held,) = await hand(store, "a")
    await end_message(store, held, dead())
    for _ in range(5):
        await put(store, "b")
    page = await store.look_at_messages(DEAD, limit=5, most=1)
    assert ids(page.items) == [held.id]
    none = await store.look_at_messages(DEAD, limit=5, after=page.next, most=1)
    assert (none.items, none.exhausted) == ((), True)
    elsewhere = replace(DEAD, streams=("b",))
    assert await walked(store, elsewhere, 5, 1) == []


async def test_named_ones_are_looked_at_alone(store: Store) -> None:
    known = [await put(store) for _ in range(6)]
    where = MessageFilter(ids=(known[1], known[4], fresh_id()))
    assert await walked(store, where, 1, 1) == [known[4], known[1]]


async def test_what_it_carries_is_not_read(store: Store) -> None:
    sent = await put(store, payload='{"secret": 1}', headers='{"a": "b"}')
    (one,) = (await store.look_at_messages(ALL)).items
    (whole,) = await find_all(store)
    assert one == replace(whole, payload="", headers="{}")
    assert (one.id, whole.payload) == (sent, '{"secret": 1}')


async def test_each_filter_is_that_of_find(store: Store, clock: ManualClock) -> None:
    await post(store, inbound("k1", "in"), inbound("k2", "in"))
    await put(store, "out", topic="order.paid")
    clock.advance(10)
    await put(store, "out", topic="order.sent", key="o-1")
    held = await hand_one(store, "out")
    await end_message(store, held, dead())
    filters = (
        MessageFilter(box=Box.IN),
        MessageFilter(streams=("out", "none")),
        MessageFilter(topics=("order.sent",)),
        MessageFilter(states=(MessageState.PENDING, MessageState.DEAD)),
        MessageFilter(keys=("o-1", "k2")),
        MessageFilter(reasons=("exhausted",)),
        replace(DEAD, not_reasons=("exhausted",)),
        MessageFilter(created_after=START + timedelta(seconds=5)),
        MessageFilter(created_before=START + timedelta(seconds=5)),
        MessageFilter(states=(MessageState.DONE,)),
    )
    for where in filters:
        expected = ids(await find_all(store, where))
        assert sorted(await walked(store, where, 1, 2)) == sorted(expected), where


async def test_what_is_behind_nothing_is_empty(store: Store) -> None:
    assert await store.look_at_messages(ALL) == MessageLook(items=(), next=None, exhausted=True)
    await put(store)
    for limit, most in ((0, 5), (5, 0)):
        page = await store.look_at_messages(ALL, limit=limit, after="7", most=most)
        assert page == MessageLook(items=(), next="7")
