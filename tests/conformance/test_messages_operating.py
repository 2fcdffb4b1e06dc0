"""Operators' calls on messages: find, revive and delete them, count what waits, prune."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from offpath.model.job import DeadReason, JobState
from offpath.model.message import (
    Box,
    MessageBacklog,
    MessageFilter,
    MessageRecord,
    MessageState,
)
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START, add, fresh_id, record, start, succeed
from tests.conformance.message_builders import (
    ALL,
    dead,
    end_message,
    find_all,
    finish,
    hand,
    hand_one,
    ids,
    message,
    message_of,
    post,
    put,
    retry,
)

PENDING, DONE, DEAD = MessageState.PENDING, MessageState.DONE, MessageState.DEAD


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


# -- finding ---------------------------------------------------------------------------------------


async def _some_of_every_kind(store: Store, clock: ManualClock) -> list[MessageRecord]:
    for number, box in enumerate([Box.OUT, Box.IN] * 8):
        await put(
            store,
            f"s{number % 3}",
            box=box,
            key=f"k{number}" if box is Box.IN or number % 4 else None,
            topic=f"t{number % 5}",
        )
        clock.advance(1)
    reasons = [DeadReason.REJECTED, DeadReason.EXHAUSTED, DeadReason.UNDELIVERABLE]
    for box in Box:
        held = await hand(store, "s0", "s1", "s2", box=box, limit=6)
        await store.settle_messages(
            [
                finish(each, dead(reasons[n % 3]) if n % 2 else None)
                for n, each in enumerate(held[:5])
            ]
        )
    found = await find_all(store)
    assert {each.state for each in found} == set(MessageState)
    assert len({each.reason for each in found}) >= 3
    return found


FILTERS: dict[str, tuple[MessageFilter, Callable[[MessageRecord], bool]]] = {
    "none": (ALL, lambda each: True),
    "box out": (MessageFilter(box=Box.OUT), lambda each: each.box is Box.OUT),
    "box in": (MessageFilter(box=Box.IN), lambda each: each.box is Box.IN),
    "streams": (MessageFilter(streams=("s0", "s2")), lambda each: each.stream in {"s0", "s2"}),
    "topics": (MessageFilter(topics=("t1", "none")), lambda each: each.topic == "t1"),
    "states": (MessageFilter(states=(DONE, DEAD)), lambda each: each.state in {DONE, DEAD}),
    "pending": (MessageFilter(states=(PENDING,)), lambda each: each.state is PENDING),
    "keys": (MessageFilter(keys=("k1", "k2")), lambda each: each.key in {"k1", "k2"}),
    "reasons": (MessageFilter(reasons=("exhausted",)), lambda each: each.reason == "exhausted"),
    "not reasons": (
        MessageFilter(not_reasons=("rejected",)),
        lambda each: each.reason != "rejected",
    ),
    "dead but not rejected": (
        MessageFilter(states=(DEAD,), not_reasons=("rejected", "undeliverable")),
        lambda each: each.state is DEAD and each.reason == "exhausted",
    ),
    "created after": (MessageFilter(created_after=at(4)), lambda each: each.created_at >= at(4)),
    "created before": (MessageFilter(created_before=at(4)), lambda each: each.created_at < at(4)),
    "a span": (
        MessageFilter(created_after=at(2), created_before=at(6)),
        lambda each: at(2) <= each.created_at < at(6),
    ),
    "several": (
        MessageFilter(box=Box.IN, streams=("s1",), states=(PENDING, DEAD)),
        lambda each: each.box is Box.IN and each.stream == "s1" and each.state is not DONE,
    ),
    "nothing": (MessageFilter(streams=("S0",)), lambda each: False),
}


@pytest.mark.parametrize("name", FILTERS)
async def test_a_filter_finds_what_matches_every_field(
    store: Store, clock: ManualClock, name: str
) -> None:
    everything = await _some_of_every_kind(store, clock)
    where, matches = FILTERS[name]
    expected = [each for each in everything if matches(each)]
    assert expected or name == "nothing"
    assert await find_all(store, where) == expected


async def test_ids_find_those_that_exist(store: Store, clock: ManualClock) -> None:
    everything = ids(await _some_of_every_kind(store, clock))
    where = MessageFilter(ids=(everything[5], fresh_id(), everything[2]))
    assert ids(await find_all(store, where)) == [everything[2], everything[5]]


@pytest.mark.parametrize("newest", [True, False])
async def test_pages_have_each_once_in_the_order_of_writing(
    store: Store, clock: ManualClock, newest: bool
) -> None:
    everything = ids(await _some_of_every_kind(store, clock))
    seen: list[str] = []
    after = None
    for _ in range(20):
        page = await store.find_messages(ALL, limit=5, after=after, newest=newest)
        assert len(page.items) <= 5
        seen += ids(page.items)
        after = page.next
        if after is None:
            break
    assert seen == (everything[::-1] if newest else everything)


async def test_the_newest_are_first_by_default(store: Store) -> None:
    new = [await put(store) for _ in range(3)]
    page = await store.find_messages(ALL)
    assert (ids(page.items), page.next) == (new[::-1], None)


async def test_a_page_goes_on_though_others_were_added_and_removed(store: Store) -> None:
    new = [await put(store) for _ in range(6)]
    page = await store.find_messages(ALL, limit=2, newest=False)
    held = await hand(store, limit=2)
    for each in held:
        await end_message(store, each)
    await store.delete_messages(ids(held))
    added = await put(store)
    rest = await store.find_messages(ALL, after=page.next, newest=False)
    assert ids(rest.items) == [*new[2:], added]


async def test_wild_cards_are_letters(store: Store) -> None:
    await post(store, message("abc"), message("a%"), message("a_c"), message("ABC"))
    for name in ("a%", "a_c", "ABC"):
        assert [each.stream for each in await find_all(store, MessageFilter(streams=(name,)))] == [
            name
        ]


# -- reviving and deleting -------------------------------------------------------------------------


async def _one_of_each_state(store: Store) -> dict[str, str]:
    """Ids by kind: waiting, later, held, done, dead."""
    made = {}
    for name in ("done", "dead", "held"):
        made[name] = await put(store, name)
        held = await hand_one(store, name)
        if name != "held":
            await end_message(store, held, dead() if name == "dead" else None, keep=500)
    made["waiting"] = await put(store)
    made["later"] = await put(store, delay=60)
    return made


async def test_ended_messages_are_revived_as_fresh(store: Store, clock: ManualClock) -> None:
    made = await _one_of_each_state(store)
    before = {each.id: each for each in await find_all(store)}
    clock.advance(9)
    revived = await store.revive_messages([*made.values(), fresh_id()])
    assert sorted(revived) == sorted([made["done"], made["dead"]])
    for name, each in made.items():
        now = await message_of(store, each)
        if name not in {"done", "dead"}:
            assert now == before[each]
            continue
        assert (now.state, now.held, now.attempt, now.deliveries) == (PENDING, False, 1, 0)
        assert (now.due_at, now.finished_at, now.expires_at) == (at(9), None, None)
        assert (now.reason, now.position) == (None, before[each].position)
        assert now.created_at == before[each].created_at


async def test_a_revived_message_is_handed_out_again(store: Store) -> None:
    new = await put(store)
    await end_message(store, await hand_one(store), retry(0))
    await end_message(store, await hand_one(store), dead())
    assert await store.revive_messages([new]) == [new]
    held = await hand_one(store)
    assert (held.id, held.attempt, held.deliveries) == (new, 1, 1)


async def test_reviving_twice_revives_once(store: Store) -> None:
    new = await put(store)
    await end_message(store, await hand_one(store))
    assert await store.revive_messages([new, new]) == [new]
    assert await store.revive_messages([new]) == []
    assert await store.revive_messages([]) == []


async def test_a_revived_message_is_not_pruned(store: Store, clock: ManualClock) -> None:
    new = await put(store)
    await end_message(store, await hand_one(store), keep=5)
    await store.revive_messages([new])
    clock.advance(10)
    assert (await store.prune(limit=10)).total == 0
    assert ids(await hand(store)) == [new]


async def test_ended_messages_are_deleted_and_others_left(store: Store) -> None:
    made = await _one_of_each_state(store)
    removed = await store.delete_messages([*made.values(), *made.values(), fresh_id()])
    assert sorted(removed) == sorted([made["done"], made["dead"]])
    left = {made[name] for name in ("held", "waiting", "later")}
    assert set(ids(await find_all(store))) == left
    assert await store.delete_messages(list(made.values())) == []
    assert await store.delete_messages([]) == []


# -- backlog ---------------------------------------------------------------------------------------


async def test_an_empty_store_has_no_backlog(store: Store) -> None:
    assert await store.message_backlog() == []
    await put(store)
    await end_message(store, await hand_one(store))
    assert await store.message_backlog() == []


async def test_what_waits_is_counted_by_box_and_stream(store: Store, clock: ManualClock) -> None:
    for _ in range(2):
        await put(store, "b")
    clock.advance(1)
    await put(store, "a")
    clock.advance(1)
    await put(store, "a")
    await put(store, "a", delay=60)
    await put(store, "a", box=Box.IN, key="k")
    await put(store, "later", delay=60)
    assert await store.message_backlog() == [
        MessageBacklog(box=Box.IN, stream="a", due=1, dead=0, oldest_due_at=at(2)),
        MessageBacklog(box=Box.OUT, stream="a", due=2, dead=0, oldest_due_at=at(1)),
        MessageBacklog(box=Box.OUT, stream="b", due=2, dead=0, oldest_due_at=at(0)),
        MessageBacklog(box=Box.OUT, stream="later", due=0, dead=0),
    ]


async def test_what_is_held_still_waits(store: Store, clock: ManualClock) -> None:
    for _ in range(3):
        await put(store)
    clock.advance(5)
    held = await hand(store, limit=2)
    (line,) = await store.message_backlog()
    assert (line.due, line.oldest_due_at) == (3, at(0))
    clock.advance(100)
    (line,) = await store.message_backlog()
    assert line.due == 3
    await end_message(store, held[0])
    (line,) = await store.message_backlog()
    assert line.due == 2


async def test_one_that_retries_later_is_not_due_and_yet_waits(
    store: Store, clock: ManualClock
) -> None:
    await put(store)
    await end_message(store, await hand_one(store), retry(60))
    (line,) = await store.message_backlog()
    assert (line.due, line.oldest_due_at) == (0, at(0))
    clock.advance(60)
    (line,) = await store.message_backlog()
    assert (line.due, line.oldest_due_at) == (1, at(0))


async def test_the_dead_are_counted_with_the_age_of_the_oldest(
    store: Store, clock: ManualClock
) -> None:
    for _ in range(3):
        await put(store)
    for each in await hand(store):
        clock.advance(4)
        await end_message(store, each, dead())
    assert await store.message_backlog() == [
        MessageBacklog(box=Box.OUT, stream="s", due=0, dead=3, oldest_dead_at=at(4))
    ]


async def test_counts_go_up_to_the_limit(store: Store) -> None:
    await post(store, *(message() for _ in range(30)))
    for each in await hand(store, limit=12):
        await end_message(store, each, dead())
    (line,) = await store.message_backlog(limit=10)
    assert (line.due, line.dead) == (10, 10)
    (line,) = await store.message_backlog(limit=15)
    assert (line.due, line.dead) == (15, 12)


# -- pruning ---------------------------------------------------------------------------------------


async def test_a_message_goes_when_its_time_has_passed(store: Store, clock: ManualClock) -> None:
    new = await put(store)
    await end_message(store, await hand_one(store), keep=60)
    clock.advance(59)
    assert (await store.prune(limit=10)).total == 0
    assert (await message_of(store, new)).state is DONE
    clock.advance(2)
    assert (await store.prune(limit=10)).total == 1
    assert await find_all(store) == []


async def test_what_lives_and_what_has_no_end_stays(store: Store, clock: ManualClock) -> None:
    kept = {await put(store, "dead"), await put(store, "done")}
    await end_message(store, await hand_one(store, "dead"), dead())
    await end_message(store, await hand_one(store, "done"))
    kept |= {await put(store), await put(store, delay=90_000), await put(store, "held")}
    await hand_one(store, "held")
    kept.add(await put(store, "retried"))
    await end_message(store, await hand_one(store, "retried"), retry(60), keep=1)
    clock.advance(3_000_000)
    assert (await store.prune(limit=100)).total == 0
    assert set(ids(await find_all(store))) == kept


async def test_jobs_and_messages_are_each_pruned_up_to_the_limit(
    store: Store, clock: ManualClock
) -> None:
    for _ in range(5):
        await succeed(store, await start(store), keep=1)
        await put(store)
    for each in await hand(store):
        await end_message(store, each, keep=1)
    living = await add(store)
    clock.advance(2)
    assert [(await store.prune(limit=4)).total for _ in range(3)] == [8, 2, 0]
    assert (await record(store, living)).state is JobState.QUEUED
