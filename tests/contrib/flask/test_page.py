"""The files of the page under gunicorn, with Postgres restarted in the middle."""

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

EACH = 15


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", [("--threads", "4", "--preload"), ("--worker-class", "sync")])
async def test_every_order_has_its_receipt_whatever_was_restarted(
    own_postgres: PostgresCluster, tmp_path: Path, kind: tuple[str, ...]
) -> None:
    write_files("flask.md", tmp_path)
    url, port = own_postgres.url, free_port()
    variables = {"DATABASE_URL": url, "OFFPATH_POLL_INTERVAL": "0.2", "FLASK_APP": "shop"}
    run = Processes(tmp_path, variables)
    try:
        run.run("-m", "flask", "offpath", "migrate")
        run.run("tables.py")
        bind = ("--bind", f"127.0.0.1:{port}", "--workers", "2")
        run.start("-m", "gunicorn", *bind, *kind, "shop:create_app()")
        run.start(
            "-m", "flask", "--app", "shop:create_app", "offpath", "worker", "--processes", "2"
        )
        home = f"http://127.0.0.1:{port}"
        item = f"{home}/orders?item=a"
        await eventually(lambda: "Booting worker" in run.output(), within=60, what="gunicorn is up")
        placed = [json.loads(await posted(item, 201))["order"] for _ in range(EACH)]
        await posted(f"{home}/refused", 409)
        own_postgres.restart("immediate")
        placed += [json.loads(await posted(item, 201))["order"] for _ in range(EACH)]
        async with offpath.App(url, auto_start=False) as app:

            async def done() -> bool:
                return await app.jobs.count(state="succeeded") == await app.jobs.count()

            await eventually(done, within=60, what=f"all jobs end well:\n{run.output()}")
            # one for each answer that went out, and at most one for an answer that was lost
            assert EACH * 2 <= await app.jobs.count(task="count_orders") <= EACH * 2 + 2
        orders = run_sql(url, 'select id from "order" order by id')
        assert {one for (one,) in orders} >= set(placed)
        assert run_sql(url, "select order_id from receipt order by 1") == orders
    finally:
        run.destroy()
