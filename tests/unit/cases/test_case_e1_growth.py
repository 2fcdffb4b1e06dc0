"""E1: with default settings, what a store keeps levels off under steady load."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from offpath import App
from offpath.runtime.clock import ManualClock

_DAY = 86_400.0
_DAYS = 45
_LEVEL = 31
"""Days after which nothing may grow: dead jobs are kept for 30."""


def _rows(path: Path) -> int:
    """Every row of every table but the list of schema steps."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("select name from sqlite_master where type = 'table'")
        names = [name for (name,) in found.fetchall() if name != "offpath_migration"]
        assert len(names) >= 5
        counts = (connection.execute(f'select count(*) from "{name}"') for name in names)
        return sum(int(count.fetchone()[0]) for count in counts)


async def _daily(app: App, clock: ManualClock, size: Callable[[], int] | None) -> list[int]:
    @app.task
    async def good(number: int) -> int:
        return number

    @app.task(retry=1)
    async def bad() -> None:
        raise ValueError("always")

    kept: list[int] = []
    for day in range(_DAYS):
        later = good.options(delay=_DAY).job(day)
        await app.enqueue([good.options(unique=f"day-{day}").job(day), bad.job(), later])
        await app.jobs.cancel(later.id)
        await app.worker().run_until_idle()
        clock.advance(_DAY)
        await app.store().prune(limit=1_000)
        kept.append(size() if size else await app.jobs.count())
    assert await app.workers() == []
    return kept


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_rows_level_off_with_default_settings(kind: str, tmp_path: Path) -> None:
    path, clock = tmp_path / "jobs.db", ManualClock()
    url = f"sqlite:///{path}" if kind == "sqlite" else "memory://"
    async with App(url, auto_start=False, clock=clock) as app:
        waiting = await app.publish("kept", {"until": "relayed"})
        kept = await _daily(app, clock, (lambda: _rows(path)) if kind == "sqlite" else None)
        assert kept[:6] == sorted(set(kept[:6]))
        assert kept[_LEVEL:] == [kept[_LEVEL]] * (_DAYS - _LEVEL)
        assert (await app.messages.get(waiting)).state == "pending"
