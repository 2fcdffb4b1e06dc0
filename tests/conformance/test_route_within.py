"""A router's step in the caller's own transaction: all of it, or nothing, and one at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from offpath.errors import CapabilityMissing, WrongConnection
from offpath.model.effects import Effects
from offpath.model.route import Decisions, LogEvent, RouterRecord
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.log_builders import (
    ROUTER,
    append_many,
    cursor_of,
    decide_all,
    declare,
    event,
    everything,
    read,
    run_router,
    seize,
)
from tests.conformance.message_builders import find_all, message

pytestmark = pytest.mark.needs("within")

Step = Callable[..., Awaitable[Decisions | None]]


class Decider:
    """Sends every event on, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[RouterRecord, list[LogEvent]]] = []

    def __call__(self, router: RouterRecord, events: Sequence[LogEvent]) -> Decisions:
        self.asked.append((router, list(events)))
        fresh = [each for each in events if not each.decided]
        copies = tuple(message("out", id=f"copy {each.id}") for each in fresh)
        position = events[-1].position if events else router.cursors[0].position
        effects = Effects(messages=copies)
        return decide_all(fresh, position=position, effects=effects, summary='{"n":1}')


@pytest.fixture(params=["blocking", "async"])
def step(request: pytest.FixtureRequest, store: Store, caller: Backend) -> Step:
    """``step(decide, limit=…, commit=…)``: one step in a transaction of its own."""

    async def blocking(decide: Any, *, limit: int = 100, commit: bool = True) -> Decisions | None:
        with caller.transaction() as connection:
            made = store.route_within_blocking(connection, ROUTER, 0, limit=limit, decide=decide)
            if commit:
                connection.commit()
        return made

    async def waiting(decide: Any, *, limit: int = 100, commit: bool = True) -> Decisions | None:
        async with caller.async_transaction() as connection:
            made = await store.route_within(connection, ROUTER, 0, limit=limit, decide=decide)
            if commit:
                await connection.commit()
        return made

    return blocking if request.param == "blocking" else waiting


async def test_a_step_writes_what_was_decided_and_moves_the_cursor(
    store: Store, step: Step
) -> None:
    await declare(store)
    new = await append_many(store, 3)
    decide = Decider()
    made = await step(decide, limit=2)
    assert made is not None
    assert [each.event for each in made.attempts] == new[:2]
    ((router, events),) = decide.asked
    assert (router.name, router.open, router.master) == (ROUTER, False, False)
    assert events == (await everything(store))[:2]
    now = await cursor_of(store)
    assert (now.position, now.passed, now.summary) == (events[-1].position, 2, '{"n":1}')
    assert [each.event for each in await store.attempts(ROUTER)] == new[:2]
    assert [each.id for each in await find_all(store)] == [f"copy {each}" for each in new[:2]]


async def test_steps_go_on_where_the_last_one_ended(store: Store, step: Step) -> None:
    await declare(store)
    new = await append_many(store, 5)
    decide = Decider()
    for _ in range(4):
        assert await step(decide, limit=2) is not None
    assert [[each.id for each in events] for _, events in decide.asked] == [
        new[:2],
        new[2:4],
        new[4:],
        [],
    ]
    assert len(await store.attempts(ROUTER)) == 5


async def test_a_step_that_is_rolled_back_leaves_nothing(store: Store, step: Step) -> None:
    await declare(store)
    await append_many(store, 3)
    before = await cursor_of(store)
    assert await step(Decider(), commit=False) is not None
    assert await cursor_of(store) == before
    assert await store.attempts(ROUTER) == []
    assert await find_all(store) == []
    assert await step(Decider()) is not None
    assert len(await store.attempts(ROUTER)) == 3


async def test_a_step_that_fails_to_decide_leaves_nothing(store: Store, step: Step) -> None:
    await declare(store)
    await append_many(store, 1)

    def broken(router: RouterRecord, events: Sequence[LogEvent]) -> Decisions:
        raise LookupError(events[0].id)

    with pytest.raises(LookupError):
        await step(broken)
    assert await store.attempts(ROUTER) == []
    assert await step(Decider()) is not None


async def test_a_failed_event_becomes_a_dead_letter(store: Store, step: Step) -> None:
    await declare(store)
    bad, _ = await append_many(store, 2)
    await step(lambda router, events: decide_all(events, failed=[bad]))
    (kept,) = await store.letters(ROUTER)
    assert kept.event.id == bad


