"""The lag of each partition of a router, and its latest decisions by route."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.model.effects import NOTHING
from offpath.model.route import AttemptStatus, Decisions, PartitionLag, RouteCount
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START
from tests.conformance.log_builders import (
    ROUTER,
    append,
    attempt,
    declare,
    event,
    everything,
    run_router,
    seize,
)

pytestmark = pytest.mark.needs("log")


async def test_what_waits_is_counted_in_each_partition(store: Store, clock: ManualClock) -> None:
    await declare(store, partitions=2)
    clock.advance(5)
    await append(store, event(slot=1), event(slot=3))
    clock.advance(5)
    await append(store, event(slot=2), event(slot=1, domain="another"))
    told = await store.router_standing(ROUTER)
    assert told.partitions == (
        PartitionLag(partition=0, waiting=1, more=False, oldest_at=START + timedelta(seconds=10)),
        PartitionLag(partition=1, waiting=2, more=False, oldest_at=START + timedelta(seconds=5)),
    )
    first, *_, last = await everything(store, domain="d")
    for partition, position in ((0, last.position), (1, first.position)):
        assert await store.advance(await seize(store, partition), Decisions(position=position))
    after = (await store.router_standing(ROUTER)).partitions
    assert [(one.waiting, one.oldest_at) for one in after] == [
        (0, None),
        (1, START + timedelta(seconds=5)),
    ]


async def test_no_more_events_are_looked_at_than_were_asked_for(store: Store) -> None:
    await declare(store, partitions=2)
    await append(store, *(event(slot=1) for _ in range(4)), event(slot=2))
    told = (await store.router_standing(ROUTER, most=4)).partitions
    assert [(one.waiting, one.more) for one in told] == [(0, True), (4, True)]
    told = (await store.router_standing(ROUTER, most=6)).partitions
    assert [(one.waiting, one.more) for one in told] == [(1, False), (4, False)]


async def test_decisions_are_counted_by_route_and_status_the_newest_of_them(store: Store) -> None:
    await declare(store)
    await append(store, *(event() for _ in range(6)))
    events = await everything(store)
    made = (
        attempt(events[0], AttemptStatus.FAILED, route="call"),
        *(attempt(one, route="call") for one in events[1:3]),
        attempt(events[3], AttemptStatus.FAILED, route="call"),
        *(attempt(one, AttemptStatus.DRY_RUN, route="bill") for one in events[4:]),
    )
    position = events[-1].position
    assert await store.advance(await seize(store), Decisions(position=position, attempts=made))
    told = await store.router_standing(ROUTER)
    assert told.decisions == (
        RouteCount(route="bill", status="dry_run", count=2),
        RouteCount(route="call", status="failed", count=2),
        RouteCount(route="call", status="sent", count=2),
    )
    assert told.counted == 6
    newest = await store.router_standing(ROUTER, newest=4)
    assert newest.decisions == (
        RouteCount(route="bill", status="dry_run", count=2),
        RouteCount(route="call", status="failed", count=1),
        RouteCount(route="call", status="sent", count=1),
    )


async def test_attempts_are_read_from_their_newest_on(store: Store) -> None:
    await declare(store)
    await append(store, *(event() for _ in range(4)))
    events = await everything(store)
    made = (
        *(attempt(one) for one in events[:3]),
        attempt(events[3], AttemptStatus.FAILED),
    )
    position = events[-1].position
    assert await store.advance(await seize(store), Decisions(position=position, attempts=made))
    again = attempt(events[0], number=2)
    assert await store.record_redo(again, None, NOTHING)
    first = await store.attempts(ROUTER, limit=3, newest=True)
    places = [(one.position, 1) for one in events]
    assert [(one.position, one.number) for one in first] == places[:0:-1]
    rest = await store.attempts(ROUTER, limit=3, newest=True, after=places[1])
    assert [(one.position, one.number) for one in rest] == [(events[0].position, 2), places[0]]
    sent = await store.attempts(ROUTER, status=AttemptStatus.SENT, limit=1, newest=True)
    assert [one.event for one in sent] == [events[2].id]


async def test_of_an_unknown_router_there_is_nothing(store: Store) -> None:
    await declare(store)
    await append(store, event())
    await run_router(store)
    told = await store.router_standing("none")
    assert (told.partitions, told.decisions, told.counted) == ((), (), 0)


async def test_a_router_of_a_table_of_the_users_own_has_no_lag_in_the_log(store: Store) -> None:
    """It counts that table's rows, and not the log's positions."""
    await declare(store, mark="[0]")
    await append(store, event())
    assert (await store.router_standing(ROUTER)).partitions == ()
