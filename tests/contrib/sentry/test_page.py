"""The files of the page as processes, Postgres restarted meanwhile: each death is one error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import offpath
from tests.contrib.processes import Processes, posted, write_files
from tests.contrib.sentry.receiver import Envelopes
from tests.integration.polling import eventually
from tests.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import PostgresCluster

EACH = 5


@pytest.mark.timeout(180)
async def test_each_death_is_told_and_once_where_its_end_was_recorded(
    own_postgres: PostgresCluster, tmp_path: Path
) -> None:
    write_files("sentry.md", tmp_path)
    url, port, envelopes = own_postgres.url, free_port(), Envelopes()
    run = Processes(
        tmp_path,
        {
            "SHOP_URL": url,
            "OFFPATH_POLL_INTERVAL": "0.2",
            "SENTRY_DSN": envelopes.dsn,
            "no_proxy": "127.0.0.1",
        },
    )

    async def place(order: int) -> str:
        body = await posted(f"http://127.0.0.1:{port}/orders/{order}", 201)
        return str(json.loads(body)["job"])

    def told() -> list[str]:
        contexts = [event.get("contexts", {}) for event in envelopes.of("event")]
        return [job for one in contexts for job in one.get("offpath", {}).get("jobs", ())]

    try:
        run.run("-m", "offpath", "migrate", "--url", url)
        run.start("-m", "uvicorn", "service:service", "--port", str(port))
        run.start("-m", "offpath", "worker", "jobs:app")
        dead, after = list[str](), set[str]()
        for restart in (True, False):
            for order in range(EACH):
                await place(order + 1)
                dead.append(await place(0))
            after = set(dead[EACH:])
            if restart:
                own_postgres.restart("immediate")
        async with offpath.App(url, auto_start=False) as app:

            async def done() -> bool:
                counts = [await app.jobs.count(state=one) for one in ("succeeded", "dead")]
                return sum(counts) == await app.jobs.count()

            await eventually(done, within=60, what=f"all jobs end:\n{run.output()}")
            died = [one.id async for one in app.jobs.each(state="dead")]
        # one whose answer was lost in the restart is there too, and died as well
        assert set(died) >= set(dead)
        await eventually(
            lambda: set(told()) >= set(died), within=30, what=f"all errors:\n{run.output()}"
        )
        # an attempt whose end the restart kept from being recorded has failed, too
        assert set(told()) == set(died)
        assert {job for job in died if told().count(job) > 1} <= set(died) - after
    finally:
        run.destroy()
        envelopes.server.shutdown()
        envelopes.server.server_close()