async def test_somebody_elses_cursor_is_left_to_them(store: Store, step: Step) -> None:
    await declare(store)
    await append_many(store, 1)
    cursor = await seize(store)
    decide = Decider()
    assert await step(decide) is None
    assert decide.asked == []
    await store.release_cursor(cursor)
    assert await step(decide) is not None


async def test_a_step_takes_the_cursor_from_a_run_whose_lease_has_ended(
    store: Store, step: Step, clock: ManualClock
) -> None:
    """The other run may still be about to write what it decided about the same events."""
    await declare(store)
    await append_many(store, 2)
    late = await seize(store)
    events = (await read(store)).events
    clock.advance(31)
    assert await step(Decider()) is not None
    twice = decide_all(events, effects=Effects(messages=(message("out"),)))
    assert not await store.advance(late, twice)
    assert len(await find_all(store)) == 2


async def test_after_a_step_the_cursor_is_free(store: Store, step: Step) -> None:
    await declare(store)
    new = await append_many(store, 3)
    await step(Decider(), limit=1)
    assert [each.id for each in await run_router(store)] == new[1:]


async def test_what_was_decided_before_is_told(store: Store, step: Step) -> None:
    await declare(store)
    await append_many(store, 3)
    await run_router(store)
    await store.move_cursor(ROUTER, 0, 0)
    before = await store.attempts(ROUTER)
    decide = Decider()
    await step(decide)
    assert [each.decided for each in decide.asked[0][1]] == [True] * 3
    assert await store.attempts(ROUTER) == before


async def test_two_steps_at_once_do_not_both_have_it(store: Store, caller: Backend) -> None:
    if not caller.many_writers:
        pytest.skip("nobody else can write while a transaction is open")
    await declare(store)
    await append_many(store, 2)
    with caller.transaction() as one, caller.transaction() as two:
        made = store.route_within_blocking(one, ROUTER, 0, limit=5, decide=Decider())
        assert made is not None
        assert store.route_within_blocking(two, ROUTER, 0, limit=5, decide=Decider()) is None
        one.commit()
    assert len(await store.attempts(ROUTER)) == 2


async def test_while_a_step_is_open_nobody_leases_its_cursor_and_writes(
    store: Store, caller: Backend
) -> None:
    if not caller.many_writers:
        pytest.skip("nobody else can write while a transaction is open")
    await declare(store, partitions=2)
    await append_many(store, 2)
    with caller.transaction() as connection:
        store.route_within_blocking(connection, ROUTER, 0, limit=5, decide=Decider())
        await append_many(store, 2)
        assert await store.lease_cursor(ROUTER, 1, "h", lease_seconds=5) is not None
        connection.commit()
    assert len((await read(store)).events) + len((await read(store, partition=1)).events) == 4


async def test_events_of_an_open_writer_are_not_decided(store: Store, caller: Backend) -> None:
    if not caller.many_writers:
        pytest.skip("nobody else can write while a transaction is open")
    await declare(store)
    first = await append_many(store, 1)
    late = event()
    decide = Decider()
    with caller.transaction() as writer, caller.transaction() as connection:
        store.commit_within_blocking(writer, Effects(log=(late,)))
        await append_many(store, 1)
        store.route_within_blocking(connection, ROUTER, 0, limit=9, decide=decide)
        connection.commit()
        writer.commit()
    assert [each.id for each in decide.asked[0][1]] == first
    assert (await run_router(store))[0].id == late.id


async def test_an_unknown_connection_is_refused(store: Store, caller: Backend) -> None:
    await declare(store)
    decide = Decider()
    with pytest.raises(WrongConnection):
        await store.route_within(object(), ROUTER, 0, limit=5, decide=decide)
    with pytest.raises(WrongConnection):
        store.route_within_blocking(object(), ROUTER, 0, limit=5, decide=decide)
    assert decide.asked == []


async def test_where_nothing_can_be_joined_it_is_refused(store: Store) -> None:
    if store.capabilities.within:
        pytest.skip("there are transactions to join")
    await declare(store)
    with pytest.raises(CapabilityMissing):
        await store.route_within(object(), ROUTER, 0, limit=5, decide=Decider())
    with pytest.raises(CapabilityMissing):
        store.route_within_blocking(object(), ROUTER, 0, limit=5, decide=Decider())
