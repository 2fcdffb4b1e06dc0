"""The page of a task, and an app's own view of arguments."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import offpath
from offpath.errors import InvalidArgument
from offpath.web import dashboard
from tests.unit.web.dashboard.rig import Site, site_for_lookers, site_of


async def test_a_task_has_its_own_faults(site: Site) -> None:
    told = (await site.get("/api/v1/tasks/send_mail")).document
    assert [(one["task"], one["type"], one["jobs"]) for one in told["faults"]] == [
        ("send_mail", "ConnectionResetError", 3)
    ]
    page = (await site.get("/tasks/send_mail")).text
    assert "fault=ConnectionResetError%3A" in page
    assert "None of its jobs is dead." in (await site.get("/tasks/add")).text


async def test_a_task_tells_what_waits_and_how_long_its_jobs_did(site: Site) -> None:
    told = (await site.get("/api/v1/tasks/export?range=15m")).document
    assert (told["queues"], told["ready"]) == (["exports"], 6)
    assert told["oldest_due_at"] is not None
    assert (told["stats"]["range"], told["stats"]["task"]) == ("15m", "export")
    page = (await site.get("/tasks/export?range=15m")).text
    assert "in exports, oldest " in page
    assert 'id="charts-title"' in page
    mail = (await site.get("/api/v1/tasks/send_mail")).document
    assert mail["stats"]["waits"]["p95"] is not None
    assert mail["oldest_due_at"] is None
    assert (await site.get("/tasks/export?range=1y")).code == 400


async def test_the_jobs_that_run_for_longest_come_first() -> None:
    app = offpath.App("memory://", auto_start=False)
    go, begun = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow(number: int) -> None:
        if number == 1:
            begun.set()
        await go.wait()

    async with app, app.worker(concurrency=1), app.worker(concurrency=1):
        # the one with the higher priority is made last and starts first
        handles = await app.enqueue([slow.job(1), slow.options(priority=5).job(0)])
        await asyncio.wait_for(begun.wait(), 20)
        site = site_of(app)
        told = (await site.get("/api/v1/tasks/slow")).document["running"]
        starts = [one["started_at"] for one in told]
        assert {one["id"] for one in told} == {one.id for one in handles}
        assert starts == sorted(starts)
        assert handles[0].id in (await site.get("/tasks/slow")).text
        go.set()
        for one in handles:
            await one.result(timeout=20)


def view(task: str, arguments: Any) -> Any:
    """The receiver alone, in words; anything else is a fault of the view."""
    return f"{task}: mail to {arguments['to']}, password={arguments['password']}"


async def test_an_app_has_its_own_view_of_arguments(app: offpath.App) -> None:
    site = site_of(app, format_payload=view)
    dead = (await site.get("/api/v1/dead?task=send_mail")).document["items"][0]["id"]
    told = (await site.get(f"/api/v1/jobs/{dead}")).document
    assert told["input"].startswith("send_mail: mail to ann")
    assert told["input"].endswith("password=***")
    other = (await site.get("/api/v1/dead?task=thumbnail")).document["items"][0]["id"]
    told = (await site.get(f"/api/v1/jobs/{other}")).document
    assert told["input"]["format_payload"] == "raised KeyError"
    assert told["input"]["arguments"]["path"].startswith("/srv/pictures/")


async def test_a_view_sees_no_secret_and_shows_none(app: offpath.App) -> None:
    seen = []

    def leaky(_: str, arguments: Any) -> Any:
        seen.append(arguments)
        return {"token": "hunter2", "given": arguments}

    site = site_of(app, format_payload=leaky)
    dead = (await site.get("/api/v1/dead?task=send_mail")).document["items"][0]["id"]
    told = (await site.get(f"/api/v1/jobs/{dead}")).document["input"]
    assert (told["token"], told["given"]["password"]) == ("***", "***")
    assert all(one["password"] == "***" for one in seen)
    before = len(seen)
    hidden = (await site_for_lookers(app).get(f"/api/v1/jobs/{dead}")).document
    assert (hidden["input"], len(seen)) == ("hidden", before)


def test_a_view_is_a_function() -> None:
    with pytest.raises(InvalidArgument, match="format_payload is a function"):
        dashboard("memory://", auth=False, format_payload="json")  # type: ignore[arg-type]
