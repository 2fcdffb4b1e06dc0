"""A service with something ordinary in every table, for rows written by hand beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import offpath
from offpath.events import InboxMessage, Outbox
from offpath.model.endpoint import Endpoint
from offpath.model.wait import NewSignal
from tests.conformance.builders import uid
from tests.conformance.log_builders import open_letter
from tests.conformance.schedule_builders import firing, known, plan
from tests.conformance.workflow_builders import gate_on, hold

ROUTERS: dict[offpath.App, Any] = {}
"""The router of each service."""

JOBS = (("ready", "scheduled"), ("succeeded", "dead"))
"""The states of jobs beside which wrong ones are written."""
OTHERS = (
    ("message", "schedule", "occurrence", "endpoint", "limit_key", "queue_pause", "signal"),
    ("worker", "claim", "job_group", "job_gate", "gate_watch", "failure", "step"),
    ("log", "router", "route", "gate", "cursor", "attempt", "letter"),
)
"""The other tables, by their names in Postgres."""


def name_of(backend: str, table: str) -> str:
    """The name of a table in this backend."""
    if backend == "postgres":
        return f"offpath.{table}"
    return {"limit_key": "offpath_limit", "job_group": "offpath_group"}.get(
        table, f"offpath_{table}"
    )


def service(url: str) -> offpath.App:
    """An app with a task, an inbox, an outbox and a router."""
    app = offpath.App(url, migrate=True, auto_start=False)

    @app.task(retry=1)
    async def work(n: int) -> int:
        if n < 0:
            raise ValueError("no")
        return n

    @app.inbox("shop")
    async def take(message: InboxMessage) -> None:
        pass

    @app.outbox("news")
    async def send(event: Any) -> None:
        pass

    router = app.router("iu", domain="iu", start="beginning")
    router.route(type="paid", deliver=Outbox("news"))
    ROUTERS[app] = router
    return app


async def populate(app: offpath.App) -> None:
    """Something ordinary in every table."""
    work = app.tasks["work"]
    store = app.store()
    await work.enqueue(-1)
    await work.options(limit=offpath.Limit(key="one", max_running=1)).enqueue(1)
    await app.enqueue([work.job(1), work.job(2)])
    await app.worker().run_until_idle()
    waiting = await work.options(delay=3600, tags=["a"]).enqueue(1)
    await work.enqueue(1)
    await app.accept("shop", "first", {})
    await app.publish("t", {}, stream="news")
    await app.log.append("iu", "paid", "eu", {})
    await ROUTERS[app].run_once()
    await app.routers.open_gate()
    await app.store().set_gate("iu", opened=True)
    await app.log.append("iu", "paid", "eu", {})
    await plan(store, "nightly")
    await store.fire(firing(await known(store, "nightly")))
    await open_letter(store)
    await store.put_endpoint(Endpoint(name="e", url="https://example.com", secrets=("s" * 32,)))
    await store.send_signal(NewSignal(id=uid(77), target="t", event="e", payload="1", keep=3600))
    await hold(store, gate_on(waiting.id))
    await store.claim("a claim", "holder")
    await store.pause_queue("resting", until=datetime.now(UTC) + timedelta(hours=1))
