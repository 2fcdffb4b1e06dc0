"""Postgres that goes away, comes back, falls silent, or loses an answer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath import JobState
from offpath.errors import StoreError
from tests.integration import service
from tests.integration.fleet import Fleet
from tests.integration.polling import eventually, window
from tests.integration.proxy import INSERTED
from tests.integration.scale import scaled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.proxy import Proxy
    from tests.servers import PostgresCluster

    MakeApp = Callable[..., offpath.App]
    MakeFleet = Callable[[str], Fleet]
    ProxyBefore = Callable[[str], tuple[Proxy, str]]

RESUMES = 5.0
"""Seconds after the return of the server within which work goes on."""
POLL = 1.0


@pytest.mark.timeout(180)
async def test_a_restart_with_a_hundred_jobs_in_hand_runs_none_twice(
    cluster: PostgresCluster,
    cluster_url: str,
    make_app: MakeApp,
    make_fleet: MakeFleet,
    tmp_path: Path,
) -> None:
    """It frees the locks of all living workers; the other one must not take that for deaths."""
    app = make_app(cluster_url)
    fleet = make_fleet(cluster_url)
    holder = await fleet.up(app)
    handles = await app.enqueue([service.held.job(str(tmp_path / "gate")) for _ in range(100)])
    await eventually(lambda: len(fleet.journal.all("start")) == 100, within=20)
    other = await fleet.up(app)

    cluster.restart()
    await eventually(lambda: _answers(app), within=20)
    # beyond the grace in which missing locks say nothing, both must hold theirs again
    await window(float(scaled(17, 40)))
    living = {one.info.pid for one in await app.workers() if not one.late and one.presence}
    assert living == {holder.pid, other.pid}
    (tmp_path / "gate").touch()
    results = [await handle.result(timeout=20) for handle in handles]
    assert set(results) == {holder.pid}
    assert set(fleet.journal.times("start").values()) == {1}
    assert {(await one.status()).deliveries for one in handles[:5]} == {1}


async def test_jobs_that_fall_due_while_the_server_is_away_run_once_when_it_is_back(
    cluster: PostgresCluster, cluster_url: str, make_app: MakeApp, make_fleet: MakeFleet
) -> None:
    app = make_app(cluster_url)
    fleet = make_fleet(cluster_url)
    worker = await fleet.up(app)
    delayed = service.work.options(delay=1.5)
    handles = await app.enqueue([delayed.job(0.0) for _ in range(20)])
    before = worker.cpu
    cluster.stop()
    away = await window(float(scaled(4, 60)))
    assert (worker.cpu - before) / away < 0.15, "a worker without a server must not spin"
    assert worker.output.count("\n") < 400
    cluster.start()
    back_at = fleet.now()
    await eventually(lambda: len(fleet.journal.all("start")) == 20, within=RESUMES + 5)
    assert fleet.journal.all("start")[-1].at - back_at < RESUMES
    for handle in handles:
        await handle.result(timeout=10)
    assert set(fleet.journal.times("start").values()) == {1}


async def test_connections_that_are_cut_again_and_again_do_not_stop_a_worker(
    pg_url: str, make_app: MakeApp, make_fleet: MakeFleet, proxy_before: ProxyBefore
) -> None:
    proxy, through = proxy_before(pg_url)
    app = make_app(pg_url)
    fleet = make_fleet(through)
    await fleet.up(app)
    for _ in range(5):
        assert proxy.cut() > 0
        accepted = proxy.accepted
        await eventually(lambda seen=accepted: proxy.accepted > seen, within=10)  # type: ignore[misc]
        await window(0.4)
    healed_at = fleet.now()
    handles = await app.enqueue([service.work.job(0.0) for _ in range(20)])
    for handle in handles:
        await handle.result(timeout=20)
    assert fleet.journal.all("start")[-1].at - healed_at < RESUMES
    assert set(fleet.journal.times("start").values()) == {1}


async def test_a_listener_that_is_half_open_costs_at_most_a_poll(
    pg_url: str, make_app: MakeApp, make_fleet: MakeFleet, proxy_before: ProxyBefore
) -> None:
    proxy, through = proxy_before(pg_url)
    app = make_app(pg_url)
    fleet = make_fleet(through)
    await fleet.up(app)
    assert await eventually(lambda: proxy.silence(b"listen"), within=10) == 1
    for _ in range(3):
        sent_at = fleet.now()
        handle = await app.enqueue(service.work.job(0.0))
        begun = await fleet.begun(handle.id)
        assert begun.at - sent_at < POLL + 0.5


async def test_an_enqueue_whose_answer_is_lost_is_repeated_unseen(
    pg_url: str, make_app: MakeApp, proxy_before: ProxyBefore
) -> None:
    proxy, through = proxy_before(pg_url)
    direct, app = make_app(pg_url), make_app(through)
    await app.enqueue(service.child.job())
    job = service.work.job(0.0)
    proxy.lose_commit(job.id.encode(), tag=INSERTED)
    handle = await app.enqueue(job)
    assert proxy.lost_answers == 1
    assert (handle.id, handle.created) == (job.id, False), "it had been done"
    assert (await direct.jobs.get(job.id)).state is JobState.QUEUED
    assert len((await direct.jobs.find(task="work")).items) == 1


async def test_a_settle_whose_answer_is_lost_has_one_effect(
    pg_url: str, make_app: MakeApp, make_fleet: MakeFleet, proxy_before: ProxyBefore
) -> None:
    proxy, through = proxy_before(pg_url)
    app = make_app(pg_url)
    fleet = make_fleet(through)
    await fleet.up(app)
    job = service.work.job(0.5)
    handle = await app.enqueue(job)
    await fleet.begun(job.id)
    proxy.lose_commit(job.id.encode())
    await handle.result(timeout=20)
    await eventually(lambda: proxy.lost_answers, within=10)
    again = await app.enqueue(service.work.job(0.0))
    await again.result(timeout=20)
    children = (await app.jobs.find(task="child")).items
    assert Counter(one.parent for one in children) == {job.id: 1, again.id: 1}
    record = await handle.status()
    assert (record.state, record.deliveries, record.losses) == (JobState.SUCCEEDED, 1, 0)
    assert fleet.journal.times("start")[job.id] == 1


async def _answers(app: offpath.App) -> bool:
    try:
        await app.store().ping()
    except StoreError:
        return False
    return True
