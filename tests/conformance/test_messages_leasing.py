"""Leasing messages: which, in which order, how many, and until when nobody else gets them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from offpath.model.message import Box, MessageRequest, StreamRoom
from offpath.model.settlement import Released
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import LEASE, START
from tests.conformance.message_builders import (
    ask_messages,
    dead,
    end_all,
    end_message,
    hand,
    hand_one,
    ids,
    message,
    message_of,
    post,
    put,
    retry,
)


def room(stream: str, limit: int, *, ordered: bool = False) -> StreamRoom:
    return StreamRoom(stream=stream, limit=limit, ordered=ordered)


ORDERED = pytest.mark.parametrize("ordered", [False, True], ids=["free", "ordered"])


@ORDERED
async def test_nothing_is_handed_out_of_nothing(store: Store, ordered: bool) -> None:
    answer = await ask_messages(store, ordered=ordered)
    assert (answer.messages, answer.more, answer.due_in) == ((), False, None)
    assert answer.now == START


@ORDERED
async def test_the_longest_due_is_first(store: Store, clock: ManualClock, ordered: bool) -> None:
    late, early, middle = [await put(store, delay=delay) for delay in (30, 10, 20)]
    clock.advance(30)
    assert ids(await hand(store, ordered=ordered)) == [early, middle, late]


@ORDERED
async def test_of_those_due_at_once_the_first_written_is_first(store: Store, ordered: bool) -> None:
    new = [message() for _ in range(5)][::-1]
    await post(store, *new)
    assert ids(await hand(store, ordered=ordered)) == [each.id for each in new]


@ORDERED
async def test_a_limit_takes_the_longest_due(
    store: Store, clock: ManualClock, ordered: bool
) -> None:
    late, early, middle = [await put(store, delay=delay) for delay in (30, 10, 20)]
    clock.advance(30)
    first = await ask_messages(store, limit=2, ordered=ordered)
    assert (ids(first.messages), first.more) == ([early, middle], True)
    assert ids(await hand(store, limit=2, ordered=ordered)) == [late]


async def test_the_future_is_not_handed_out_and_told(store: Store, clock: ManualClock) -> None:
    later = await put(store, delay=60)
    await put(store, delay=300)
    answer = await ask_messages(store)
    assert (answer.messages, answer.more, answer.due_in) == ((), False, 60)
    clock.advance(59)
    assert (await ask_messages(store)).due_in == 1
    clock.advance(1)
    assert ids(await hand(store)) == [later]


async def test_what_is_held_is_due_when_its_lease_ends(store: Store, clock: ManualClock) -> None:
    await put(store)
    await hand(store, lease_seconds=30)
    clock.advance(10)
    answer = await ask_messages(store)
    assert (answer.messages, answer.due_in) == ((), 20)


async def test_other_streams_do_not_say_when_something_is_due(store: Store) -> None:
    await put(store, "other", delay=5)
    await put(store, "s", box=Box.IN, key="k", delay=5)
    await put(store)
    await end_message(store, await hand_one(store), dead())
    assert (await ask_messages(store)).due_in is None


async def test_a_stream_that_is_not_asked_for_is_not_looked_at(store: Store) -> None:
    mine, _ = await put(store, "a"), await put(store, "b")
    assert ids(await hand(store, "a", "unknown")) == [mine]
    assert ids(await hand(store, room("b", 0))) == []
    nothing = MessageRequest(box=Box.OUT, holder="h", streams=(), limit=5, lease_seconds=5)
    assert (await store.lease_messages(nothing)).messages == ()


async def test_no_stream_gets_more_than_its_room(store: Store) -> None:
    for _ in range(6):
        await put(store, "a")
        await put(store, "b")
    held = await hand(store, room("a", 2), room("b", 4))
    streams = [each.stream for each in held]
    assert (streams.count("a"), streams.count("b")) == (2, 4)


async def test_all_streams_together_get_no_more_than_the_limit(store: Store) -> None:
    for _ in range(6):
        await put(store, "a")
        await put(store, "b")
    answer = await ask_messages(store, room("a", 5), room("b", 5), limit=7)
    assert (len(answer.messages), answer.more) == (7, True)
    assert len(set(ids(answer.messages))) == 7


@pytest.mark.parametrize("streams", [("a", "b"), ("b", "a")])
async def test_no_stream_starves_behind_another(store: Store, streams: tuple[str, str]) -> None:
    """Whatever the backlog of one is, and however old."""
    await post(store, *(message("a") for _ in range(200)))
    waiting = {await put(store, "b") for _ in range(3)}
    for _ in range(6):
        held = await hand(store, *streams, limit=10)
        waiting -= set(ids(held))
        await end_all(store, held)
    assert waiting == set()


async def test_within_a_stream_the_order_holds_though_others_are_asked_for(
    store: Store, clock: ManualClock
) -> None:
    expected: dict[str, list[str]] = {"a": [], "b": []}
    for _ in range(5):
        for stream, those in expected.items():
            those.append(await put(store, stream))
            clock.advance(1)
    held = await hand(store, "b", "a")
    for stream, those in expected.items():
        assert [each.id for each in held if each.stream == stream] == those


async def test_more_says_that_asking_again_gives_more(store: Store) -> None:
    for _ in range(3):
        await put(store)
    assert (await ask_messages(store, room("s", 1), limit=10)).more
    assert not (await ask_messages(store, limit=10)).more


# -- while it is held ------------------------------------------------------------------------------


@ORDERED
async def test_what_is_held_is_not_handed_out_again(
    store: Store, clock: ManualClock, ordered: bool
) -> None:
    held = await put(store, key="k")
    assert ids(await hand(store, ordered=ordered)) == [held]
    clock.advance(LEASE - 1)
    assert await hand(store, ordered=ordered) == ()


async def test_a_held_message_shows_it(store: Store, clock: ManualClock) -> None:
    new = await put(store)
    await hand(store, lease_seconds=30)
    kept = await message_of(store, new)
    assert (kept.held, kept.attempt, kept.deliveries) == (True, 1, 1)
    assert kept.due_at == START + timedelta(seconds=30)


@ORDERED
async def test_when_the_lease_has_ended_it_is_handed_out_again(
    store: Store, clock: ManualClock, ordered: bool
) -> None:
    new = await put(store, key="k")
    first = await hand_one(store, lease_seconds=30, ordered=ordered)
    clock.advance(30)
    second = await hand_one(store, lease_seconds=30, ordered=ordered)
    assert (first.id, second.id) == (new, new)
    assert (first.attempt, first.deliveries) == (1, 1)
    assert (second.attempt, second.deliveries) == (1, 2)
    assert first.holder != second.holder
    clock.advance(31)
    assert (await hand_one(store)).deliveries == 3


async def test_leases_last_as_long_as_each_was_asked_for(store: Store, clock: ManualClock) -> None:
    short, long = await put(store, "a"), await put(store, "b")
    await hand(store, "a", lease_seconds=5)
    await hand(store, "b", lease_seconds=50)
    clock.advance(6)
    assert ids(await hand(store, "a", "b")) == [short]
    clock.advance(45)
    assert set(ids(await hand(store, "a", "b"))) == {short, long}


async def test_a_released_message_is_as_before(store: Store, clock: ManualClock) -> None:
    new = await put(store, delay=5)
    clock.advance(8)
    before = await message_of(store, new)
    await end_message(store, await hand_one(store), Released())
    assert await message_of(store, new) == before
    again = await hand_one(store)
    assert (again.id, again.attempt, again.deliveries) == (new, 1, 1)


async def test_what_was_released_keeps_its_place(store: Store, clock: ManualClock) -> None:
    first = await put(store)
    clock.advance(1)
    second = await put(store)
    clock.advance(5)
    await end_message(store, await hand_one(store), Released())
    assert ids(await hand(store)) == [first, second]


async def test_a_retry_is_due_again_after_its_delay(store: Store, clock: ManualClock) -> None:
    new = await put(store)
    await end_message(store, await hand_one(store), retry(20))
    assert await hand(store) == ()
    assert (await ask_messages(store)).due_in == 20
    clock.advance(20)
    again = await hand_one(store)
    assert (again.id, again.attempt, again.deliveries) == (new, 2, 2)


# -- several at once -------------------------------------------------------------------------------


@ORDERED
async def test_two_who_ask_at_once_never_get_the_same(
    rivals: tuple[Store, ...], ordered: bool
) -> None:
    for _ in range(6):
        new = [message(key=f"k{n}") for n in range(40)]
        await post(rivals[0], *new)
        answers = await asyncio.gather(
            *(hand(rival, limit=15, ordered=ordered) for rival in rivals for _ in range(2))
        )
        taken = [each.id for answer in answers for each in answer]
        rest = await hand(rivals[0], ordered=ordered)
        taken += ids(rest)
        assert sorted(taken) == sorted(each.id for each in new)
        for held in (*answers, rest):
            await end_all(rivals[0], held)


async def test_ends_and_leases_at_once_lose_nothing(rivals: tuple[Store, ...]) -> None:
    new = [await put(rivals[0]) for _ in range(60)]
    seen: list[str] = []

    async def relay(rival: Store) -> None:
        while held := await hand(rival, limit=4):
            seen.extend(ids(held))
            await end_all(rival, held)

    await asyncio.gather(*map(relay, rivals))
    assert sorted(seen) == sorted(new)


async def test_leases_that_have_ended_are_taken_over_by_one(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    new = [await put(rivals[0]) for _ in range(20)]
    await hand(rivals[0])
    clock.advance(LEASE)
    answers = await asyncio.gather(*(hand(rival, limit=20) for rival in rivals))
    taken = [each for answer in answers for each in answer]
    assert sorted(ids(taken)) == sorted(new)
    assert {each.deliveries for each in taken} == {2}
