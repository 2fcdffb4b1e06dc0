"""The engine's own sweeps, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from offpath.config import Settings
from offpath.jobs.schedules.ticker import BATCH as FIRE_BATCH
from offpath.jobs.schedules.ticker import Ticker
from offpath.jobs.worker.upkeep import (
    CHECK_BATCH,
    CHECK_EVERY,
    PRUNE_BATCH,
    RESCUE_BATCH,
    Upkeep,
)
from offpath.model.redrive import Redrive
from offpath.runtime.tasks import Report
from offpath.store.protocol import Store
from offpath.sweeps.groups import CheckGroups
from offpath.sweeps.messages import Found, MoveDue, Wanting
from offpath.sweeps.prune import Prune
from offpath.sweeps.redrive import RedriveDead
from offpath.sweeps.registry import CLAIM_TIMEOUT, Sweep, SweepInfo
from offpath.sweeps.rescue import Rescue
from offpath.sweeps.schedules import FireDue

OWN = ("rescue", "group_check", "schedules", "router", "drain_inbox", "relay", "prune", "redrive")
"""Rescue first: what it gives back is run soonest. Routers and the inbox write to the outbox, so it
comes after them: what one pass makes it also delivers. None may be registered by users."""

MOVE_BATCH = 1_000
MOVE_TIMEOUT = 300.0
"""Seconds for a pass over messages, each of which has a shorter limit of its own."""
_OFF = "relays are off here (OFFPATH_RELAYS): other workers move messages"


class Messages(Protocol):
    """The relays, drains and routers of an app, by name."""

    def routing(self) -> dict[str, Callable[[], Any]]:
        """Its routers."""
        ...

    def draining(self) -> dict[str, Callable[[], Any]]:
        """A drain for each source with a handler."""
        ...

    def relaying(self) -> dict[str, Callable[[], Any]]:
        """A relay for each stream with a dispatcher, and what posts webhooks."""
        ...


def own_sweeps(
    store: Callable[[], Store],
    settings: Settings,
    redrive: Redrive | None,
    messages: Messages,
    ticker: Callable[[], Ticker],
    report: Report,
) -> tuple[Sweep, ...]:
    """The engine's sweeps, in the order of :data:`OWN`.

    They are set-based transitions of the store, or work under leases, and safe beside themselves,
    so every worker may run them. A started worker has loops of its own for them, since it must
    rescue and prune also where there is no app; ``run_once`` and the command line run these.
    """
    upkeep = upkeep_of(store, settings, redrive, report)
    batch = 100 if redrive is None else redrive.batch

    def moving(name: str, found: Found, absent: str) -> Sweep:
        target = MoveDue(store, Wanting(found, absent, None if settings.relays else _OFF))
        rest = settings.poll_interval
        return _own(name, target, every=rest, limit=MOVE_BATCH, claim_timeout=MOVE_TIMEOUT)

    return (
        _own("rescue", upkeep.rescue, every=0.5, limit=RESCUE_BATCH),
        _own("group_check", upkeep.group_check, every=CHECK_EVERY, limit=CHECK_BATCH),
        _own("schedules", FireDue(ticker), every=1.0, limit=FIRE_BATCH),
        moving("router", messages.routing, "the app has no router: app.router(...)"),
        moving("drain_inbox", messages.draining, "no source has a handler: @app.inbox(...)"),
        moving("relay", messages.relaying, "no stream has a dispatcher: app.outbox(...)"),
        _own("prune", upkeep.prune, every=60.0, limit=PRUNE_BATCH),
        _own("redrive", RedriveDead(store, redrive), every=5.0, limit=batch),
    )


def upkeep_of(
    store: Callable[[], Store], settings: Settings, redrive: Redrive | None, report: Report
) -> Upkeep:
    """The passes that each worker makes for the fleet by its own loops."""
    return Upkeep(
        rescue=Rescue(store, max_deliveries=settings.max_deliveries, keep_dead=settings.keep_dead),
        group_check=CheckGroups(
            store,
            keep_dead=settings.keep_dead,
            keep_cancelled=settings.keep_cancelled,
            report=report,
        ),
        prune=Prune(store, keep_log=settings.keep_log, keep_actions=settings.keep_actions),
        redrive=None if redrive is None else RedriveDead(store, redrive),
    )


def _own(
    name: str, target: object, *, every: float, limit: int, claim_timeout: float = CLAIM_TIMEOUT
) -> Sweep:
    info = SweepInfo(
        name=name,
        every=every,
        limit=limit,
        claim_timeout=claim_timeout,
        shared=True,
        own=True,
        by_rows=False,
    )
    return Sweep(info=info, target=target, driven=False)
