"""The part of the SQLite store that keeps findings."""

from __future__ import annotations

from collections.abc import Iterable

from offpath.model.finding import FindingRecord
from offpath.store.programs.instants import instant
from offpath.store.sql import Row
from offpath.store.sqlite.part import Part
from offpath.store.sqlite.session import SQL, Session


class Findings(Part):
    """The part of the store that implements :class:`~offpath.store.findings.FindingStore`."""

    async def findings(self) -> list[FindingRecord]:
        """Those that stand, by name."""
        return await self._read(lambda session: _records(session.run(SQL["findings"]())))

    async def record_finding(self, name: str, text: str, *, new_id: str) -> FindingRecord:
        """Note that something was found."""

        def record(session: Session) -> FindingRecord:
            now = self._now()
            session.run(SQL["finding_pass"](name=name, text=text, now=now))
            query = SQL["finding_record"](id=new_id, name=name, text=text, now=now)
            return _records(session.run(query))[0]

        return await self._write(record)

    async def end_finding(self, name: str) -> bool:
        """Note that it is not so any more."""

        def end(session: Session) -> bool:
            forgotten = session.run(SQL["finding_forget"](name=name))
            return bool(session.run(SQL["finding_end"](name=name, now=self._now())) or forgotten)

        return await self._write(end)

    async def accept_finding(self, finding: str, reason: str) -> FindingRecord | None:
        """Accept the finding of this id."""

        def accept(session: Session) -> FindingRecord | None:
            query = SQL["finding_accept"](id=finding, reason=reason, now=self._now())
            found = _records(session.run(query))
            return found[0] if found else None

        return await self._write(accept)


def _records(rows: Iterable[Row]) -> list[FindingRecord]:
    return [
        FindingRecord(
            id=row[0],
            name=row[1],
            text=row[2],
            since=instant(row[3]),
            seen_at=instant(row[4]),
            accepted_at=instant(row[5]),
            reason=row[6],
        )
        for row in rows
    ]
