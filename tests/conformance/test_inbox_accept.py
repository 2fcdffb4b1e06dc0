"""The inbox takes a message of one source and key once, whoever brings it and however often."""

from __future__ import annotations

import asyncio

import pytest

from offpath.model.effects import Effects
from offpath.model.message import Box, MessageFilter, MessageState
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.message_builders import (
    dead,
    end_message,
    find_all,
    finish,
    hand,
    hand_one,
    ids,
    inbound,
    message,
    message_of,
    message_outcomes,
    post,
)

INBOX = MessageFilter(box=Box.IN)


async def test_a_new_message_is_accepted(store: Store) -> None:
    new = inbound("evt_1", "stripe", payload='{"a":1}')
    (answer,) = await post(store, new)
    assert (answer.job_id, answer.created) == (new.id, True)
    (held,) = await hand(store, "stripe", box=Box.IN)
    assert (held.box, held.stream, held.key) == (Box.IN, "stripe", "evt_1")


async def test_a_second_one_of_its_key_is_answered_with_the_id_of_the_first(store: Store) -> None:
    first, second = inbound("k", payload="1"), inbound("k", payload="2", topic="other")
    await post(store, first)
    before = await message_of(store, first.id)
    (answer,) = await post(store, second)
    assert (answer.id, answer.job_id, answer.created) == (second.id, first.id, False)
    assert await find_all(store) == [before]


async def test_the_same_message_again_is_a_repeat(store: Store) -> None:
    new = inbound("k")
    await post(store, new)
    (answer,) = await post(store, new)
    assert (answer.id, answer.job_id, answer.created) == (new.id, new.id, False)
    assert len(await find_all(store)) == 1


async def test_a_key_belongs_to_its_source(store: Store) -> None:
    answers = await post(store, inbound("k", "a"), inbound("k", "b"), inbound("K", "a"))
    assert [answer.created for answer in answers] == [True, True, True]


async def test_a_key_of_the_outbox_tells_no_repeat(store: Store) -> None:
    answers = await post(store, message(key="k"), message(key="k"), inbound("k"))
    assert [answer.created for answer in answers] == [True, True, True]


async def test_of_one_id_in_both_boxes_the_first_is_kept(store: Store) -> None:
    out = message("z", key="k")
    answers = await post(store, out, inbound("a", "a", id=out.id), message("b"))
    assert [answer.created for answer in answers] == [True, False, True]
    assert [each.stream for each in await find_all(store)] == ["z", "b"]


async def test_a_repeat_of_an_outbox_message_beside_it_tells_nothing_of_its_key(
    store: Store,
) -> None:
    """Both have the same stream and key, and are in one commit."""
    first, out = inbound("k"), message(key="k")
    await post(store, first, out)
    answers = await post(store, out, inbound("k"), inbound("l"))
    assert [answer.job_id for answer in answers][:2] == [out.id, first.id]
    assert [answer.created for answer in answers] == [False, False, True]


async def test_two_of_one_key_in_one_commit_are_one(store: Store) -> None:
    one, two, three = inbound("k"), inbound("l"), inbound("k")
    answers = await post(store, one, two, three)
    assert [(answer.job_id, answer.created) for answer in answers] == [
        (one.id, True),
        (two.id, True),
        (one.id, False),
    ]
    assert ids(await find_all(store)) == [one.id, two.id]


async def test_what_arrives_late_or_out_of_order_is_accepted(store: Store) -> None:
    """Cases A5: a key is an identity, not a mark that may only rise."""
    created = [(await post(store, inbound(key)))[0].created for key in ("3", "1", "2", "2", "3")]
    assert created == [True, True, True, False, False]
    assert [each.key for each in await find_all(store)] == ["3", "1", "2"]


@pytest.mark.parametrize("outcome", message_outcomes())
async def test_a_key_is_kept_whatever_became_of_its_message(store: Store, outcome: str) -> None:
    first = inbound("k")
    await post(store, first)
    await end_message(store, await hand_one(store, box=Box.IN), message_outcomes()[outcome])
    before = await message_of(store, first.id)
    (answer,) = await post(store, inbound("k"))
    assert (answer.job_id, answer.created) == (first.id, False)
    assert await find_all(store) == [before]


