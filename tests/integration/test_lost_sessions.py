"""Sessions that all end at once: that others are missing then proves nothing against them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psycopg
import pytest

import offpath
from tests.integration import service
from tests.integration.fleet import Fleet
from tests.integration.polling import eventually, window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.integration.fleet import WorkerProcess
    from tests.integration.proxy import Proxy
    from tests.servers import PostgresCluster

    MakeApp = Callable[..., offpath.App]
    MakeFleet = Callable[[str], Fleet]
    ProxyBefore = Callable[[str], tuple[Proxy, str]]
    Handles = Sequence[offpath.Handle[int, int]]

GRACE = 15.0
"""Seconds after the server's start in which no lock is judged; the tests begin behind it."""
LOOKS = 3.0
"""Seconds in which the others look some times, while the first one is not back yet."""
LISTENERS = """
    select l.pid from pg_locks l
    where l.locktype = 'advisory' and l.database =
        (select oid from pg_database where datname = current_database())
"""


@pytest.mark.timeout(180)
async def test_a_crash_of_one_server_process_ends_all_sessions_and_no_job_runs_twice(
    cluster: PostgresCluster,
    cluster_url: str,
    make_app: MakeApp,
    make_fleet: MakeFleet,
    proxy_before: ProxyBefore,
    tmp_path: Path,
) -> None:
    """The server runs on as before by its own word, and nobody's lock is there any more."""
    proxy, through = proxy_before(cluster_url)
    app, far, near = make_app(cluster_url), make_fleet(through), make_fleet(cluster_url)
    holder = await far.up(app)
    handles = await _held(app, far, tmp_path / "gate")
    await near.up(app)
    await eventually(lambda: _age(cluster.url) > GRACE + 1, within=GRACE + 10)

    proxy.refuse()  # this one comes back last
    _crash(cluster.url)
    await eventually(lambda: _answers(cluster.url), within=20)
    await near.up(app)  # it was never cut itself
    await window(LOOKS)
    proxy.heal()
    await _runs_once(handles, far, holder, tmp_path / "gate")


@pytest.mark.timeout(120)
async def test_who_was_cut_off_itself_takes_nobody_for_dead_who_is_slower_to_come_back(
    pg_url: str,
    make_app: MakeApp,
    make_fleet: MakeFleet,
    proxy_before: ProxyBefore,
    tmp_path: Path,
) -> None:
    away, through = proxy_before(pg_url)
    back, through_other = proxy_before(pg_url)
    app, far, near = make_app(pg_url), make_fleet(through), make_fleet(through_other)
    holder = await far.up(app)
    handles = await _held(app, far, tmp_path / "gate")
    await near.up(app)

    away.refuse()
    back.cut()
    await window(LOOKS)
    away.heal()
    await _runs_once(handles, far, holder, tmp_path / "gate")


@pytest.mark.timeout(120)
async def test_a_cut_just_as_the_loop_is_blocked_costs_no_job(
    pg_url: str, make_app: MakeApp, make_fleet: MakeFleet, tmp_path: Path
) -> None:
    """The loop cannot connect again, and the others look twice within half a second."""
    app, fleet = make_app(pg_url), make_fleet(pg_url)
    await app.open()
    holder = await fleet.up(app)
    (listener,) = _asked(pg_url, LISTENERS)
    handles = await _held(app, fleet, tmp_path / "gate")
    await fleet.up(app, "--queues", "elsewhere")  # it looks after the fleet, and takes no job
    blocker = await app.enqueue(service.blocking.job(str(tmp_path / "gate")))
    await fleet.begun(blocker.id)
    assert _asked(pg_url, f"select pg_terminate_backend({listener})") == [True]
    await window(LOOKS)
    await _runs_once([*handles, blocker], fleet, holder, tmp_path / "gate")


async def _held(app: offpath.App, fleet: Fleet, gate: Path) -> Handles:
    await app.open()
    handles = await app.enqueue([service.held.job(str(gate)) for _ in range(5)])
    for one in handles:
        await fleet.begun(one.id)
    return handles


async def _runs_once(handles: Handles, fleet: Fleet, holder: WorkerProcess, gate: Path) -> None:
    gate.touch()
    assert {await one.result(timeout=30) for one in handles} == {holder.pid}
    assert {fleet.journal.times("start")[one.id] for one in handles} == {1}
    assert {(await one.status()).deliveries for one in handles} == {1}


def _asked(url: str, question: str) -> list[object]:
    with psycopg.connect(url, autocommit=True) as connection:
        return [value for (value,) in connection.execute(question.encode())]


def _age(url: str) -> float:
    """Seconds since the server was started."""
    (age,) = _asked(
        url,
        "select extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float",
    )
    assert isinstance(age, float)
    return age


def _crash(url: str) -> None:
    """Kill one of the server's processes: the others end, and the server recovers."""
    with psycopg.connect(url, autocommit=True) as victim:
        os.kill(victim.info.backend_pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            while True:
                victim.execute("select 1")


def _answers(url: str) -> bool:
    try:
        return _asked(url, "select 1") == [1]
    except psycopg.OperationalError:
        return False
