"""An ordered stream: each key goes out in the order of writing, and holds back nobody else."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from offpath.model.message import (
    LeasedMessage,
    MessageFilter,
    MessageOutcome,
    MessageSettlement,
    MessageState,
    NewMessage,
)
from offpath.model.settlement import Released, SettleStatus, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import LEASE
from tests.conformance.message_builders import (
    ask_messages,
    dead,
    end_message,
    find_all,
    finish,
    hand,
    hand_one,
    ids,
    message,
    post,
    put,
    put_keyed,
    retry,
)


async def hand_ordered(store: Store, **fields: int) -> tuple[LeasedMessage, ...]:
    return await hand(store, ordered=True, **fields)


async def test_those_of_one_key_come_together_in_the_order_of_writing(store: Store) -> None:
    new = await put_keyed(store, "kkkk")
    assert ids(await hand_ordered(store)) == new


async def test_the_order_is_of_writing_though_a_later_one_was_due_before(
    store: Store, clock: ManualClock
) -> None:
    first = await put(store, key="k", delay=10)
    second = await put(store, key="k")
    third = await put(store, key="k", delay=5)
    assert await hand_ordered(store) == ()
    clock.advance(7)
    assert await hand_ordered(store) == ()
    clock.advance(3)
    assert ids(await hand_ordered(store)) == [first, second, third]


async def test_one_that_is_not_due_holds_back_those_behind_it_only(
    store: Store, clock: ManualClock
) -> None:
    first = await put(store, key="k")
    second = await put(store, key="k", delay=10)
    third = await put(store, key="k")
    assert ids(await hand_ordered(store)) == [first]
    clock.advance(10)
    assert await hand_ordered(store) == ()
    clock.advance(LEASE)
    assert ids(await hand_ordered(store)) == [first, second, third]


async def test_while_one_retries_those_behind_it_wait_and_another_key_does_not(
    store: Store, clock: ManualClock
) -> None:
    """A fails twice, B and C are behind it: A, A, A, B, C; X goes at once."""
    a, b, c, x = await put_keyed(store, "kkkx")
    gone = []
    for _ in range(2):
        held = await hand_one(store, ordered=True)
        gone.append(held.id)
        await end_message(store, held, retry(20))
        if len(gone) == 1:
            (other,) = await hand_ordered(store)
            assert other.id == x
            await end_message(store, other)
        assert await hand_ordered(store) == ()
        clock.advance(20)
    for held in await hand_ordered(store):
        gone.append(held.id)
        await end_message(store, held)
    assert gone == [a, a, a, b, c]


async def test_what_is_due_says_when_the_one_in_front_is(store: Store) -> None:
    await put_keyed(store, "kk")
    await end_message(store, await hand_one(store, ordered=True), retry(50))
    answer = await ask_messages(store, ordered=True)
    assert (answer.messages, answer.more, answer.due_in) == ((), False, 50)


async def test_one_that_is_held_holds_back_those_behind_it(
    store: Store, clock: ManualClock
) -> None:
    new = await put_keyed(store, "kkk")
    assert ids(await hand_ordered(store, limit=1)) == new[:1]
    assert await hand_ordered(store) == ()
    clock.advance(LEASE)
    assert ids(await hand_ordered(store)) == new


async def test_one_that_succeeds_lets_the_next_go(store: Store) -> None:
    new = await put_keyed(store, "kkk")
    gone = []
    for _ in new:
        held = await hand_one(store, ordered=True)
        gone.append(held.id)
        await end_message(store, held)
    assert gone == new


async def test_one_that_dies_lets_the_next_go(store: Store) -> None:
    _, second = await put_keyed(store, "kk")
    await end_message(store, await hand_one(store, ordered=True), dead())
    assert ids(await hand_ordered(store)) == [second]


async def test_one_that_is_released_goes_first_again(store: Store) -> None:
    new = await put_keyed(store, "kkk")
    held = await hand_ordered(store, limit=2)
    await end_message(store, held[1])
    await end_message(store, held[0], Released())
    assert ids(await hand_ordered(store)) == [new[0], new[2]]


async def test_the_first_of_several_in_hand_fails_and_the_second_is_done(
    store: Store, clock: ManualClock
) -> None:
    """The others in hand were handed out rightly: they may end; what is behind them waits."""
    a, _, c = await put_keyed(store, "kkk")
    held = await hand_ordered(store, limit=2)
    await end_message(store, held[0], retry(10))
    await end_message(store, held[1])
    assert await hand_ordered(store) == ()
    clock.advance(10)
    assert ids(await hand_ordered(store)) == [a, c]


async def test_a_revived_one_goes_before_those_that_are_behind_it(store: Store) -> None:
    first, second, third = await put_keyed(store, "kkk")
    await end_message(store, await hand_one(store, ordered=True), dead())
    await end_message(store, await hand_one(store, ordered=True))
    await store.revive_messages([first])
    assert ids(await hand_ordered(store)) == [first, third]
    assert second


async def test_a_deleted_one_holds_nobody_back(store: Store) -> None:
    first, second = await put_keyed(store, "kk")
    await end_message(store, await hand_one(store, ordered=True), dead())
    await store.delete_messages([first])
    assert ids(await hand_ordered(store)) == [second]


async def test_those_without_a_key_wait_for_nobody(store: Store) -> None:
    waits = await put(store, delay=50)
    goes = await put(store)
    assert ids(await hand_ordered(store)) == [goes]
    assert waits


async def test_a_key_of_another_stream_is_another_key(store: Store) -> None:
    await put(store, "a", key="k", delay=50)
    goes = await put(store, "b", key="k")
    assert ids(await hand(store, "a", "b", ordered=True)) == [goes]


async def test_an_empty_key_is_a_key(store: Store) -> None:
    await put(store, key="", delay=50)
    await put(store, key="")
    assert await hand_ordered(store) == ()


async def test_where_order_is_not_asked_for_nobody_waits(store: Store) -> None:
    await put(store, key="k", delay=50)
    goes = await put(store, key="k")
    assert ids(await hand(store)) == [goes]


async def test_keys_that_are_held_back_do_not_use_up_the_room(store: Store) -> None:
    """Many wait behind one that retries, and are due longer than all others."""
    await put_keyed(store, "k" * 60)
    await end_message(store, await hand_one(store, ordered=True), retry(50))
    goes = await put_keyed(store, "abc")
    assert ids(await hand_ordered(store, limit=3)) == goes


async def test_many_keys_that_are_held_back_do_not_either(store: Store) -> None:
    await post(store, *(message(key=f"k{n}") for n in range(150) for _ in range(3)))
    heads = [finish(each, retry(90)) for each in await hand_ordered(store, limit=1_000)]
    assert len(heads) == 450
    answers = await store.settle_messages(heads)
    assert {each.status for each in answers} == {SettleStatus.APPLIED}
    goes = await put_keyed(store, "ab")
    assert ids(await hand_ordered(store, limit=2)) == goes


# -- several at once -------------------------------------------------------------------------------


class Crowd:
    """Relays that compete for one ordered stream; every answer is held against the rule."""

    def __init__(self, rivals: Sequence[Store], clock: ManualClock, seed: int) -> None:
        self.rivals = rivals
        self.clock = clock
        self.random = random.Random(seed)
        self.held: dict[str, LeasedMessage] = {}
        self.ends: dict[str, datetime] = {}
        """The time when the leases of these end by themselves."""
        self.done: dict[str, list[int]] = defaultdict(list)

    async def round(self) -> None:
        """Everybody asks, and some settle, at once."""
        batches = self.batches()
        asking = [
            hand(rival, ordered=True, limit=self.random.choice([1, 2, 5, 20]))
            for rival in self.rivals
        ]
        settling = [
            rival.settle_messages(batch) for rival, batch in zip(self.rivals, batches, strict=True)
        ]
        adding = post(self.rivals[0], *(self.new() for _ in range(3)))
        answers, _, _ = await asyncio.gather(
            asyncio.gather(*asking), asyncio.gather(*settling), adding
        )
        for batch in batches:
            for settlement in batch:
                self.held.pop(settlement.message.id)
        await self.check(answers)
        for answer in answers:
            for each in answer:
                assert each.id not in self.held, "handed out twice"
                self.held[each.id] = each
                self.ends[each.id] = self.clock.now() + timedelta(seconds=LEASE)

    def new(self) -> NewMessage:
        return message(key=self.random.choice("abcd"), delay=self.random.choice([0, 0, 0, 5]))

    def batches(self) -> list[list[MessageSettlement]]:
        """Some of what is in hand, each by the store that may have it."""
        chosen = [each for each in self.held.values() if self.random.random() < 0.6]
        parts: list[list[MessageSettlement]] = [[] for _ in self.rivals]
        for each in chosen:
            parts[self.random.randrange(len(parts))].append(finish(each, self.outcome()))
        return parts

    def outcome(self) -> MessageOutcome:
        kinds: list[MessageOutcome] = [Succeeded(), Succeeded(), Released(), dead()]
        return self.random.choice([*kinds, retry(self.random.choice([0, 5]))])

    async def check(self, answers: Sequence[tuple[LeasedMessage, ...]]) -> None:
        """Before each message, every pending one of its key was in the same answer."""
        waiting: dict[str | None, list[tuple[int, str]]] = defaultdict(list)
        for each in await find_all(self.rivals[0], MessageFilter(states=(MessageState.PENDING,))):
            waiting[each.key].append((each.position, each.id))
        for answer in answers:
            before: set[str] = set()
            for held in answer:
                ahead = {one for place, one in waiting[held.key] if place < held.position}
                assert ahead <= before, f"{held.id} went before {ahead - before}"
                before.add(held.id)

    async def pass_time(self) -> None:
        """Retries become due; now and then every lease ends."""
        self.clock.advance(self.random.choice([0, 1, 6]))
        if self.random.random() < 0.15:
            self.clock.advance(LEASE)
        now = self.clock.now()
        self.held = {held: one for held, one in self.held.items() if self.ends[held] > now}


@pytest.mark.parametrize("seed", range(4))
async def test_relays_that_compete_never_break_the_order_of_a_key(
    rivals: tuple[Store, ...], clock: ManualClock, seed: int
) -> None:
    crowd = Crowd(rivals, clock, seed)
    for _ in range(40):
        await crowd.round()
        await crowd.pass_time()
    assert len(await find_all(rivals[0])) == 120


async def test_relays_that_only_succeed_deliver_every_key_in_order(
    rivals: tuple[Store, ...],
) -> None:
    new = [message(key=f"k{n % 5}", payload=str(n)) for n in range(100)]
    await post(rivals[0], *new)
    delivered: dict[str | None, list[int]] = defaultdict(list)

    async def relay(rival: Store, limit: int) -> None:
        idle = 0
        while idle < 20:
            held = await hand(rival, ordered=True, limit=limit)
            idle = 0 if held else idle + 1
            for each in held:
                delivered[each.key].append(int(each.payload))
            await rival.settle_messages([finish(each) for each in held])

    await asyncio.gather(*(relay(rival, n) for n, rival in enumerate(rivals, 1)))
    assert {key: len(those) for key, those in delivered.items()} == {f"k{n}": 20 for n in range(5)}
    assert all(those == sorted(those) for those in delivered.values())
