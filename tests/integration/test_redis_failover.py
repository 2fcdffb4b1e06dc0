"""A Redis primary that dies while workers run, and a replica that takes its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import offpath
from offpath import JobState
from offpath.errors import StoreUnavailable
from tests.brokers import Broker
from tests.integration import service
from tests.integration.fleet import Fleet
from tests.integration.polling import eventually
from tests.integration.proxy import Proxy
from tests.integration.redis_servers import (
    ALWAYS,
    Servers,
    client,
    killed,
    on_both,
    replica_of,
    started,
)

JOBS = 60


def promote(replica: Broker, others: list[Broker]) -> None:
    """A replica becomes the primary of the others."""
    with client(replica) as promoting:
        promoting.replicaof("no", "one")
    for each in others:
        with client(each) as following:
            following.replicaof("127.0.0.1", str(replica.port))


@on_both
async def test_workers_go_on_at_a_promoted_replica_and_nothing_that_was_waited_for_is_lost(
    servers: Servers, make_fleet: Callable[[str], Fleet], make_app: Callable[..., offpath.App]
) -> None:
    primary = started(servers, *ALWAYS)
    replicas = [replica_of(servers, primary) for _ in range(2)]
    with Proxy("127.0.0.1", primary.port) as proxy:
        place = urlsplit(primary.url)._replace(netloc=f"127.0.0.1:{proxy.port}", query="wait=1")
        app, fleet = make_app(place.geturl()), make_fleet(place.geturl())
        await app.open()
        workers = [await fleet.up(app, lease_seconds=30) for _ in range(2)]
        acknowledged = {each.id for each in await app.enqueue(_jobs())}
        begun = fleet.journal
        await eventually(lambda: len(begun.times("start")) > JOBS // 4, within=60)
        killed(primary)
        promote(replicas[0], replicas[1:])
        proxy.lead("127.0.0.1", replicas[0].port)
        more = _jobs()

        async def acknowledged_too() -> bool:
            try:
                return len(await app.enqueue(more)) == JOBS
            except StoreUnavailable:  # the other replica does not follow yet
                return False

        await eventually(acknowledged_too, within=60, what="a write is confirmed again")
        acknowledged |= {each.id for each in more}
        await eventually(lambda: _all_ended(app), within=60, what="every job has ended")
        states = Counter([(await app.jobs.get(each)).state for each in acknowledged])
        assert states == {JobState.SUCCEEDED: 2 * JOBS}
        assert max(fleet.journal.times("recorded-succeeded").values()) == 1
        # a failover is not a death: who worked before goes on
        assert all(each.popen.poll() is None for each in workers)
        assert {each.info.pid for each in await app.workers() if not each.late} == {
            each.pid for each in workers
        }


def _jobs() -> list[offpath.Job[Any, Any]]:
    return [service.work.job(0.05) for _ in range(JOBS)]


async def _all_ended(app: offpath.App) -> bool:
    try:
        return not await app.jobs.count(state=[JobState.QUEUED, JobState.RUNNING])
    except StoreUnavailable:
        return False
