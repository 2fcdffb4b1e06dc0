"""The project of the page, as processes: a thousand tasks, and Postgres restarted meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.architecture.page import ROOT, blocks
from tests.contrib.processes import Processes, posted, write_files
from tests.contrib.urls import run_sql
from tests.integration.polling import eventually
from tests.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import PostgresCluster

MANY = 1000
POSTED = 20

_ENQUEUE = f"""
import django
django.setup()
from django.db import transaction
from shop.models import Order
from shop.tasks import send_receipt
for _ in range({MANY // 50}):
    with transaction.atomic():
        for order in [Order.objects.create(item="a") for _ in range(50)]:
            send_receipt.enqueue(order.pk)
"""


def _commands() -> tuple[list[list[str]], list[str], list[str]]:
    """The commands of the page: those before the worker, the worker, and the one behind it."""
    page = (ROOT / "docs" / "integrations" / "django.md").read_text("utf-8")
    (shown,) = (one for one in blocks(page) if one.kind == "console")
    lines = [line.removeprefix("$ python ").split("#")[0] for line in shown.text.splitlines()]
    *before, worker, jobs = [line.split() for line in lines]
    return before, worker, jobs


@pytest.mark.timeout(240)
async def test_every_order_has_its_receipt_whatever_was_restarted(
    own_postgres: PostgresCluster, tmp_path: Path
) -> None:
    write_files("django.md", tmp_path)
    url, port = own_postgres.url, free_port()
    own_postgres.most_connections = 100  # as a server is installed
    own_postgres.restart("fast")
    assert run_sql(url, "show max_connections") == [("100",)]
    run = Processes(tmp_path, {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "settings"})
    try:
        before, worker, jobs = _commands()
        for command in before:
            run.run(*command)
        run.start("manage.py", "runserver", "--noreload", str(port))
        run.run("-c", _ENQUEUE)
        run.start(*worker)
        home = f"http://127.0.0.1:{port}/orders?item=b"
        done = "select count(*) from offpath.job where state = 'succeeded'"
        await eventually(lambda: run_sql(url, done)[0][0] > MANY // 10, within=60, what="some end")
        own_postgres.restart("immediate")
        placed = [json.loads(await posted(home, 201))["order"] for _ in range(POSTED)]
        left = "select count(*) from offpath.job where state not in ('succeeded', 'dead')"
        await eventually(
            lambda: run_sql(url, left) == [(0,)], within=120, what=f"all end:\n{run.output()}"
        )
        assert run_sql(url, "select distinct state from offpath.job") == [("succeeded",)]
        orders = run_sql(url, "select id from shop_order order by id")
        assert len(orders) >= MANY + POSTED
        assert {one for (one,) in orders} >= set(placed)
        assert run_sql(url, "select order_id from shop_receipt order by 1") == orders
        run.run(*jobs)
        run.run("manage.py", "check", "--database", "default")
    finally:
        run.destroy()
