"""Behind a real PgBouncer: what another program leaves in its sessions changes nothing of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import offpath
from offpath import JobState, StoreUnavailable
from offpath.errors import StoreError
from tests.conftest import missing_server
from tests.integration.polling import eventually
from tests.integration.scale import scaled
from tests.pgbouncer import PACKAGE, Pooler, pgbouncer

JOBS = scaled(200, 1_500)
FANS = scaled(6, 30)
SPOILT = 40
"""Times that somebody leaves a session as it should not be."""
LEFT = (
    "set search_path = nowhere",
    "set TimeZone = 'Asia/Kathmandu'",
    "set DateStyle = 'German, DMY'",
    "set IntervalStyle = 'sql_standard'",
    "set default_transaction_read_only = on",
    "set default_transaction_isolation = 'serializable'",
    "set statement_timeout = '1ms'",
    "set row_security = off",
)
Starts = Callable[[str], str]


@pytest.fixture
def pooled(pg_url: str) -> Iterator[Starts]:
    """``pooled(mode)``: the URL of the database through a pooler of that mode."""
    program = pgbouncer()
    if program is None:
        missing_server(f"pgbouncer is not installed: apt-get install {PACKAGE}")
    made: list[Pooler] = []

    def start(mode: str) -> str:
        made.append(Pooler(program, pg_url, mode=mode))
        made[-1].start()
        return made[-1].url(pg_url)

    yield start
    for pooler in made:
        pooler.destroy()


async def spoil(url: str) -> None:
    """Leave the pooler's sessions as another program might."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None)
    async with connection:
        for number in range(SPOILT):
            await connection.execute(LEFT[number % len(LEFT)].encode())
            await asyncio.sleep(0)


def tasks_of(app: offpath.App, ran: list[tuple[int, datetime]]) -> tuple[Any, Any]:
    @app.task
    async def keep(number: int, at: datetime) -> datetime:
        ran.append((number, at))
        return at

    @app.task
    async def fan(ctx: offpath.Context, number: int) -> Any:
        members = [keep.job(number + n, START + timedelta(microseconds=n)) for n in range(3)]
        return ctx.queue(*members)

    return keep, fan


START = datetime(2026, 3, 29, 0, 59, 59, 999_999, tzinfo=UTC)


@pytest.mark.timeout(300)
async def test_sessions_that_others_left_otherwise_change_nothing(
    pooled: Starts, pg_url: str
) -> None:
    """Transaction pooling, four connections, two workers, and one who spoils the sessions."""
    url = pooled("transaction")
    ran: list[tuple[int, datetime]] = []
    apps = [offpath.App(url, auto_start=False) for _ in range(2)]
    (keep, fan), _ = [tasks_of(app, ran) for app in apps]
    async with apps[0], apps[1], apps[0].worker(), apps[1].worker():
        spoiling = asyncio.create_task(spoil(url))
        times = {number: START + timedelta(microseconds=number) for number in range(JOBS)}
        handles = await apps[0].enqueue([keep.job(number, at) for number, at in times.items()])
        fans = await apps[0].enqueue([fan.job(1_000_000 + 10 * n) for n in range(FANS)])
        await spoiling
        assert await asyncio.gather(*(one.result(timeout=200) for one in handles)) == list(
            times.values()
        )
        await asyncio.gather(*(one.result(timeout=200) for one in fans))
        await eventually(lambda: len(ran) >= JOBS + 3 * FANS, within=60)
    assert {number: at for number, at in ran if number < JOBS} == times
    assert len(ran) == JOBS + 3 * FANS, "each ran once"
    with psycopg.connect(pg_url) as direct:
        states = direct.execute("select state, count(*) from offpath.job group by 1").fetchall()
    assert states == [(JobState.SUCCEEDED.value, JOBS + 4 * FANS)]


async def test_behind_statement_pooling_nothing_is_written(pooled: Starts, pg_url: str) -> None:
    """No transaction can be kept together there: the caller is told, and no half of one is left."""
    app = offpath.App(pooled("statement"), auto_start=False)
    keep, _ = tasks_of(app, [])
    with pytest.raises(StoreError, match="Set pool_mode = transaction") as told:
        async with app:
            await keep.enqueue(1, START)
    assert not isinstance(told.value, StoreUnavailable), "to wait does not help"
    with psycopg.connect(pg_url) as direct:
        assert direct.execute("select count(*) from offpath.job").fetchall() == [(0,)]
