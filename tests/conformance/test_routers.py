"""Routers: declared once, closed until opened, one run at a time, each event decided once."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from offpath.errors import Conflict
from offpath.model.effects import Effects
from offpath.model.route import AttemptStatus, Cursor, Decisions, Route, RouterRecord
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import SPOILT_GATES, Backend
from tests.conformance.builders import START, exists, fresh_id, new_job
from tests.conformance.log_builders import (
    ROUTER,
    append_many,
    attempt,
    cursor_of,
    decide_all,
    declare,
    event,
    everything,
    letter,
    read,
    router_of,
    run_router,
    seize,
)
from tests.conformance.message_builders import find_all, message

pytestmark = pytest.mark.needs("log")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


# -- declaring -------------------------------------------------------------------------------------


async def test_nobody_is_there_at_first(store: Store) -> None:
    assert await store.routers() == []


async def test_a_new_router_is_closed_and_at_its_start(store: Store, clock: ManualClock) -> None:
    clock.advance(3)
    routes = (Route(name="mail", type="paid", stream="orders", deliver="task:mail"),)
    made = await declare(store, partitions=2, routes=routes)
    assert made == RouterRecord(
        name=ROUTER,
        domain="d",
        partitions=2,
        open=False,
        master=False,
        routes=routes,
        cursors=tuple(Cursor(router=ROUTER, partition=n, position=0) for n in (0, 1)),
        created_at=at(3),
    )
    assert not made.routes[0].enabled
    assert made.routes[0].dry_run
    assert await store.routers() == [made]


async def test_routers_are_listed_by_name(store: Store) -> None:
    for name in ("b", "c", "a"):
        await declare(store, name)
    assert [each.name for each in await store.routers()] == ["a", "b", "c"]


async def test_declaring_again_changes_nothing(store: Store, clock: ManualClock) -> None:
    routes = (Route(name="a", deliver="x"), Route(name="b"))
    await declare(store, routes=routes)
    await append_many(store, 2)
    await store.set_gate(ROUTER, opened=True)
    await store.set_route(ROUTER, "a", enabled=True)
    await run_router(store)
    before = await router_of(store)
    clock.advance(5)
    assert await declare(store, start="now", routes=routes) == before
    assert await store.routers() == [before]


async def test_declaring_again_adds_routes_and_keeps_switches(store: Store) -> None:
    await declare(store, routes=(Route(name="a", deliver="old"), Route(name="gone")))
    await store.set_route(ROUTER, "a", enabled=True, dry_run=False)
    new = (Route(name="a", deliver="new"), Route(name="b", type="t", deliver="task:b"))
    made = await declare(store, routes=new)
    routes = {route.name: route for route in made.routes}
    assert set(routes) == {"a", "b", "gone"}
    assert (routes["a"].enabled, routes["a"].dry_run, routes["a"].deliver) == (True, False, "new")
    assert routes["b"] == new[1]


@pytest.mark.parametrize("other", [{"domain": "x"}, {"partitions": 3}], ids=["domain", "number"])
async def test_a_router_cannot_become_another(store: Store, other: dict[str, Any]) -> None:
    await declare(store, partitions=2)
    before = await store.routers()
    with pytest.raises(Conflict):
        await declare(store, **{"partitions": 2, "routes": (Route(name="new"),), **other})
    assert await store.routers() == before


async def test_a_router_that_begins_at_the_beginning_reads_all(store: Store) -> None:
    new = await append_many(store, 3)
    await declare(store, start="beginning")
    assert [each.id for each in await run_router(store)] == new


async def test_a_router_that_begins_now_reads_what_comes(store: Store) -> None:
    await append_many(store, 3)
    made = await declare(store, start="now", partitions=2)
    newest = (await everything(store))[-1].position
    assert {each.position for each in made.cursors} == {made.cursors[0].position}
    assert made.cursors[0].position >= newest
    new = await append_many(store, 6)
    seen = [
        each.id
        for cursor in made.cursors
        for each in (await read(store, partition=cursor.partition, after=cursor.position)).events
    ]
    assert sorted(seen) == sorted(new)


async def test_a_router_that_begins_at_a_position_reads_what_is_above(store: Store) -> None:
    new = await append_many(store, 4)
    position = (await everything(store))[1].position
    made = await declare(store, start=position)
    assert made.cursors[0].position == position
    assert [each.id for each in await run_router(store)] == new[2:]


async def test_concurrent_declarations_make_one(rivals: tuple[Store, ...]) -> None:
    routes = (Route(name="a"), Route(name="b"))
    answers = await asyncio.gather(
        *(declare(rival, partitions=3, routes=routes) for rival in rivals)
    )
    (made,) = await rivals[0].routers()
    assert all(answer == made for answer in answers)
    assert (len(made.cursors), len(made.routes)) == (3, 2)


# -- gates and switches ----------------------------------------------------------------------------


async def test_gates_open_and_close(store: Store) -> None:
    await declare(store)
    await declare(store, "other")
    assert await store.set_gate(ROUTER, opened=True)
    assert [(each.open, each.master) for each in await store.routers()] == [
        (False, False),
        (True, False),
    ]
    assert await store.set_gate(None, opened=True)
    assert [(each.open, each.master) for each in await store.routers()] == [
        (False, True),
        (True, True),
    ]
    assert await store.set_gate(ROUTER, opened=True)
    assert await store.set_gate(ROUTER, opened=False)
    assert await store.set_gate(None, opened=False)
    assert {(each.open, each.master) for each in await store.routers()} == {(False, False)}


async def test_an_unknown_router_has_no_gate(store: Store) -> None:
    assert not await store.set_gate("unknown", opened=True)
    await declare(store, "unknown")
    assert not (await router_of(store, "unknown")).open


async def test_a_master_gate_opened_before_any_router_counts(store: Store) -> None:
    assert await store.set_gate(None, opened=True)
    made = await declare(store)
    assert (made.open, made.master) == (False, True)


async def test_routes_are_switched_one_by_one(store: Store) -> None:
    await declare(store, routes=(Route(name="a"), Route(name="b")))
    assert await store.set_route(ROUTER, "a", enabled=True)
    assert await store.set_route(ROUTER, "b", dry_run=False)
    assert await store.set_route(ROUTER, "b")
    routes = {each.name: each for each in (await router_of(store)).routes}
    assert (routes["a"].enabled, routes["a"].dry_run) == (True, True)
    assert (routes["b"].enabled, routes["b"].dry_run) == (False, False)
    assert not await store.set_route(ROUTER, "none", enabled=True)
    assert not await store.set_route("none", "a", enabled=True)


# -- the cursor's lease ----------------------------------------------------------------------------


async def test_two_runs_never_have_one_cursor(store: Store, clock: ManualClock) -> None:
    await declare(store, partitions=2)
    await seize(store, 0, "one")
    assert await store.lease_cursor(ROUTER, 0, "two", lease_seconds=30) is None
    await seize(store, 1, "two")
    clock.advance(29)
    assert await store.lease_cursor(ROUTER, 0, "two", lease_seconds=30) is None
    clock.advance(1)
    await seize(store, 0, "two")
    assert await store.lease_cursor(ROUTER, 0, "one", lease_seconds=30) is None


async def test_of_those_who_ask_at_once_one_gets_the_cursor(rivals: tuple[Store, ...]) -> None:
    await declare(rivals[0])
    answers = await asyncio.gather(
        *(
            rival.lease_cursor(ROUTER, 0, f"h{n}", lease_seconds=30)
            for n, rival in enumerate(rivals)
        )
    )
    assert [answer is None for answer in answers].count(False) == 1


async def test_a_holder_renews_its_lease(store: Store, clock: ManualClock) -> None:
    await declare(store)
    first = await seize(store)
    clock.advance(20)
    assert await seize(store) == first
    clock.advance(20)
    assert await store.lease_cursor(ROUTER, 0, "other", lease_seconds=30) is None


async def test_who_has_a_cursor_is_shown_until_its_lease_ends(
    store: Store, clock: ManualClock
) -> None:
    await declare(store)
    await seize(store)
    assert (await cursor_of(store)).holder == "holder-1"
    clock.advance(31)
    assert (await cursor_of(store)).holder is None


async def test_a_cursor_given_back_is_free(store: Store) -> None:
    await declare(store)
    await store.release_cursor(await seize(store))
    other = await seize(store, holder="other")
    await store.release_cursor(Cursor(router=ROUTER, partition=0, position=0, holder="holder-1"))
    assert (await cursor_of(store)).holder == "other"
    assert await store.lease_cursor(ROUTER, 0, "third", lease_seconds=30) is None
    assert other.position == 0


@pytest.mark.parametrize(("name", "partition"), [("none", 0), (ROUTER, 2), (ROUTER, -1)])
async def test_an_unknown_cursor_is_a_conflict(store: Store, name: str, partition: int) -> None:
    await declare(store, partitions=2)
    with pytest.raises(Conflict):
        await store.lease_cursor(name, partition, "h", lease_seconds=30)


# -- advancing -------------------------------------------------------------------------------------


async def test_an_advance_writes_everything_together(store: Store, clock: ManualClock) -> None:
    await declare(store)
    good, bad = await append_many(store, 2)
    cursor = await seize(store)
    events = (await read(store)).events
    effects = Effects(jobs=(new_job(),), messages=(message("out"),), log=(event(domain="x"),))
    clock.advance(4)
    decisions = decide_all(events, failed=[bad], effects=effects, summary='{"sent":1}')
    assert await store.advance(cursor, decisions)
    now = await cursor_of(store)
    assert (now.position, now.passed, now.ran_at) == (events[-1].position, 2, at(4))
    assert (now.summary, now.holder) == ('{"sent":1}', "holder-1")
    attempts = await store.attempts(ROUTER)
    assert [(each.event, each.status, each.number, each.at) for each in attempts] == [
        (good, AttemptStatus.SENT, 1, at(4)),
        (bad, AttemptStatus.FAILED, 1, at(4)),
    ]
    assert [each.event.id for each in await store.letters(ROUTER)] == [bad]
    assert await exists(store, effects.jobs[0].id)
    assert [each.id for each in await find_all(store)] == [effects.messages[0].id]
    assert [each.id for each in await store.read_events(domain="x")] == [effects.log[0].id]


async def test_passed_events_add_up(store: Store) -> None:
    await declare(store)
    await append_many(store, 5)
    await run_router(store, limit=2)
    await run_router(store)
    assert (await cursor_of(store)).passed == 5


async def test_several_advances_are_made_under_one_lease(store: Store) -> None:
    await declare(store)
    await append_many(store, 4)
    cursor = await seize(store)
    events = (await read(store)).events
    assert await store.advance(cursor, decide_all(events[:2]))
    assert await store.advance(cursor, decide_all(events[2:]))
    assert (await cursor_of(store)).position == events[-1].position
    assert len(await store.attempts(ROUTER)) == 4


LOSSES = ["taken", "released", "moved"]


@pytest.mark.parametrize("way", LOSSES)
async def test_who_has_lost_the_cursor_writes_nothing(
    store: Store, clock: ManualClock, way: str
) -> None:
    await declare(store)
    await append_many(store, 2)
    cursor = await seize(store)
    events = (await read(store)).events
    if way == "taken":
        clock.advance(31)
        await seize(store, holder="other")
    elif way == "released":
        await store.release_cursor(cursor)
    else:
        assert await store.move_cursor(ROUTER, 0, 0)
    before = await router_of(store)
    effects = Effects(jobs=(new_job(),), messages=(message(),), log=(event(domain="x"),))
    decisions = decide_all(events, failed=[events[0].id], effects=effects)
    assert not await store.advance(cursor, decisions)
    assert await router_of(store) == before
    assert await store.attempts(ROUTER) == []
    assert await store.letters(ROUTER) == []
    assert await find_all(store) == []
    assert not await exists(store, effects.jobs[0].id)
    assert len(await everything(store)) == 2


async def test_a_cursor_never_moves_back_by_an_advance(store: Store) -> None:
    await declare(store)
    await append_many(store, 3)
    cursor = await seize(store)
    events = (await read(store)).events
    await store.advance(cursor, decide_all(events))
    await store.advance(cursor, Decisions(position=events[0].position))
    await store.advance(cursor, Decisions(position=0))
    assert (await cursor_of(store)).position == events[-1].position


async def test_an_attempt_that_exists_is_left_as_it_is(store: Store) -> None:
    await declare(store)
    await append_many(store, 2)
    await run_router(store, limit=1)
    before = await store.attempts(ROUTER)
    cursor = await seize(store)
    events = (await read(store)).events
    again = tuple(attempt(each, AttemptStatus.SKIPPED, route="-") for each in events)
    assert await store.advance(cursor, Decisions(position=events[-1].position, attempts=again))
    found = await store.attempts(ROUTER)
    assert found[:1] == before
    assert [each.status for each in found] == [AttemptStatus.SENT, AttemptStatus.SKIPPED]


async def test_a_repeated_advance_adds_nothing(store: Store) -> None:
    await declare(store)
    (bad, _) = await append_many(store, 2)
    cursor = await seize(store)
    events = (await read(store)).events
    effects = Effects(messages=(message(),), log=(event(domain="x"),))
    decisions = decide_all(events, failed=[bad], effects=effects)
    assert await store.advance(cursor, decisions)
    assert await store.advance(cursor, decisions)
    assert (await cursor_of(store)).passed == 2
    assert len(await store.attempts(ROUTER)) == 2
    assert len(await store.letters(ROUTER)) == 1
    assert len(await find_all(store)) == 1
    assert len(await everything(store)) == 3


async def test_a_cursor_put_back_meets_what_was_decided(store: Store) -> None:
    await declare(store)
    await append_many(store, 3)
    await run_router(store)
    before = await store.attempts(ROUTER)
    assert await store.move_cursor(ROUTER, 0, 0)
    assert (await cursor_of(store)).position == 0
    assert [each.decided for each in (await read(store)).events] == [True] * 3
    assert await run_router(store) == []
    assert await store.attempts(ROUTER) == before
    assert (await cursor_of(store)).position == (await everything(store))[-1].position


async def test_a_cursor_is_moved_on_too_and_taken_from_its_holder(store: Store) -> None:
    await declare(store, partitions=2)
    await seize(store, 1)
    assert await store.move_cursor(ROUTER, 1, 12)
    assert [each.position for each in (await router_of(store)).cursors] == [0, 12]
    assert (await cursor_of(store, partition=1)).holder is None
    assert not await store.move_cursor(ROUTER, 2, 5)
    assert not await store.move_cursor("none", 0, 5)


async def test_runs_at_once_decide_each_event_once(rivals: tuple[Store, ...]) -> None:
    """Four runs of each of three partitions, over and over."""
    await declare(rivals[0], partitions=3)
    new = await append_many(rivals[0], 60)

    async def run(rival: Store, partition: int) -> None:
        for _ in range(6):
            holder = fresh_id()
            cursor = await rival.lease_cursor(ROUTER, partition, holder, lease_seconds=30)
            if cursor is None:
                continue
            page = await read(rival, partition=partition, after=cursor.position, limit=5)
            assert not any(each.decided for each in page.events)
            position = page.events[-1].position if page.events else cursor.position
            copies = tuple(message("out", payload=f'"{each.id}"') for each in page.events)
            decisions = decide_all(page.events, position=position, effects=Effects(messages=copies))
            assert await rival.advance(cursor, decisions)
            await rival.release_cursor(cursor)

    await asyncio.gather(*(run(rival, n) for rival in rivals for n in range(3)))
    for partition in range(3):
        while (page := await _rest(rivals[0], partition)) is not None:
            assert page
    sent = [each.payload.strip('"') for each in await find_all(rivals[0])]
    assert sorted(sent) == sorted(new)
    assert len(await rivals[0].attempts(ROUTER)) == 60


async def _rest(store: Store, partition: int) -> list[str] | None:
    cursor = await seize(store, partition, fresh_id())
    page = await read(store, partition=partition, after=cursor.position)
    copies = tuple(message("out", payload=f'"{each.id}"') for each in page.events)
    if page.events:
        await store.advance(cursor, decide_all(page.events, effects=Effects(messages=copies)))
    await store.release_cursor(cursor)
    return [each.id for each in page.events] or None


# -- attempts --------------------------------------------------------------------------------------


async def test_attempts_are_paged_and_filtered(store: Store) -> None:
    await declare(store)
    await declare(store, "other")
    new = await append_many(store, 5)
    await run_router(store, failed=new[1:3])
    await run_router(store, "other")
    found = await store.attempts(ROUTER)
    assert [each.event for each in found] == new
    assert await store.attempts(ROUTER, event=new[3]) == [found[3]]
    assert await store.attempts(ROUTER, status=AttemptStatus.FAILED) == found[1:3]
    assert await store.attempts(ROUTER, event=new[3], status=AttemptStatus.FAILED) == []
    first = await store.attempts(ROUTER, limit=2)
    last = first[-1]
    assert first == found[:2]
    assert await store.attempts(ROUTER, after=(last.position, last.number)) == found[2:]
    assert await store.attempts("none") == []


async def test_an_attempt_comes_back_as_it_was_written(store: Store) -> None:
    await declare(store)
    await append_many(store, 1)
    cursor = await seize(store)
    (only,) = (await read(store)).events
    written = attempt(only, AttemptStatus.FAILED, route="mail", detail="no 'answer' 😀")
    dead = letter(only)
    await store.advance(
        cursor, Decisions(position=only.position, attempts=(written,), letters=(dead,))
    )
    (kept,) = await store.attempts(ROUTER)
    assert kept.at == START
    assert (kept.router, kept.route, kept.event, kept.position) == (
        ROUTER,
        "mail",
        only.id,
        only.position,
    )
    assert (kept.status, kept.number, kept.detail) == (AttemptStatus.FAILED, 1, written.detail)


# -- malformed gates -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SPOILT_GATES)
async def test_a_gate_that_is_missing_or_malformed_counts_as_closed(
    store: Store, backend: Backend, kind: str
) -> None:
    if not store.capabilities.shared:
        pytest.skip("nobody can write behind its back")
    await declare(store)
    await store.set_gate(ROUTER, opened=True)
    await store.set_gate(None, opened=True)
    assert [(each.open, each.master) for each in await store.routers()] == [(True, True)]
    backend.spoil_gates(kind)
    assert [(each.open, each.master) for each in await store.routers()] == [(False, False)]
    await store.set_gate(ROUTER, opened=True)
    await store.set_gate(None, opened=True)
    assert [(each.open, each.master) for each in await store.routers()] == [(True, True)]