async def test_a_key_is_free_again_when_its_message_was_pruned(
    store: Store, clock: ManualClock
) -> None:
    await post(store, inbound("k"))
    await end_message(store, await hand_one(store, box=Box.IN), keep=10)
    clock.advance(11)
    await store.prune(limit=10)
    (answer,) = await post(store, inbound("k"))
    assert answer.created


async def test_a_key_is_free_again_when_its_message_was_deleted(store: Store) -> None:
    first = inbound("k")
    await post(store, first)
    await end_message(store, await hand_one(store, box=Box.IN), dead())
    assert await store.delete_messages([first.id]) == [first.id]
    (answer,) = await post(store, inbound("k"))
    assert answer.created


async def test_of_concurrent_commits_of_one_key_exactly_one_is_new(
    rivals: tuple[Store, ...],
) -> None:
    for number in range(8):
        key = f"k{number}"
        mine = [inbound(key) for _ in rivals]
        answers = await asyncio.gather(
            *(
                post(rival, new, inbound(f"{key}-{new.id}"))
                for rival, new in zip(rivals, mine, strict=True)
            )
        )
        firsts = [answer[0] for answer in answers]
        (winner,) = [answer for answer in firsts if answer.created]
        assert {answer.job_id for answer in firsts} == {winner.id}
        assert all(answer[1].created for answer in answers)
        (kept,) = await find_all(rivals[0], MessageFilter(keys=(key,)))
        assert kept.id == winner.id


async def test_commits_of_the_same_keys_in_other_orders_do_not_block_each_other(
    rivals: tuple[Store, ...],
) -> None:
    for number in range(6):
        keys = [f"{number}-{each}" for each in range(6)]
        orders = [keys, keys[::-1], keys[3:] + keys[:3], keys[::2] + keys[1::2]]
        answers = await asyncio.gather(
            *(
                post(rival, *(inbound(key) for key in order))
                for rival, order in zip(rivals, orders, strict=True)
            )
        )
        assert sum(each.created for answer in answers for each in answer) == len(keys)


async def test_a_race_between_a_settlement_and_a_commit_has_one_winner(
    rivals: tuple[Store, ...],
) -> None:
    for number in range(5):
        await post(rivals[0], message(f"m{number}"))
        held = await hand_one(rivals[0], f"m{number}")
        carried, direct = inbound(f"k{number}"), inbound(f"k{number}")
        effects = Effects(messages=(carried,))
        (settled,), (answer,) = await asyncio.gather(
            rivals[1].settle_messages([finish(held, effects=effects)]), post(rivals[2], direct)
        )
        (within,) = settled.enqueued
        assert within.created != answer.created
        assert within.job_id == answer.job_id


async def test_what_was_accepted_is_applied_once(store: Store) -> None:
    for _ in range(3):
        await post(store, inbound("k"))
        for held in await hand(store, box=Box.IN):
            await end_message(store, held)
    (kept,) = await find_all(store, INBOX)
    assert (kept.state, kept.deliveries) == (MessageState.DONE, 1)


async def test_repeats_of_one_key_in_two_sources_are_each_told_their_own_first(
    store: Store,
) -> None:
    first_a, first_b = inbound("k", "a"), inbound("k", "b")
    await post(store, first_a, first_b)
    for order in (("a", "b"), ("b", "a")):
        again = await post(store, *(inbound("k", source) for source in order))
        firsts = {"a": first_a.id, "b": first_b.id}
        assert [(one.job_id, one.created) for one in again] == [
            (firsts[source], False) for source in order
        ]
    both = await post(store, inbound("l", "a"), inbound("l", "b"), inbound("l", "a"))
    assert [one.created for one in both] == [True, True, False]
    assert [one.job_id for one in both] == [both[0].id, both[1].id, both[0].id]
    assert len(await find_all(store)) == 4
