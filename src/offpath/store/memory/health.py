"""The parts of the memory store for health: its reads, its findings, and declared definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from offpath.model.checks import MOST_LISTED
from offpath.model.deaths import Deaths, Whose
from offpath.model.declaration import KEEP, LIVE, Declaration
from offpath.model.finding import FindingRecord
from offpath.model.job import JobState
from offpath.model.limit import LimitHolder
from offpath.model.message import Box
from offpath.model.route import RouterLag
from offpath.store.memory.part import MemoryPart
from offpath.store.memory.routers import oldest_unpassed

_MOST_FINDINGS: Final = 1000


class MemoryHealth(MemoryPart):
    """A :class:`~offpath.store.health.HealthStore`. No method waits, so each is one step."""

    async def deaths(self, *, since: datetime | None = None, limit: int = 10_000) -> list[Deaths]:
        """Dead letters by whose they are and name."""
        found = Counter(
            (whose, name) for whose, name, at in self._dead() if since is None or at >= since
        )
        return [
            Deaths(whose=whose, name=name, count=min(count, limit))
            for (whose, name), count in sorted(found.items())
        ]

    async def limit_holders(self, keys: Sequence[str]) -> list[LimitHolder]:
        """The running job of each of these keys that began last."""
        found = (self._holder(key) for key in sorted(set(keys)))
        return [one for one in found if one is not None]

    async def router_lags(self) -> list[RouterLag]:
        """The time for which the oldest committed event of each router has waited."""
        tables = self._tables
        return [
            RouterLag(
                router=name,
                open=router.record.open and tables.routers.master,
                oldest_at=oldest_unpassed(tables.log, router),
            )
            for name, router in sorted(tables.routers.rows.items())[:1_000]
        ]

    def _holder(self, key: str) -> LimitHolder | None:
        rows = self._tables.limits.rows
        lines = (key, *rows[key].lines) if key in rows else ()
        running = [self._tables.jobs[each] for line in lines for each in rows[line].running]
        began = [(job.started_at, job) for job in running if job.started_at is not None]
        if not began:
            return None
        # The id decides between equal times, since the jobs come from a set in any order.
        since, job = max(began, key=lambda pair: (pair[0], pair[1].id))
        return LimitHolder(key=key, job=job.id, task=job.task, since=since)

    def _dead(self) -> Iterator[tuple[Whose, str, datetime]]:
        tables = self._tables
        for job in tables.jobs.values():
            if job.state is JobState.DEAD and job.finished_at is not None:
                yield Whose.TASK, job.task, job.finished_at
        for (box, stream), ids in tables.mailbox.dead.items():
            whose = Whose.STREAM if box is Box.OUT else Whose.SOURCE
            for each in ids:
                if (at := tables.mailbox.rows[each].finished_at) is not None:
                    yield whose, stream, at
        for letter in tables.routers.letters.values():
            if letter.resolved_at is None and letter.created_at is not None:
                yield Whose.ROUTER, letter.router, letter.created_at


class MemoryFindings(MemoryPart):
    """A :class:`~offpath.store.health.FindingStore`. No method waits, so each is one step."""

    async def findings(self) -> list[FindingRecord]:
        """The findings that stand, by name."""
        standing = self._tables.findings
        return [standing[name] for name in sorted(standing)[:_MOST_FINDINGS]]

    async def record_finding(self, name: str, text: str, *, new_id: str) -> FindingRecord:
        """Note that something was found."""
        standing, now = self._tables.findings, self._clock.now()
        known = standing.get(name)
        if known is None or (known.accepted_at is not None and known.text != text):
            found = FindingRecord(id=new_id, name=name, text=text, since=now, seen_at=now)
        else:
            found = replace(known, text=text, seen_at=now)
        standing[name] = found
        return found

    async def end_finding(self, name: str) -> bool:
        """Note that it is not so any more; with the process ends what is kept for audits too."""
        return self._tables.findings.pop(name, None) is not None

    async def accept_finding(self, finding: str, reason: str) -> FindingRecord | None:
        """Accept the finding of this id."""
        standing = self._tables.findings
        known = next((one for one in standing.values() if one.id == finding), None)
        if known is not None and known.accepted_at is None:
            known = replace(known, accepted_at=self._clock.now(), reason=reason)
            standing[known.name] = known
        return known


class MemoryDeclarations(MemoryPart):
    """A :class:`~offpath.store.health.DeclarationStore`. No method waits."""

    async def declare(self, kind: str, definitions: Mapping[str, str]) -> frozenset[str]:
        """Note what is defined; the names that are overruled."""
        rows, now = self._tables.declarations, self._clock.now()
        for name, text in definitions.items():
            made = Declaration(name=name, fingerprint=text, first_seen=now, last_seen=now)
            known = rows.get((kind, name, text), made)
            # A clock that was put back must not make a definition look older than it is.
            rows[kind, name, text] = replace(known, last_seen=max(known.last_seen, now))
        overruled = frozenset(
            name for name, text in definitions.items() if self._newest(kind, name) != text
        )
        old = now - timedelta(seconds=KEEP)
        for key, row in list(rows.items()):
            if key[0] == kind and row.last_seen < old:
                del rows[key]
        return overruled

    async def declarations(self, kind: str) -> list[Declaration]:
        """The recent declarations, by name, the newest first."""
        live = self._live(kind)
        live.sort(key=lambda row: (row.first_seen, row.fingerprint), reverse=True)
        return sorted(live, key=lambda row: row.name)[:MOST_LISTED]

    def _live(self, kind: str) -> list[Declaration]:
        since = self._clock.now() - timedelta(seconds=LIVE)
        rows = self._tables.declarations
        return [row for key, row in rows.items() if key[0] == kind and row.last_seen > since]

    def _newest(self, kind: str, name: str) -> str:
        live = [row for row in self._live(kind) if row.name == name]
        return max(live, key=lambda row: (row.first_seen, row.fingerprint)).fingerprint
