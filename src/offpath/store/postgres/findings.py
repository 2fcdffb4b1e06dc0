"""The store's part for findings; each method is one transaction."""

from __future__ import annotations

from typing import Final

import msgspec

from offpath.model.finding import FindingRecord
from offpath.store.postgres.part import Part
from offpath.store.postgres.steps import moment
from offpath.store.programs.dialect import Send, Steps, one
from offpath.store.sql import Catalogue, Query

_records: Final = msgspec.json.Decoder(list[FindingRecord])


class FindingTables(Part):
    """Findings on Postgres."""

    async def findings(self) -> list[FindingRecord]:
        """Those that stand, by name."""
        return await self._found(self._sql["findings"]())

    async def record_finding(self, name: str, text: str, *, new_id: str) -> FindingRecord:
        """Note that something was found."""
        now = moment(self._now())
        return await self._database.write(lambda: _recorded(name, text, new_id, now, sql=self._sql))

    async def end_finding(self, name: str) -> bool:
        """Note that it is not so any more."""
        query = self._sql["end_finding"](name=name, now=moment(self._now()))
        ((ended,),) = await self._database.write(lambda: one(query))
        return bool(ended)

    async def accept_finding(self, finding: str, reason: str) -> FindingRecord | None:
        """Accept the finding of this id."""
        now = moment(self._now())
        query = self._sql["accept_finding"](id=finding, reason=reason, now=now)
        found = await self._found(query)
        return found[0] if found else None

    async def _found(self, query: Query) -> list[FindingRecord]:
        rows = await self._database.write(lambda: one(query))
        return _records.decode(rows[0][0])


def _recorded(
    name: str, text: str, new_id: str, now: str | None, *, sql: Catalogue
) -> Steps[FindingRecord]:
    """Two statements, since the second one must see that the first has ended an accepted one."""
    _, rows = yield Send(
        (
            sql["pass_finding"](name=name, text=text, now=now),
            sql["record_finding"](name=name, text=text, id=new_id, now=now),
        ),
        last=True,
    )
    return _records.decode(rows[0][0])[0]
