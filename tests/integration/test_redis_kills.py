"""Workers and their Redis server, killed at random: nothing acknowledged is lost or doubled."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import offpath
from offpath import JobState
from offpath.errors import StoreUnavailable
from tests.brokers import Broker
from tests.conftest import missing_server
from tests.integration import service
from tests.integration.fleet import Fleet, WorkerProcess
from tests.integration.polling import eventually
from tests.integration.scale import scaled
from tests.servers import NoServer

KILLS = scaled(6, 1000)
AT_ONCE = 10
"""Jobs that are enqueued between two kills."""


@pytest.fixture
def server() -> Iterator[Broker]:
    """A server that has each write on its disk when it answers."""
    broker = Broker("redis", more=("--appendfsync", "always"))
    try:
        broker.start()
        yield broker
    except NoServer as error:
        missing_server(str(error))
    finally:
        broker.destroy()


@pytest.mark.timeout(scaled(300, 20_000))
async def test_kills_of_workers_and_server_lose_nothing_and_record_nothing_twice(
    server: Broker, make_fleet: Callable[[str], Fleet], make_app: Callable[..., offpath.App]
) -> None:
    fleet, app = make_fleet(server.url), make_app(server.url)
    await app.open()
    workers = [_start(fleet), _start(fleet)]
    chance = random.Random(11)
    acknowledged = set[str]()
    for number in range(1, KILLS + 1):
        acknowledged |= await _enqueued(app)
        mark = len(acknowledged) - AT_ONCE // 2
        await eventually(
            lambda mark=mark: len(fleet.journal.times("start")) >= mark,  # type: ignore[misc]
            within=120,
            what=f"{mark} jobs have begun",
        )
        if number % 3 == 0:
            _restart(server)
        else:
            place = chance.randrange(2)
            workers[place].kill()
            workers[place] = _start(fleet)

    await eventually(lambda: _all_ended(app), within=120)
    states = Counter([(await app.jobs.get(each)).state for each in acknowledged])
    assert states == {JobState.SUCCEEDED: KILLS * AT_ONCE}
    assert max(fleet.journal.times("recorded-succeeded").values()) == 1
    # what a run leaves behind is written with its end: a second recording would leave a second
    parents = Counter[str | None]()
    async for child in app.jobs.each(task="child"):
        parents[child.parent] += 1
    assert parents == Counter(acknowledged)


def _start(fleet: Fleet) -> WorkerProcess:
    return fleet.start(
        "--concurrency", "4", max_deliveries=1000, poll_interval=0.5, lease_seconds=3
    )


async def _enqueued(app: offpath.App) -> set[str]:
    """The ids of new jobs, once they are acknowledged: until then the same call is repeated."""
    jobs = [service.work.job(0.02) for _ in range(AT_ONCE)]

    async def acknowledged() -> set[str]:
        try:
            return {handle.id for handle in await app.enqueue(jobs)}
        except StoreUnavailable:  # it reads its log again, which takes as long as that is
            return set()

    found: set[str] = await eventually(acknowledged, within=120, what="the server is back")
    return found


def _restart(server: Broker) -> None:
    assert server.process is not None
    server.process.kill()
    server.process.wait(30)
    server.start()


async def _all_ended(app: offpath.App) -> bool:
    try:
        return not await app.jobs.count(state=[JobState.QUEUED, JobState.RUNNING])
    except StoreUnavailable:
        return False
