"""The Postgres store's answers to health; each is one statement that reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.deaths import Deaths, Whose
from offpath.model.limit import LimitHolder
from offpath.model.route import RouterLag
from offpath.store.postgres.part import Part
from offpath.store.postgres.steps import moment, readable_time, to_json
from offpath.store.programs.dialect import one


class HealthTables(Part):
    """What health asks of Postgres."""

    async def deaths(self, *, since: datetime | None = None, limit: int = 10_000) -> list[Deaths]:
        """Dead letters by whose they are and name."""
        query = self._sql["deaths"](since=moment(since), limit=max(limit, 0))
        rows = await self._database.write(lambda: one(query))
        return [Deaths(whose=Whose(row[0]), name=row[1], count=row[2]) for row in rows]

    async def limit_holders(self, keys: Sequence[str]) -> list[LimitHolder]:
        """The running job of each of these keys that began last."""
        query = self._sql["limit_holders"](keys=to_json(list(keys)))
        rows = await self._database.write(lambda: one(query))
        return [
            LimitHolder(key=row[0], job=row[1], task=row[2], since=readable_time(row[3]))
            for row in rows
        ]

    async def router_lags(self) -> list[RouterLag]:
        """How long the oldest committed event of each router has waited."""
        rows = await self._database.write(lambda: one(self._sql["router_lags"]()))
        return [
            RouterLag(
                router=row[0],
                open=row[1],
                oldest_at=None if row[2] is None else readable_time(row[2]),
            )
            for row in rows
        ]
