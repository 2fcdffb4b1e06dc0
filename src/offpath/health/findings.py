"""Findings of what stands still on purpose or by mistake, kept in the store with since when.

A closed gate, a full limit and a paused economy are nobody's failure, so nothing turns red
by itself: whoever forgot them finds them here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from offpath.health.definitions import PREFIX, several
from offpath.model.finding import FindingRecord
from offpath.model.limit import ECONOMY_PAUSE, LimitHolder, LimitRecord
from offpath.runtime import log

if TYPE_CHECKING:
    from offpath.config import Settings
    from offpath.health.definitions import Definitions
    from offpath.store.protocol import Store

LOOK_EVERY = timedelta(minutes=1)
"""Between two looks of one worker; each standing finding is one small write."""
CLOSED, FULL, PAUSED = "router.closed.", "limit.full.", "economy.paused"
_log = log.logger("health")
MOST = 1_000
"""Keys of limits that are looked at."""


class Findings:
    """Looks now and then, records what is so, and ends what is not so any more."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        new_id: Callable[[], str],
        defined: Callable[[], Definitions] = dict,
    ) -> None:
        self._store = store
        self._defined = defined
        self._told: frozenset[str] = frozenset()
        self._settings = settings
        self._new_id = new_id
        self._looked_at: datetime | None = None
        self._found: tuple[FindingRecord, ...] = ()

    async def look(self, now: datetime) -> tuple[FindingRecord, ...]:
        """The findings that stand, whoever recorded them. ``now`` is the store's."""
        if self._looked_at is None or now - self._looked_at >= LOOK_EVERY:
            await self._record(now)
            self._found = tuple(await self._store.findings())
            self._looked_at = now
        return self._found

    async def _record(self, now: datetime) -> None:
        store = self._store
        so = {name: text async for name, text in self._so(now)}
        for name, text in so.items():
            await store.record_finding(name, text, new_id=self._new_id())
            if name.startswith(PREFIX) and name not in self._told:
                _log.warning("%s; see: offpath doctor", text)
        self._told = frozenset(so)
        for one in await store.findings():
            if one.name not in so and one.name.startswith((CLOSED, FULL, PAUSED, PREFIX)):
                await store.end_finding(one.name)

    async def _so(self, now: datetime) -> AsyncIterator[tuple[str, str]]:
        """Names and texts. A text says nothing that changes by itself: it is what is accepted."""
        for lag in await self._store.router_lags():
            if not lag.open and _older(lag.oldest_at, now, self._settings.router_age_limit):
                yield f"{CLOSED}{lag.router}", _closed(lag.router)
        for kind, defined in self._defined().items():
            await self._store.declare(kind, defined)
            for name, text in several(kind, await self._store.declarations(kind)):
                yield name, text
        limits = await self._store.limits(limit=MOST)
        for one in limits:
            if one.key == ECONOMY_PAUSE and (one.paused or one.closed_until is not None):
                yield PAUSED, economy_paused(one)
        for holder in await self._holders(limits):
            if _older(holder.since, now, self._settings.job_age_limit):
                yield f"{FULL}{holder.key}", _full(holder)

    async def _holders(self, limits: Sequence[LimitRecord]) -> Sequence[LimitHolder]:
        full = [
            one.key
            for one in limits
            if one.held and one.max_running is not None and one.running >= one.max_running
        ]
        return await self._store.limit_holders(full) if full else ()


def _closed(router: str) -> str:
    return (
        f"events wait for router {router}, whose gate or the master's is closed; "
        f"open it: offpath router enable {router}"
    )


def _full(holder: LimitHolder) -> str:
    return (
        f"limit {holder.key} is full and jobs are held, for those that run do not end; "
        f"the last to begin is job {holder.job} of task {holder.task}"
    )


def economy_paused(limit: LimitRecord) -> str:
    """The pause of an economy, in one line: it is kept as that of a limit's key."""
    if limit.paused or limit.closed_until is None:
        end = "until somebody resumes it"
    else:
        end = f"until {limit.closed_until.isoformat(timespec='seconds')}"
    return f"the economy is paused {end}: none of its sweeps runs; offpath economy resume"


def _older(at: datetime | None, now: datetime, limit: float | None) -> bool:
    return at is not None and limit is not None and (now - at).total_seconds() > limit
