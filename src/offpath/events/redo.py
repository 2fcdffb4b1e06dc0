"""Decisions that were only logged, made again: what a dry run decided is sent once it is live."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import structs

from offpath.errors import InvalidArgument
from offpath.events.delivery_claim import ClaimLost, DeliveryClaim
from offpath.events.router_run import closed_gate
from offpath.events.router_step import REFUSED, Courier, RouterStep, letter_of
from offpath.model.effects import NOTHING
from offpath.model.route import Attempt, AttemptStatus, LogEvent, RouterRecord
from offpath.model.route_decision import decide
from offpath.model.tally import Tally
from offpath.runtime.ids import derive_id

if TYPE_CHECKING:
    from offpath.events.source import EventSource
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

LOGGED: Final = (AttemptStatus.DRY_RUN, AttemptStatus.SKIPPED, AttemptStatus.DISABLED)
"""The statuses of attempts after which nothing was sent, and nothing failed."""
PAGE: Final = 100
"""Events that are decided, delivered and recorded before the next are read."""


def logged(status: str | Sequence[str]) -> tuple[AttemptStatus, ...]:
    """The statuses that are meant. Raises ``InvalidArgument`` for others."""
    wanted = (status,) if isinstance(status, str) else tuple(status)
    known = {one.value: one for one in LOGGED}
    if not wanted or (odd := [one for one in wanted if one not in known]):
        asked = ", ".join(str(one)[:40] for one in odd) if wanted else "none"
        raise InvalidArgument(
            f"redo takes events whose last attempt is {', '.join(known)}, not {asked}: a failed "
            "one has a dead letter, which redrive delivers again"
        )
    return tuple(known[one] for one in dict.fromkeys(wanted))


class Redoer:
    """Walks the last attempts that were only logged, and decides about their events anew."""

    def __init__(
        self,
        store: Store,
        courier: Courier,
        new_id: Callable[[], str],
        source: EventSource | None,
        clock: Clock,
    ) -> None:
        self._store = store
        self._courier = courier
        self._new_id = new_id
        self._source = source
        self._clock = clock
        self._buckets: defaultdict[str, list[str]] = defaultdict(list)

    async def redo(
        self,
        record: RouterRecord,
        statuses: Sequence[AttemptStatus],
        since: datetime | None,
        limit: int,
    ) -> Tally:
        """Decide about them, the first in the log first, until ``limit`` got another decision."""
        if (gate := closed_gate(record)) is not None:
            return Tally(skipped=gate)
        left, after = limit, None
        while left > 0:
            page = await self._store.redoable(
                record.name, statuses, since=since, after=after, limit=min(left, PAGE)
            )
            if not page:
                break
            after = page[-1].position, page[-1].event
            left -= await self._page(record, page)
        buckets = {name: tuple(ids) for name, ids in self._buckets.items()}
        return Tally(buckets=buckets, more=left <= 0)

    async def _page(self, record: RouterRecord, page: Sequence[Attempt]) -> int:
        """Decide a page again, one key's events in their order. Returns the number of decisions."""
        events = await self._events([one.event for one in page])
        lanes: defaultdict[str, list[RouterStep]] = defaultdict(list)
        for last in page:
            if (step := self._decided(record, last, events.get(last.event))) is not None:
                lanes[step.event.key or step.event.id].append(step)
        slots = asyncio.Semaphore(self._courier.concurrency)
        lines = (self._lane(lane, slots) for lane in lanes.values())
        for ended in await asyncio.gather(*lines, return_exceptions=True):
            if ended is not None:  # the others have come to their end
                raise ended
        return sum(map(len, lanes.values()))

    async def _lane(self, lane: Sequence[RouterStep], slots: asyncio.Semaphore) -> None:
        for step in lane:
            async with slots:
                self._buckets[await self._redone(step)].append(step.event.id)

    async def _redone(self, step: RouterStep) -> str:
        """Deliver one event; the bucket that it belongs in."""
        claim = self._claim(step)
        if not await claim.taken():
            return "busy"
        try:
            (done,) = await claim.during(self._courier.deliver([step]))
        except ClaimLost:
            return "busy"
        return await self._recorded(done)

    async def _events(self, ids: Sequence[str]) -> dict[str, LogEvent]:
        if self._source is not None:
            return await self._source.find(self._store, ids)
        return {one.id: one for one in await self._store.find_events(ids)}

    def _decided(
        self, record: RouterRecord, last: Attempt, event: LogEvent | None
    ) -> RouterStep | None:
        """The event with its next attempt; None when there is nothing to change."""
        if event is None:
            self._buckets["gone"].append(last.event)
            return None
        event = structs.replace(event, position=last.position)
        new = decide(event, record.routes, gates=record)
        if (new.status, new.route) == (last.status, last.route):
            self._buckets["unchanged"].append(last.event)
            return None
        return RouterStep(event, structs.replace(new, number=last.number + 1))

    def _claim(self, step: RouterStep) -> DeliveryClaim:
        """This pass's claim of an event; another pass's is in its way."""
        one = step.attempt
        name = f"offpath.redo:{one.router}:{one.event}:{one.number}"
        patience = self._courier.patience
        return DeliveryClaim(
            self._store, name, self._new_id(), patience=patience, clock=self._clock
        )

    async def _recorded(self, step: RouterStep) -> str:
        """Write how one went; the bucket that it belongs in."""
        try:
            written = await self._record(step)
        except REFUSED as error:
            step = step.failed(error)
            written = await self._record(step)
        return step.attempt.status.value if written else "busy"

    async def _record(self, step: RouterStep) -> bool:
        failed = step.error is not None
        letter = letter_of(step, _letter_id(step.attempt.number)) if failed else None
        effects = NOTHING if failed else step.effects
        return await self._store.record_redo(step.attempt, letter, effects)


def _letter_id(number: int) -> Callable[[str, str], str]:
    """Names a letter apart from those of earlier attempts, which may be resolved."""
    return lambda event, router: derive_id(event, f"{router}:{number}")
