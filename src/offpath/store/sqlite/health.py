"""The part of the SQLite store that health asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from offpath.model.deaths import Deaths, Whose
from offpath.model.limit import LimitHolder
from offpath.model.route import RouterLag
from offpath.store.programs.instants import instant, micros
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.part import Part
from offpath.store.sqlite.session import SQL, Session

EVER = -(2**63)
"""Before any time that a row can have."""
_BOXES = {"out": Whose.STREAM, "in": Whose.SOURCE}


class Health(Part):
    """The part of the store that implements :class:`~offpath.store.health.HealthStore`."""

    async def deaths(self, *, since: datetime | None = None, limit: int = 10_000) -> list[Deaths]:
        """Dead letters by whose they are and name."""
        began, most = EVER if since is None else micros(since), max(limit, 0)
        found = await self._read(lambda session: list(_deaths(session, began, most)))
        return sorted(
            (one for one in found if one.count), key=lambda one: (one.whose.value, one.name)
        )

    async def limit_holders(self, keys: Sequence[str]) -> list[LimitHolder]:
        """The running job of each of these keys that began last."""
        query = SQL["limit_holders"](keys=batch(list(keys)))
        rows = await self._read(lambda session: session.run(query))
        last = {row[0]: row for row in reversed(rows)}
        return [
            LimitHolder(key=key, job=row[1], task=row[2], since=instant(row[3]))
            for key, row in sorted(last.items())
        ]

    async def router_lags(self) -> list[RouterLag]:
        """How long the oldest event of each router has waited."""
        rows = await self._read(lambda session: session.run(SQL["router_lags"]()))
        return [
            RouterLag(router=name, open=bool(is_open), oldest_at=instant(at))
            for name, is_open, at in rows
        ]


def _deaths(session: Session, since: int, limit: int) -> Iterator[Deaths]:
    for task, count in session.run(SQL["dead_tasks"](since=since, limit=limit)):
        yield Deaths(whose=Whose.TASK, name=task, count=count)
    for box, stream in session.run(SQL["message_dead_streams"]()):
        query = SQL["dead_messages"](box=box, stream=stream, since=since, limit=limit)
        [[count]] = session.run(query)
        yield Deaths(whose=_BOXES[box], name=stream, count=count)
    for router, count in session.run(SQL["dead_routings"](since=since, limit=limit)):
        yield Deaths(whose=Whose.ROUTER, name=router, count=count)
