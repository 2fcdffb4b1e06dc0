"""The project of the page as processes, made by Alembic, with Postgres restarted in the middle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.contrib.processes import Processes, posted, write_files
from tests.contrib.urls import run_sql
from tests.integration.polling import eventually
from tests.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import PostgresCluster

EACH = 20


@pytest.mark.timeout(180)
async def test_every_order_has_its_receipt_whatever_was_restarted(
    own_postgres: PostgresCluster, tmp_path: Path
) -> None:
    write_files("sqlalchemy.md", tmp_path)
    url, port = own_postgres.url, free_port()
    run = Processes(
        tmp_path, {"DATABASE_URL": url, "OFFPATH_POLL_INTERVAL": "0.2", "PYTHONPATH": ""}
    )
    try:
        # -P: a command of its own, as a reader has, does not find the modules of its folder
        run.run("-P", "-m", "alembic", "upgrade", "head")
        run.run("-P", "-m", "alembic", "check")
        run.start("-m", "uvicorn", "service:service", "--port", str(port))
        run.start("-m", "offpath", "worker", "jobs:app")
        home = f"http://127.0.0.1:{port}/orders?item=a"
        placed = [json.loads(await posted(home, 201))["order"] for _ in range(EACH)]
        own_postgres.restart("immediate")
        placed += [json.loads(await posted(home, 201))["order"] for _ in range(EACH)]
        left = "select count(*) from offpath.job where state <> 'succeeded'"
        await eventually(
            lambda: run_sql(url, left) == [(0,)], within=60, what=f"all end well:\n{run.output()}"
        )
        orders = run_sql(url, "select id from orders order by id")
        # an order whose answer was lost is there too, with its receipt
        assert {one for (one,) in orders} >= set(placed)
        assert run_sql(url, "select order_id from receipts order by 1") == orders
    finally:
        run.destroy()
