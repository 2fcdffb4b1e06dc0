"""Settling messages: who may, what each outcome leaves, and what a poisoned one does not spoil."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from offpath.errors import UniqueConflict
from offpath.model.effects import Effects
from offpath.model.job import DeadReason, UniquePolicy
from offpath.model.message import Box, LeasedMessage, MessageFilter, MessageState
from offpath.model.settlement import Released, SettleStatus, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import LEASE, START, enqueue, exists, failure, new_job, unique
from tests.conformance.log_builders import event, everything
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
    put,
    retry,
    settle_message,
)

KINDS = tuple(message_outcomes())
DROPPING = tuple(name for name in KINDS if name != "succeeded")


async def _held(store: Store, **fields: Any) -> LeasedMessage:
    await put(store, **fields)
    return await hand_one(store)


# -- what each outcome leaves ----------------------------------------------------------------------


async def test_a_success_ends_it(store: Store, clock: ManualClock) -> None:
    held = await _held(store)
    clock.advance(3)
    answer = await end_message(store, held, Succeeded(result='"ignored"'), keep=60)
    assert (answer.state, answer.enqueued) == (MessageState.DONE, ())
    kept = await message_of(store, held.id)
    now = START + timedelta(seconds=3)
    assert (kept.state, kept.held, kept.finished_at) == (MessageState.DONE, False, now)
    assert kept.expires_at == now + timedelta(seconds=60)
    assert (kept.reason, kept.failure, kept.attempt, kept.deliveries) == (None, None, 1, 1)
    clock.advance(LEASE)
    assert await hand(store) == ()


async def test_a_retry_counts_and_says_when(store: Store, clock: ManualClock) -> None:
    held = await _held(store)
    clock.advance(3)
    failed = failure("no route", attempt=1)
    answer = await end_message(store, held, retry(20, message="no route", attempt=1), keep=60)
    assert answer.state is MessageState.PENDING
    kept = await message_of(store, held.id)
    assert (kept.state, kept.held, kept.attempt, kept.deliveries) == (
        MessageState.PENDING,
        False,
        2,
        1,
    )
    assert kept.due_at == START + timedelta(seconds=23)
    assert kept.failure == failed
    assert (kept.finished_at, kept.expires_at, kept.reason) == (None, None, None)


@pytest.mark.parametrize("reason", DeadReason)
async def test_a_dead_one_keeps_its_reason_and_failure(
    store: Store, clock: ManualClock, reason: DeadReason
) -> None:
    held = await _held(store)
    clock.advance(3)
    answer = await end_message(store, held, dead(reason, message="gone"))
    assert answer.state is MessageState.DEAD
    kept = await message_of(store, held.id)
    assert (kept.state, kept.reason, kept.held) == (MessageState.DEAD, reason, False)
    assert kept.failure == failure("gone")
    assert (kept.finished_at, kept.expires_at) == (START + timedelta(seconds=3), None)
    clock.advance(LEASE)
    assert await hand(store) == ()


async def test_the_last_failure_is_kept_through_a_success(store: Store) -> None:
    held = await _held(store)
    await end_message(store, held, retry(0, message="first"))
    await end_message(store, await hand_one(store), retry(0, message="second", attempt=2))
    assert (await message_of(store, held.id)).failure == failure("second", attempt=2)
    third = await hand_one(store)
    assert (third.attempt, third.deliveries) == (3, 3)
    await end_message(store, third)
    assert (await message_of(store, held.id)).state is MessageState.DONE


async def test_a_release_counts_nothing(store: Store) -> None:
    held = await _held(store)
    for _ in range(3):
        answer = await end_message(store, held, Released(), keep=5)
        assert answer.state is MessageState.PENDING
        kept = await message_of(store, held.id)
        assert (kept.attempt, kept.deliveries, kept.expires_at) == (1, 0, None)
        held = await hand_one(store)
    assert held.deliveries == 1


async def test_a_release_keeps_what_failed_before(store: Store) -> None:
    held = await _held(store)
    await end_message(store, held, retry(0, message="before"))
    await end_message(store, await hand_one(store), Released())
    kept = await message_of(store, held.id)
    assert (kept.attempt, kept.deliveries) == (2, 1)
    assert kept.failure == failure("before")


async def test_nothing_to_settle_is_nothing(store: Store) -> None:
    assert await store.settle_messages([]) == []


async def test_answers_are_in_the_order_given(store: Store) -> None:
    for _ in range(8):
        await put(store)
    kinds = list(message_outcomes().values())
    held = await hand(store)
    batch = [finish(each, kinds[n % len(kinds)]) for n, each in enumerate(held)][::-1]
    answers = await store.settle_messages(batch)
    assert [answer.id for answer in answers] == ids(held)[::-1]
    for answer in answers:
        assert answer.state is (await message_of(store, answer.id)).state


# -- the fence -------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", KINDS)
@pytest.mark.parametrize("name", KINDS)
async def test_what_was_settled_is_no_longer_its_own(store: Store, name: str, again: str) -> None:
    held = await _held(store)
    await end_message(store, held, message_outcomes()[name])
    before = await message_of(store, held.id)
    effects = Effects(messages=(message(),))
    answer = await settle_message(store, held, message_outcomes()[again], effects=effects)
    assert answer.status is SettleStatus.LEASE_LOST
    assert answer.enqueued == ()
    assert await find_all(store) == [before]


@pytest.mark.parametrize("name", KINDS)
async def test_what_another_was_handed_is_no_longer_its_own(
    store: Store, clock: ManualClock, name: str
) -> None:
    first = await _held(store)
    clock.advance(LEASE)
    second = await hand_one(store)
    before = await message_of(store, first.id)
    effects = Effects(messages=(message(),), jobs=(new_job(),), log=(event(),))
    answer = await settle_message(store, first, message_outcomes()[name], effects=effects)
    assert answer.status is SettleStatus.LEASE_LOST
    assert await find_all(store) == [before]
    assert await everything(store) == []
    await end_message(store, second)


@pytest.mark.parametrize("name", KINDS)
async def test_a_late_settlement_counts_if_nobody_else_was_handed_it(
    store: Store, clock: ManualClock, name: str
) -> None:
    held = await _held(store)
    clock.advance(10 * LEASE)
    answer = await end_message(store, held, message_outcomes()[name])
    assert answer.state is (await message_of(store, held.id)).state


async def test_an_unknown_message_is_nobodys(store: Store) -> None:
    held = await _held(store)
    await end_message(store, held, dead())
    await store.delete_messages([held.id])
    assert (await settle_message(store, held)).status is SettleStatus.LEASE_LOST
    assert await find_all(store) == []


async def test_a_revived_message_is_not_its_old_holders(store: Store) -> None:
    held = await _held(store)
    await end_message(store, held, dead())
    await store.revive_messages([held.id])
    assert (await settle_message(store, held)).status is SettleStatus.LEASE_LOST
    assert ids(await hand(store)) == [held.id]


async def test_of_two_settlements_of_one_message_in_a_batch_the_first_counts(store: Store) -> None:
    held = await _held(store)
    answers = await store.settle_messages([finish(held), finish(held, dead())])
    assert [answer.status for answer in answers] == [
        SettleStatus.APPLIED,
        SettleStatus.LEASE_LOST,
    ]
    assert (await message_of(store, held.id)).state is MessageState.DONE


async def test_a_lost_one_holds_back_none_of_the_others(store: Store, clock: ManualClock) -> None:
    lost = await _held(store)
    clock.advance(LEASE)
    await hand_one(store)
    for _ in range(4):
        await put(store)
    mine = list(await hand(store))
    answers = await store.settle_messages([finish(each) for each in [*mine[:2], lost, *mine[2:]]])
    assert [answer.status for answer in answers] == [
        *[SettleStatus.APPLIED] * 2,
        SettleStatus.LEASE_LOST,
        *[SettleStatus.APPLIED] * 2,
    ]


async def test_of_settlements_at_once_one_counts(rivals: tuple[Store, ...]) -> None:
    for _ in range(6):
        held = await _held(rivals[0])
        effects = [Effects(messages=(message("out"),)) for _ in rivals]
        answers = await asyncio.gather(
            *(
                settle_message(rival, held, effects=each)
                for rival, each in zip(rivals, effects, strict=True)
            )
        )
        assert [answer.status for answer in answers].count(SettleStatus.APPLIED) == 1
    assert len(await find_all(rivals[0], MessageFilter(streams=("out",)))) == 6


async def test_a_settlement_and_a_lease_at_once_never_both_have_it(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    """The lease has ended: either the late settlement counts, or somebody else is handed it."""
    for _ in range(12):
        held = await _held(rivals[0])
        clock.advance(LEASE)
        answer, again = await asyncio.gather(
            settle_message(rivals[0], held), hand(rivals[1], limit=1)
        )
        assert (answer.status is SettleStatus.APPLIED) is (again == ())
        for each in again:
            await end_message(rivals[2], each)


# -- effects ---------------------------------------------------------------------------------------


def _effects() -> Effects:
    return Effects(
        jobs=(new_job("child"),), messages=(message("out"), inbound("k")), log=(event(),)
    )


async def test_a_success_carries_its_effects(store: Store) -> None:
    held, effects = await _held(store), _effects()
    answer = await end_message(store, held, effects=effects)
    new = [effects.jobs[0].id, *(each.id for each in effects.messages)]
    assert [each.id for each in answer.enqueued] == new
    assert all(each.created for each in answer.enqueued)
    assert await exists(store, effects.jobs[0].id)
    assert ids(await find_all(store)) == [held.id, *new[1:]]
    assert [each.id for each in await everything(store)] == [effects.log[0].id]


@pytest.mark.parametrize("name", DROPPING)
async def test_anything_else_drops_them(store: Store, name: str) -> None:
    held, effects = await _held(store), _effects()
    answer = await end_message(store, held, message_outcomes()[name], effects=effects)
    assert answer.enqueued == ()
    assert not await exists(store, effects.jobs[0].id)
    assert ids(await find_all(store)) == [held.id]
    assert await everything(store) == []


async def test_one_message_becomes_one_for_each_receiver(store: Store) -> None:
    """The fan-out of webhooks: no receiver is left out, and a repeat adds none."""
    held = await _held(store)
    copies = tuple(message(f"webhook:{n}", id=f"{held.id}:{n}") for n in range(10))
    await end_message(store, held, effects=Effects(messages=copies))
    for n in range(10):
        assert ids(await hand(store, f"webhook:{n}")) == [copies[n].id]
    late = await settle_message(store, held, effects=Effects(messages=copies))
    assert late.status is SettleStatus.LEASE_LOST
    assert len(await find_all(store)) == 11


async def test_a_known_message_among_the_effects_is_left_as_it_is(store: Store) -> None:
    known, key = message("out", payload="1"), inbound("k")
    await post(store, known, key)
    held = await _held(store)
    effects = Effects(messages=(message("out", id=known.id, payload="2"), inbound("k")))
    answer = await end_message(store, held, effects=effects)
    assert [(each.job_id, each.created) for each in answer.enqueued] == [
        (known.id, False),
        (key.id, False),
    ]
    assert (await message_of(store, known.id)).payload == "1"


# -- poison ----------------------------------------------------------------------------------------


def _poison() -> Effects:
    refused = new_job("new", unique=unique("k", policy=UniquePolicy.REFUSE))
    return Effects(jobs=(new_job("beside"), refused), messages=(message("never"),), log=(event(),))


@pytest.mark.parametrize("box", Box)
@pytest.mark.parametrize("place", [0, 4, 9], ids=["first", "middle", "last"])
async def test_a_refused_one_holds_back_none_of_the_others(
    store: Store, place: int, box: Box
) -> None:
    """Cases J2."""
    await enqueue(store, new_job("held", unique=unique("k")))
    for n in range(10):
        await put(store, box=box, key=f"key{n}")
    held = await hand(store, box=box)
    batch = [
        finish(
            each, effects=_poison() if n == place else Effects(messages=(message("out"),)), keep=5
        )
        for n, each in enumerate(held)
    ]
    answers = await store.settle_messages(batch)
    refused = answers[place]
    assert (refused.status, refused.enqueued) == (SettleStatus.REFUSED, ())
    assert isinstance(refused.error, UniqueConflict)
    others = [answer for answer in answers if answer is not refused]
    assert [answer.status for answer in others] == [SettleStatus.APPLIED] * 9
    assert [answer.error for answer in others] == [None] * 9
    assert len(await find_all(store, MessageFilter(streams=("out",)))) == 9
    assert await find_all(store, MessageFilter(streams=("never",))) == []
    assert await everything(store) == []
    still = await message_of(store, refused.id)
    assert (still.state, still.held) == (MessageState.PENDING, True)
    await end_message(store, held[place], dead(DeadReason.UNSETTLEABLE))


async def test_several_refused_ones_are_each_answered(store: Store) -> None:
    await enqueue(store, new_job("held", unique=unique("k")))
    for _ in range(6):
        await put(store)
    batch = [
        finish(each, effects=_poison() if n % 2 else Effects())
        for n, each in enumerate(await hand(store))
    ]
    answers = await store.settle_messages(batch)
    applied, refused = SettleStatus.APPLIED, SettleStatus.REFUSED
    assert [answer.status for answer in answers] == [applied, refused] * 3
