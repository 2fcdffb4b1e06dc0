"""Every command on a store of some profiles: what it has works, what it lacks is said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from offpath import App
from tests.brokers import Broker
from tests.cli.conftest import Run
from tests.conftest import missing_server
from tests.servers import NoServer


@pytest.fixture(scope="module")
def server() -> Iterator[Broker]:
    """A Redis server of these tests."""
    made = Broker("redis", more=("--appendonly", "no", "--save", ""))
    try:
        made.start()
        yield made
    except NoServer as error:
        missing_server(str(error))
    finally:
        made.destroy()


@pytest.fixture
def url(server: Broker, request: pytest.FixtureRequest) -> str:
    """A store of the test's own on that server."""
    name = "".join(one for one in request.node.name if one.isalnum())
    return f"{server.url}?durability=process&prefix={name}"


class Filled:
    """What lies in the store: ids by what they are of."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    async def fill(self, url: str) -> None:
        """A dead job, one that waits, one that is not due, a schedule, an endpoint, a message."""
        app = App(url, auto_start=False)

        @app.task(queue="mail", retry=1)
        def send(n: int) -> None:
            raise ValueError(n)

        async with app:
            self.ids["dead"] = (await send.enqueue(1)).id
            await app.worker().run_until_idle()
            self.ids["due"] = (await send.enqueue(2)).id
            self.ids["later"] = (await send.options(delay=60).enqueue(3)).id
            await app.schedules.create("nightly", send.job(1), cron="0 3 * * *", zone="UTC")
            self.ids["message"] = await app.publish("orders", {"n": 1})


@pytest.fixture
def filled(url: str) -> Filled:
    made = Filled()
    asyncio.run(made.fill(url))
    return made


WORKS = (
    "status",
    "backends",
    "jobs list",
    "jobs show {dead}",
    "jobs run-now {later}",
    "jobs cancel {due}",
    "jobs redrive {dead}",
    "dead list",
    "dead show {dead}",
    "dead redrive {dead}",
    "dead discard {dead} --yes",
    "groups show {dead}",
    "groups cancel {due}",
    "queues list",
    "queues pause mail",
    "queues resume mail",
    "limits list",
    "schedules list",
    "schedules show nightly",
    "schedules pause nightly",
    "schedules resume nightly",
    "schedules trigger nightly",
    "schedules history nightly",
    "schedules delete nightly --yes",
    "outbox list",
    "outbox show {message}",
    "inbox list",
    "endpoints add shop https://example.org/hook",
    "endpoints list",
    "router list",
    "workers list",
    "sweep list",
    "sweep run rescue",
    "prune",
    "migrate",
    "migrate --check",
)


@pytest.mark.parametrize("words", WORKS)
def test_a_command_on_what_the_store_has_works(
    run: Run, url: str, filled: Filled, words: str
) -> None:
    done = run(*words.format(**filled.ids).split(), "--url", url)
    assert done.exit_code == 0, done.output


LACKS = (
    ("audit list", "audit"),
    ("audit show {dead}", "audit"),
    ("workers quiet {worker}", "requests to workers"),
    ("jobs signal {due} go", "signals"),
    ("limits pause api", "limits"),
    ("ledger prove", "ledger"),
    ("dashboard", "dashboard"),
)


@pytest.mark.parametrize(("words", "told"), LACKS)
def test_a_command_on_what_the_store_lacks_says_so_and_who_has_it(
    run: Run, url: str, filled: Filled, words: str, told: str
) -> None:
    asyncio.run(_register(url, filled))
    done = run(*words.format(**filled.ids).split(), "--url", url)
    assert done.exit_code == 1, done.output
    assert "redis does not offer" in done.output
    assert told in done.output
    assert "capability_missing" in done.output


async def _register(url: str, filled: Filled) -> None:
    async with App(url, auto_start=False) as app, app.worker() as worker:
        filled.ids["worker"] = worker.id


def test_a_change_that_is_not_kept_is_said_to_people_and_not_to_programs(
    run: Run, url: str
) -> None:
    told = run("queues", "pause", "mail", "--url", url)
    assert "not kept: redis has no audit" in told.output
    document = json.loads(run("queues", "resume", "mail", "--url", url, "--json").stdout)
    assert document["ok"] is True


def test_doctor_reads_what_there_is(run: Run, url: str, filled: Filled) -> None:
    done = run("doctor", "--url", url)
    assert done.exit_code == 1, done.output
    problems = [line for line in done.output.splitlines() if line.startswith("problem")]
    assert [line.split()[1] for line in problems] == ["takers"]
    assert "1 of send in queue mail" in problems[0]


def test_status_tells_the_faults_and_what_it_cannot_tell(
    run: Run, url: str, filled: Filled
) -> None:
    lines = run("status", "--url", url).output.splitlines()
    assert any(line.split()[:2] == ["send", "ValueError:"] for line in lines if line)
    assert lines[-1] == "this store keeps no charts, audit or requests"
    document: dict[str, Any] = json.loads(run("status", "--url", url, "--json").stdout)
    assert document["stats"]["kept"] is False
    assert document["faults"]["looked_at"] == 1
