"""A part of a page that takes too long is cut off alone: it is named, and the rest is there."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import offpath
from offpath.errors import StoreBusy
from offpath.operating.panels import Panels
from offpath.web.console import places, shares
from tests.unit.web.dashboard.rig import BEARER, Answer, Site

PEOPLE = {**BEARER, "accept": "text/html"}
SAID = "This took too long, and was stopped."
OF_QUEUES = ["blocked", "due", "oldest_due_at", "problems", "queues", "running", "scheduled"]
OF_FLEET = ["live_workers", "missing_workers", "ready", "reasons", "slots", "warnings", "workers"]


async def _busy(*_: object, **__: object) -> Any:
    raise StoreBusy("it was busy for too long")


async def _hangs(*_: object, **__: object) -> Any:
    await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is given again."""
    monkeypatch.setattr(shares, "FOR", 0.0)


def _slow(
    app: offpath.App,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    how: Callable[..., Awaitable[Any]] = _busy,
) -> None:
    monkeypatch.setattr(app.store(), name, how)


async def _page(site: Site, path: str) -> Answer:
    return await site.get(path, headers=PEOPLE)


@pytest.mark.parametrize(
    ("page", "api", "read", "cut"),
    [
        ("/", "/overview", "stats", ["rates", "stats"]),
        ("/", "/overview", "faults", ["faults"]),
        ("/", "/overview", "dead_tally", ["dead", "more_dead", "oldest_dead_at"]),
        ("/", "/overview", "endpoints", ["endpoints"]),
        ("/", "/overview", "workers", sorted(OF_FLEET + OF_QUEUES)),
        ("/queues/mail", "/queues/mail", "next_due", ["next_due"]),
        ("/queues/mail", "/queues/mail", "stats", ["stats"]),
        ("/tasks/send_mail", "/tasks/send_mail", "faults", ["faults"]),
        ("/tasks/send_mail", "/tasks/send_mail", "browse", ["running"]),
        ("/messages", "/messages", "message_backlog", ["streams"]),
    ],
)
async def test_a_part_that_was_stopped_is_named_and_the_rest_is_there(
    site: Site,
    app: offpath.App,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    api: str,
    read: str,
    cut: list[str],
) -> None:
    _slow(app, monkeypatch, read)
    document = await site.get(f"/api/v1{api}")
    assert document.code == 200
    assert document.document["cut"] == cut
    shown = await _page(site, page)
    assert shown.code == 200
    assert SAID in shown.text or "took too long" in shown.text


async def test_a_verdict_that_was_stopped_is_not_green(
    site: Site, app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    _slow(app, monkeypatch, "findings")
    document = (await site.get("/api/v1/overview")).document
    assert (document["ready"], document["cut"]) == (False, sorted(OF_FLEET + OF_QUEUES))
    assert document["faults"]["items"]
    page = await _page(site, "/")
    assert "the verdict took too long" in page.text
    assert "✔</span> healthy" not in page.text


async def test_a_job_whose_history_was_stopped_still_says_why_it_died(
    site: Site, app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dead, *_) = (await site.get("/api/v1/dead")).document["items"]
    _slow(app, monkeypatch, "actions")
    document = (await site.get(f"/api/v1/jobs/{dead['id']}")).document
    assert document["cut"] == ["history"]
    page = await _page(site, f"/jobs/{dead['id']}")
    assert (page.code, page.text.count(SAID)) == (200, 1)
    assert document["why"][0] in html.unescape(page.text)


async def test_what_a_job_waits_for_is_a_part_of_its_own(
    site: Site, app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    (waiting, *_) = (await site.get("/api/v1/jobs?state=blocked")).document["items"]
    for name in ("gates", "limits", "queues"):
        _slow(app, monkeypatch, name)
    document = (await site.get(f"/api/v1/jobs/{waiting['id']}")).document
    assert "why" in document["cut"]
    assert SAID in (await _page(site, f"/jobs/{waiting['id']}")).text


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/dead", "faults"),
        ("/jobs", "dead_tally"),
        ("/groups/{group}", "graph"),
        ("/jobs/{group}", "step_records"),
    ],
)
async def test_a_document_beside_the_list_is_not_the_page(
    site: Site, app: offpath.App, monkeypatch: pytest.MonkeyPatch, path: str, read: str
) -> None:
    """Its own JSON is the whole of that question, and says so by 503."""
    (group, *_) = (await site.get("/api/v1/groups")).document["items"]
    _slow(app, monkeypatch, read, _hangs)
    monkeypatch.setattr(places, "PATIENCE", 0.5)
    page = await _page(site, path.format(group=group["id"]))
    assert page.code == 200
    assert SAID in page.text or path == "/jobs"


async def test_a_part_that_hangs_is_cut_off_before_the_page_is(
    site: Site, app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "SPARE", 0.99)
    _slow(app, monkeypatch, "stats", _hangs)
    document = await site.get("/api/v1/overview")
    assert document.code == 200
    assert {"stats", "rates"} <= set(document.document["cut"])


async def test_an_unknown_task_is_not_denied_before_all_was_looked_at(
    site: Site, app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await site.get("/api/v1/tasks/nobody")).code == 404
    _slow(app, monkeypatch, "faults")
    assert (await site.get("/api/v1/tasks/nobody")).document["cut"] == ["faults"]


async def test_without_a_time_what_fails_is_raised() -> None:
    panels = Panels()
    with pytest.raises(StoreBusy):
        await panels.read(_busy(), None, "what")
    assert panels.cut == ()
