"""The pages' files under gunicorn with ``--preload``, where the parent has used the app before."""

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

EACH = 10
DJANGO = """
from django.core.wsgi import get_wsgi_application

service = get_wsgi_application()

from django.db import transaction
from shop.models import Order
from shop.tasks import send_receipt

with transaction.atomic():
    send_receipt.enqueue(Order.objects.create(item="by the parent").pk)
"""
FASTAPI = """
import asyncio

from web import Base, api as service, app, engine, send_receipt


async def made():
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await engine.dispose()


asyncio.run(made())
app.blocking.enqueue(send_receipt.job(0))
"""


@pytest.mark.timeout(180)
async def test_django_under_a_preloading_server_enqueues_in_each_child(
    own_postgres: PostgresCluster, tmp_path: Path
) -> None:
    write_files("django.md", tmp_path)
    (tmp_path / "service.py").write_text(DJANGO)
    url = own_postgres.url
    run = Processes(tmp_path, {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "settings"})
    try:
        run.run("manage.py", "makemigrations", "shop")
        run.run("manage.py", "migrate")
        orders = await _placed(run, own_postgres, "?item=a")
        run.start("manage.py", "offpath_worker")
        await _all_end(run, url)
        assert run_sql(url, "select count(*) from shop_order where item = 'by the parent'") == [
            (1,)
        ]
        have = run_sql(url, "select order_id from shop_receipt order by 1")
        assert have == run_sql(url, "select id from shop_order order by 1")
        assert {one for (one,) in have} >= orders
    finally:
        run.destroy()


@pytest.mark.timeout(180)
async def test_fastapi_under_a_preloading_server_enqueues_in_each_child(
    own_postgres: PostgresCluster, tmp_path: Path
) -> None:
    write_files("fastapi.md", tmp_path)
    (tmp_path / "service.py").write_text(FASTAPI)
    url = own_postgres.url
    run = Processes(tmp_path, {"DATABASE_URL": url, "OFFPATH_POLL_INTERVAL": "0.2"})
    try:
        run.run("-m", "offpath", "migrate", "--url", url)
        kind = ("--worker-class", "uvicorn.workers.UvicornWorker")
        orders = await _placed(run, own_postgres, "?item=a", *kind)
        run.start("-m", "offpath", "worker", "web:api")
        await _all_end(run, url)
        have = {one for (one,) in run_sql(url, "select order_id from receipts")}
        assert have == {0, *(one for (one,) in run_sql(url, "select id from orders"))}
        assert have >= orders
    finally:
        run.destroy()


async def _placed(run: Processes, server: PostgresCluster, query: str, *kind: str) -> set[int]:
    """Start the service and place orders, with Postgres restarted in the middle; their numbers."""
    port = free_port()
    run.start(
        *("-m", "gunicorn", "--preload", "--workers", "2", "--threads", "4", *kind),
        *("--bind", f"127.0.0.1:{port}", "service:service"),
    )
    home = f"http://127.0.0.1:{port}/orders{query}"
    placed = [await posted(home, 201, within=60) for _ in range(EACH)]
    server.restart("immediate")
    placed += [await posted(home, 201, within=60) for _ in range(EACH)]
    return {json.loads(one)["order"] for one in placed}


async def _all_end(run: Processes, url: str) -> None:
    left = "select count(*) from offpath.job where state <> 'succeeded'"
    await eventually(
        lambda: run_sql(url, left) == [(0,)], within=90, what=f"all end well:\n{run.output()}"
    )
