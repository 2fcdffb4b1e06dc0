"""Short ways to make events of the log and routers, and to take one step with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from offpath.model.effects import Effects
from offpath.model.new import NewLogEvent
from offpath.model.route import (
    Attempt,
    AttemptStatus,
    Cursor,
    Decisions,
    Letter,
    LogEvent,
    LogPage,
    RouterRecord,
    RouterSpec,
    slot_of,
)
from offpath.store.protocol import Store
from tests.conformance.builders import fresh_id

DOMAIN = "d"
ROUTER = "r"
HOLDER = "holder-1"


def event(kind: str = "made", *, domain: str = DOMAIN, **fields: Any) -> NewLogEvent:
    """An event with an own id, in the slot of its key."""
    fields.setdefault("id", fresh_id())
    fields.setdefault("stream", "orders")
    fields.setdefault("payload", "{}")
    fields.setdefault("slot", slot_of(fields.get("key") or fields["id"]))
    return NewLogEvent(domain=domain, type=kind, **fields)


async def append(store: Store, *events: NewLogEvent) -> list[str]:
    """Commit these events together; their ids."""
    await store.commit(Effects(log=events))
    return [each.id for each in events]


async def append_many(store: Store, count: int, **fields: Any) -> list[str]:
    """Commit as many events together; their ids."""
    return await append(store, *(event(**fields) for _ in range(count)))


async def declare(store: Store, name: str = ROUTER, **fields: Any) -> RouterRecord:
    """Declare a router, which begins at the beginning."""
    fields.setdefault("domain", DOMAIN)
    fields.setdefault("start", "beginning")
    return await store.declare_router(RouterSpec(name=name, **fields))


async def router_of(store: Store, name: str = ROUTER) -> RouterRecord:
    """The store's record of a router, which must exist."""
    (found,) = [each for each in await store.routers() if each.name == name]
    return found


async def cursor_of(store: Store, name: str = ROUTER, partition: int = 0) -> Cursor:
    """The position of a router."""
    return (await router_of(store, name)).cursors[partition]


async def seize(
    store: Store, partition: int = 0, holder: str = HOLDER, *, router: str = ROUTER
) -> Cursor:
    """Lease a cursor, which must be free."""
    cursor = await store.lease_cursor(router, partition, holder, lease_seconds=30)
    assert cursor is not None
    assert cursor.holder == holder
    return cursor


async def read(
    store: Store, router: str = ROUTER, *, partition: int = 0, after: int = 0, limit: int = 100
) -> LogPage:
    """The events that the router may read."""
    return await store.read_log(router, partition, after=after, limit=limit)


async def everything(store: Store, **fields: Any) -> list[LogEvent]:
    """Every event, for looking at."""
    return await store.read_events(limit=10_000, **fields)


def attempt(
    on: LogEvent,
    status: AttemptStatus = AttemptStatus.SENT,
    *,
    router: str = ROUTER,
    route: str = "one",
    **fields: Any,
) -> Attempt:
    """An attempt at an event."""
    return Attempt(
        router=router, route=route, event=on.id, position=on.position, status=status, **fields
    )


def letter(on: LogEvent, *, router: str = ROUTER, **fields: Any) -> Letter:
    """A dead letter about an event."""
    fields.setdefault("id", fresh_id())
    fields.setdefault("reason", "failed")
    fields.setdefault("detail", "no answer")
    return Letter(router=router, route="one", event=on, **fields)


def decide_all(
    events: Sequence[LogEvent], *, failed: Iterable[str] = (), **fields: Any
) -> Decisions:
    """An attempt at each event, and a dead letter for those that ``failed``."""
    bad = set(failed)
    router = fields.pop("router", ROUTER)
    return Decisions(
        position=fields.pop("position", events[-1].position if events else 0),
        attempts=tuple(
            attempt(
                each,
                AttemptStatus.FAILED if each.id in bad else AttemptStatus.SENT,
                router=router,
            )
            for each in events
        ),
        letters=tuple(letter(each, router=router) for each in events if each.id in bad),
        passed=len(events),
        **fields,
    )


async def run_router(
    store: Store, name: str = ROUTER, *, limit: int = 100, failed: Iterable[str] = ()
) -> list[LogEvent]:
    """One run of a router's only partition, which must be free; the events it decided."""
    cursor = await seize(store, router=name)
    page = await read(store, name, after=cursor.position, limit=limit)
    fresh = [each for each in page.events if not each.decided]
    position = page.events[-1].position if page.events else cursor.position
    decisions = decide_all(fresh, failed=failed, router=name, position=position)
    assert await store.advance(cursor, decisions)
    await store.release_cursor(cursor)
    return fresh


async def open_letter(store: Store) -> Letter:
    """A router that has failed at an event; the dead letter as the store has it."""
    await declare(store)
    (event_id,) = await append(store, event("paid", key="k", payload='{"n":1}'))
    await run_router(store, failed=[event_id])
    (found,) = await store.letters(ROUTER)
    return found
