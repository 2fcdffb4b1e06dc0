"""Questions of health: what died lately, who holds a limit, how far behind routers are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.deaths import Deaths, Whose
from offpath.model.limit import LimitHolder
from offpath.model.route import RouterLag
from offpath.store.programs.dialect import Dialect, Steps, one
from offpath.store.programs.instants import readable


def deaths(
    d: Dialect, *, since: datetime | None = None, limit: int = 10_000
) -> Steps[list[Deaths]]:
    """Dead letters by whose they are and name."""
    rows = yield from one(d.sql["deaths"](since=d.at(since), limit=max(limit, 0)))
    return [Deaths(whose=Whose(whose), name=name, count=count) for whose, name, count in rows]


def limit_holders(d: Dialect, keys: Sequence[str]) -> Steps[Sequence[LimitHolder]]:
    """The running job of each of these keys that began last."""
    rows = yield from one(d.sql["limit_holders"](keys=d.batch(list(keys))))
    return [
        LimitHolder(key=key, job=job, task=task, since=readable(started_at))
        for key, job, task, started_at in rows
    ]


def router_lags(d: Dialect) -> Steps[Sequence[RouterLag]]:
    """The time since which each router's oldest committed event has waited."""
    rows = yield from one(d.sql["router_lags"]())
    return [
        RouterLag(router=router, open=bool(opened), oldest_at=readable(oldest_at))
        for router, opened, oldest_at in rows
    ]
