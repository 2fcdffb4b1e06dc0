"""The files of the page, as processes, with Postgres restarted in the middle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import offpath
from tests.contrib.processes import Processes, posted, write_files
from tests.contrib.urls import run_sql
from tests.integration.polling import eventually
from tests.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import PostgresCluster

EACH = 25
"""Orders before the restart, and after it."""


@pytest.mark.timeout(180)
async def test_every_order_has_its_receipt_whatever_was_restarted(
    own_postgres: PostgresCluster, tmp_path: Path
) -> None:
    write_files("fastapi.md", tmp_path)
    url, port = own_postgres.url, free_port()
    run = Processes(tmp_path, {"DATABASE_URL": url, "OFFPATH_POLL_INTERVAL": "0.2"})
    try:
        run.run("-m", "offpath", "migrate", "--url", url)
        run.start("-m", "uvicorn", "web:api", "--port", str(port))
        run.start("-m", "offpath", "worker", "web:api")
        home = f"http://127.0.0.1:{port}/orders"
        placed = [json.loads(await posted(f"{home}?item=a", 201))["order"] for _ in range(EACH)]
        own_postgres.restart("immediate")
        placed += [json.loads(await posted(f"{home}?item=b", 201))["order"] for _ in range(EACH)]
        await posted(f"{home}/{placed[0]}/receipt", 202)
        async with offpath.App(url, auto_start=False) as app:

            async def done() -> bool:
                return await app.jobs.count(state="succeeded") == await app.jobs.count() > EACH

            await eventually(done, within=60, what=f"all jobs end well:\n{run.output()}")
        orders = run_sql(url, "select id from orders order by id")
        # an order whose answer was lost is there too, with its receipt
        assert {one for (one,) in orders} >= set(placed)
        assert run_sql(url, "select order_id from receipts order by 1") == orders
    finally:
        run.destroy()
