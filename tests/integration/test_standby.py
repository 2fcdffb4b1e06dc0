"""An address that leads to a standby for a while, as in a failover: told, and over with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

import offpath
from offpath import StoreUnavailable
from offpath.store.postgres import PostgresStore
from tests.integration.polling import eventually
from tests.integration.proxy import Proxy
from tests.servers import PostgresCluster

ProxyBefore = Callable[[str], tuple[Proxy, str]]


@pytest.fixture
def standby(cluster: PostgresCluster) -> Iterator[PostgresCluster]:
    """A streaming standby of the module's server."""
    made = cluster.standby()
    yield made
    made.destroy()


@pytest.mark.timeout(180)
async def test_a_failover_is_told_as_read_only_and_leaves_nothing_behind(
    cluster: PostgresCluster,
    standby: PostgresCluster,
    cluster_url: str,
    proxy_before: ProxyBefore,
) -> None:
    proxy, through = proxy_before(cluster_url)
    app = offpath.App(through)
    runs: list[int] = []

    @app.task
    async def note(n: int) -> int:
        runs.append(n)
        return n

    async with app, app.worker(lease_seconds=6) as worker:
        assert await (await note.enqueue(0)).result(timeout=20) == 0
        await eventually(lambda: _replayed(cluster, standby), within=20)
        proxy.lead("127.0.0.1", standby.port)

        job = note.job(1)
        for _ in range(5):
            with pytest.raises(StoreUnavailable, match="read only"):
                await app.enqueue(job)
        await eventually(lambda: not all(one.healthy for one in worker.health()), within=40)

        standby.promote()
        handle = await _enqueued(app, job)
        assert await handle.result(timeout=10) == 1
        await eventually(lambda: all(one.healthy for one in worker.health()), within=20)
        assert runs == [0, 1]
        await eventually(lambda: _all_are_direct(app), within=20)


async def _enqueued(app: offpath.App, job: offpath.Job[int, int]) -> offpath.Handle[int, int]:
    async def sent() -> offpath.Handle[int, int] | None:
        with contextlib.suppress(StoreUnavailable):
            return await app.enqueue(job)
        return None

    handle: offpath.Handle[int, int] = await eventually(sent, within=5)
    return handle


async def _all_are_direct(app: offpath.App) -> bool:
    """True if a connection is trusted as before: its statements are prepared."""
    store = app.store()
    while not isinstance(store, PostgresStore):
        store = store._inner  # type: ignore[attr-defined]
    async with store._database._connection() as connection:
        return connection.direct


def _replayed(cluster: PostgresCluster, standby: PostgresCluster) -> bool:
    import psycopg

    with psycopg.connect(cluster.url, autocommit=True) as primary:
        written = primary.execute("select pg_current_wal_lsn()::text").fetchone()
    assert written is not None
    with psycopg.connect(standby.url, autocommit=True) as other:
        seen = other.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", written).fetchone()
    return seen == (True,)
