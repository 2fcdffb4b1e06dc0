"""The files of the page as processes, with Postgres restarted meanwhile: each line has its job."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

import offpath
from tests.contrib.processes import Processes, posted, write_files
from tests.integration.polling import eventually
from tests.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import PostgresCluster

EACH = 10
LINE = re.compile(r"^receipt \d+ job=(\S+) request=(\S+)$", re.MULTILINE)


@pytest.mark.timeout(180)
async def test_each_line_of_a_handler_has_its_job_and_request_whatever_was_restarted(
    own_postgres: PostgresCluster, tmp_path: Path
) -> None:
    write_files("logs.md", tmp_path)
    url, port = own_postgres.url, free_port()
    run = Processes(tmp_path, {"SHOP_URL": url, "OFFPATH_POLL_INTERVAL": "0.2"})

    async def place(order: int) -> tuple[str, str]:
        body = await posted(f"http://127.0.0.1:{port}/orders/{order}", 201)
        found = json.loads(body)
        return found["job"], found["request"]

    try:
        run.run("-m", "offpath", "migrate", "--url", url)
        run.start("-m", "uvicorn", "service:service", "--port", str(port))
        run.start("-m", "offpath", "worker", "jobs:app")
        placed = [await place(order) for order in range(EACH)]
        own_postgres.restart("immediate")
        placed += [await place(order) for order in range(EACH)]
        async with offpath.App(url, auto_start=False) as app:

            async def done() -> bool:
                return await app.jobs.count(state="succeeded") == await app.jobs.count()

            await eventually(done, within=60, what=f"all jobs end well:\n{run.output()}")
            jobs = {one.id async for one in app.jobs.each()}
        web, worker = (tmp_path / f"process-{number}.log" for number in range(2))
        said = LINE.findall(worker.read_text())  # a handler may have run twice
        assert {job for job, _ in said} == jobs
        assert set(said) >= set(placed)
        assert len(set(said)) == len(jobs)
        assert web.read_text().count("job=None request=None") >= 2 * EACH
    finally:
        run.destroy()
