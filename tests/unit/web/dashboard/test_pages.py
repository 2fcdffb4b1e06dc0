"""Pages: all of them, their documents, what they hide, and how they stand under a prefix."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

import offpath
from offpath.errors import StoreUnavailable
from offpath.health.fleet import MOST_DUE
from offpath.model.job import JobState
from offpath.operating import list_views, overview, views
from offpath.web import auth, dashboard
from offpath.web.console import places, shares
from offpath.web.console.readings import READINGS
from tests.browser.scene import LIVELY, SECRET, make_app
from tests.unit.web.dashboard.crawl import Page, crawl, quoted
from tests.unit.web.dashboard.rig import BEARER, TOKEN, Site, site_for_lookers, site_of


@pytest.mark.parametrize("root", ["", "/jobs", "/a/b c"])
async def test_every_link_leads_somewhere_under_any_prefix(app: offpath.App, root: str) -> None:
    found = await crawl(site_of(app, root, links={"Logs": "https://logs.example/?q={job_id}"}))
    paths = {re.sub(r"[0-9a-f-]{36}", "ID", one.partition("?")[0]) for one in found}
    base = quoted(root)
    expected = {"/", "/jobs", "/jobs/ID", "/dead", "/groups/ID", "/queues", "/queues/exports",
                "/schedules", "/schedules/nightly", "/limits", "/workers", "/workers/ID",
                "/health", "/runbooks/README", "/api/v1/jobs", "/messages", "/messages/ID",
                "/stats",
                "/endpoints", "/endpoints/shop", "/routers", "/routers/iu", "/routers/iu/checks",
                "/routers/iu/attempts", "/actions", "/groups", "/gates", "/signals", "/tasks",
                "/tasks/album", "/sweeps", "/config", "/log", "/log/ID"}  # fmt: skip
    assert {base + one for one in expected} - paths == set()


async def test_no_secret_leaves_and_nothing_foreign_lives(app: offpath.App) -> None:
    await app.enqueue(
        app.tasks["add"]
        .options(tags=[f"postgres://ann:{SECRET}@db/x", f"token={SECRET}"], fair_key=LIVELY)
        .job(1, b=1)
    )
    await app.queues.pause(f"q{LIVELY}"[:60])
    found = await crawl(site_of(app))
    assert len(found) > 30
    for link, text in found.items():
        assert SECRET not in text, link
        if text.startswith("<!doctype"):
            page = Page(text)
            assert page.refused == [], link
            assert None not in page.scripts, link
            assert "<script>" not in text, link
    assert any(html.escape(LIVELY) in text for text in found.values())


async def test_what_an_app_calls_secret_is_hidden_too(app: offpath.App) -> None:
    site = Site(dashboard(app, auth=auth.token({"ann": TOKEN}, can=auth.ADMIN), redact=("to",)))
    given = {"to": "ann0@example.org", "password": SECRET}
    asked: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "job.enqueue": ({"task": "send_mail"}, {"input": given}),
        "job.signal": ({"target": "x", "event": "paid"}, {"payload": given}),
    }
    headers = {**BEARER, "content-type": "application/json"}
    for verb, (target, options) in asked.items():
        body = msgspec.json.encode({"verb": verb, "target": target, "options": options})
        answer = await site.ask("POST", "/api/v1/actions", headers=headers, body=body)
        assert '"done"' in answer.text and "ann0@" not in answer.text  # noqa: PT018
    found = await crawl(site)
    assert not any("ann0@example.org" in one or SECRET in one for one in found.values())


async def test_who_may_only_look_sees_no_payload(app: offpath.App) -> None:
    site = site_for_lookers(app)
    found = await crawl(site)
    assert not any("Traceback (most recent" in one for one in found.values())
    assert not any("ann0@example.org" in one for one in found.values())
    dead = (await site.get("/api/v1/dead")).document["items"]
    shown = (await site.get(f"/api/v1/jobs/{dead[0]['id']}")).document
    assert shown["input"] == "hidden"
    assert (await site.get("/api/v1/me")).document == {"name": "ann", "can": ["read"]}
    hidden = site_of(app, payloads="hidden")
    assert (await hidden.get(f"/api/v1/jobs/{shown['id']}")).document["input"] == "hidden"


# -- one source ------------------------------------------------------------------------------------


def _plain(document: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document))


async def test_json_is_the_document_of_the_commands(app: offpath.App) -> None:
    site = site_of(app)
    page = await app.dead.list(limit=50)
    told = (await site.get("/api/v1/dead")).document
    assert told == _plain(await list_views.jobs(app, {"state": "dead"}))
    assert [one["id"] for one in told["items"]] == [one.id for one in page.items]
    one = page.items[0].id
    standing = _plain(await views.job(app, one))
    shown = (await site.get(f"/api/v1/jobs/{one}")).document
    assert {name: shown[name] for name in standing} == standing
    queues = {one["name"]: one for one in (await site.get("/api/v1/queues")).document["items"]}
    seen = _plain(await overview.read(app))
    assert [queues[one["name"]] for one in seen["queues"]] == seen["queues"]


async def test_a_page_shows_what_its_json_says(site: Site) -> None:
    told = (await site.get("/api/v1/jobs?state=dead&task=send_mail")).document["items"]
    page = html.unescape((await site.get("/jobs?state=dead&task=send_mail")).text)
    assert len(told) == 3
    for one in told:
        assert f'href="/jobs/{one["id"]}"' in page
        assert f"{one['error_type']}: {one['error']}" in page


def _fits(value: Any, schema: dict[str, Any], known: dict[str, Any]) -> bool:
    """True if a value is as a schema says; only what our documents use of JSON Schema."""
    if "$ref" in schema:
        return _fits(value, known[schema["$ref"].rsplit("/", 1)[1]], known)
    if "anyOf" in schema:
        return any(_fits(value, one, known) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    match schema.get("type"):
        case "object":
            if not isinstance(value, dict):
                return False
            properties = schema.get("properties", {})
            unknown = set(value) - set(properties) if properties else set()
            return not unknown and set(schema.get("required", ())) <= set(value) and all(
                _fits(each, properties.get(name, {}), known) for name, each in value.items()
            )  # fmt: skip
        case "array":
            return isinstance(value, list) and all(
                _fits(one, schema.get("items") or {}, known) for one in value
            )
        case "null":
            return value is None
        case "string":
            return isinstance(value, str)
        case "integer" | "number" | "boolean" as kind:
            kinds = {"integer": (int,), "number": (int, float), "boolean": (bool,)}
            return isinstance(value, kinds[kind])
    return True


async def _some_action(site: Site) -> str:
    body = msgspec.json.encode({"verb": "queue.resume", "target": {"name": "images"}})
    headers = {**BEARER, "content-type": "application/json"}
    told = (await site.ask("POST", "/api/v1/actions", headers=headers, body=body)).document
    return str(told["id"])


async def test_every_answer_is_as_the_api_describes_it(site: Site) -> None:
    described = (await site.get("/api/v1/openapi.json")).document
    assert described["openapi"] == "3.1.0"
    reads = {path: told["get"] for path, told in described["paths"].items() if "get" in told}
    assert set(reads) == {one.path for one in READINGS}
    known = described["components"]["schemas"]
    one = (await site.get("/api/v1/dead")).document["items"][0]
    worker = (await site.get("/api/v1/workers")).document["items"][0]["info"]["id"]
    names = {"/jobs/{id}": one["id"], "/groups/{id}": one["group_id"], "/workers/{id}": worker,
             "/queues/{name}": "exports", "/schedules/{name}": "nightly",
             "/messages/{id}": (await site.get("/api/v1/messages")).document["items"][0]["id"],
             "/tasks/{name}/schema": "add", "/schedules/{name}/occurrences": "nightly",
             "/routers/{router}/letters": "iu",
             "/jobs/{id}/steps": one["id"], "/jobs/{id}/children": one["id"],
             "/groups/{id}/graph": one["group_id"], "/tasks/{name}": "add",
             "/endpoints/{name}": "shop",
             "/events/{id}": (await site.get("/api/v1/events")).document["items"][0]["id"],
             "/routers/{router}/attempts": "iu", "/routers/{router}/checks": "iu",
             "/routers/{name}": "iu", "/actions/{id}": await _some_action(site)}  # fmt: skip
    for path, operation in reads.items():
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        answer = await site.get("/api/v1" + re.sub(r"{\w+}", names.get(path, ""), path))
        assert (path, answer.code) == (path, 200)
        assert _fits(answer.document, schema, known), path
    wrong = (await site.get("/api/v1/jobs?colour=red")).document
    assert _fits(wrong, known["Problem"], known)


# -- pages -----------------------------------------------------------------------------------------


async def test_a_queue_that_nobody_serves_is_said_at_the_top(site: Site) -> None:
    for path in ("/", "/health", "/queues", "/queues/exports"):
        assert "no live worker serves the queue exports" in (await site.get(path)).text
    front = (await site.get("/")).text
    assert "Work waits that nobody takes" in front
    assert "Work moves, and nothing has waited too long" not in front, "nothing looks green"
    assert front.index("serves the queue exports") < front.index("new dead letters")


async def test_the_overview_has_the_verdict_of_health(site: Site) -> None:
    said = [
        re.findall(r'data-verdict="([^"]*)"', (await site.get(path)).text)
        for path in ("/", "/health")
    ]
    assert said[0] == said[1] != []


async def test_due_jobs_of_one_task_are_counted_up_to_a_hundred(
    app: offpath.App, site: Site
) -> None:
    await app.enqueue([app.tasks["export"].job(str(n)) for n in range(MOST_DUE + 5)])
    told = (await site.get("/api/v1/queues/exports")).document
    assert [one["ready"] for one in told["due"]] == [told["due_counted_to"]] == [MOST_DUE]
    assert told["ready"] > MOST_DUE
    assert "100+" in (await site.get("/queues/exports")).text
    (listed,) = [
        one
        for one in (await site.get("/api/v1/queues")).document["items"]
        if one["name"] == "exports"
    ]
    assert [one["ready"] for one in listed["due"]] == [MOST_DUE]


async def test_a_queue_shows_what_is_handed_out_next(site: Site) -> None:
    told = (await site.get("/api/v1/queues/exports")).document
    assert [one["task"] for one in told["next_due"]] == ["export"] * told["ready"]
    page = (await site.get("/queues/exports")).text
    assert "Handed out next" in page
    assert all(f'id="job-{one["id"]}"' in page for one in told["next_due"])


async def test_the_numbers_of_charts_are_reached_by_keyboard(site: Site) -> None:
    told = (await site.get("/api/v1/stats?range=15m&queue=mail")).document
    page = (await site.get("/stats?range=15m&queue=mail")).text
    assert page.count("<tr>") == len(told["points"]) + 1 == 91
    # a table that is wider than a phone scrolls, and what scrolls can be focused
    assert '<div class="scroll" tabindex="0" role="group" aria-label=' in page
    assert (await site.get("/stats?range=1y")).code == 400


async def test_a_job_says_why_it_waits(app: offpath.App, site: Site) -> None:
    async def why(**where: Any) -> list[str]:
        found = await app.jobs.find(limit=1, **where)
        told: list[str] = (await site.get(f"/api/v1/jobs/{found.items[0].id}")).document["why"]
        return told

    assert await why(task="export") == ["No live worker serves the queue exports"]
    assert (await why(task="fetch"))[0].startswith("It waits for limit 'api.example.org'")
    assert (await why(state=JobState.DEAD))[0].startswith("1 attempt failed, as many as its retry")


async def test_faults_of_one_cause_are_one(site: Site) -> None:
    told = (await site.get("/api/v1/faults")).document
    assert sorted((one["task"], one["type"], one["jobs"]) for one in told["items"]) == [
        ("send_mail", "ConnectionResetError", 3),
        ("thumbnail", "ValueError", 3),
    ]
    assert (told["looked_at"], told["more"]) == (6, False)


async def test_the_search_field_leads_to_a_filter_or_a_job(site: Site) -> None:
    async def place(text: str) -> str:
        return str((await site.get(f"/jobs?q={text}")).headers["location"])

    assert await place("send_mail") == "/jobs?task=send_mail"
    assert await place("state:dead+error:ValueError") == "/jobs?state=dead&error_type=ValueError"
    job = (await site.get("/api/v1/dead")).document["items"][0]["id"]
    assert await place(job) == f"/jobs/{job}?"


async def test_pages_of_a_list_follow_each_other(site: Site) -> None:
    seen: list[str] = []
    path = "/api/v1/jobs?limit=7"
    while path:
        told = (await site.get(path)).document
        seen += [one["id"] for one in told["items"]]
        path = f"/api/v1/jobs?limit=7&after={told['next']}" if told["next"] else ""
    assert len(seen) == len(set(seen)) == 74
    assert seen == sorted(seen, reverse=True)


async def test_a_list_that_looked_at_no_more_says_how_far_it_came(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.store(), "browse", partial(app.store().browse, most=5))
    site = site_of(app)
    told = (await site.get("/api/v1/jobs?task=send_mail")).document
    assert (told["items"], told["exhausted"]) == ([], False)
    assert told["next"] is not None
    page = (await site.get("/jobs?task=send_mail")).text
    assert "Looked at" in page
    assert f"after={told['next']}" in page


async def test_jobs_are_found_by_the_text_of_their_error(site: Site) -> None:
    told = (await site.get("/api/v1/jobs?text=not%20an%20image")).document["items"]
    assert {one["task"] for one in told} == {"thumbnail"}
    asked = await site.get("/jobs?q=text:unexpectedly")
    assert asked.headers["location"] == "/jobs?text=unexpectedly"
    assert 'value="text:unexpectedly"' in (await site.get(asked.headers["location"])).text


@pytest.mark.parametrize(
    ("path", "code", "told"),
    [
        ("/jobs?colour=red", 400, "There is no filter colour"),
        ("/jobs?state=flying", 400, "the states are"),
        ("/jobs?limit=0", 400, "limit"),
        ("/jobs?limit=9999", 400, "limit"),
        ("/jobs?after=x", 400, "after"),
        ("/jobs/0198c0de-0000-7000-8000-000000000000", 404, "There is no job"),
        ("/jobs/x", 400, "job id"),
        ("/queues/" + "x" * 300, 400, "queue"),
        ("/schedules/none", 404, "none"),
        ("/workers/none", 404, "There is no worker none"),
        ("/runbooks/..%2fREADME", 404, "no such page"),
        ("/assets/..%2frendering.py", 404, "no such page"),
    ],
)
async def test_what_is_not_there_is_said(site: Site, path: str, code: int, told: str) -> None:
    answer = await site.get(path, headers={**BEARER, "accept": "text/html"})
    assert answer.code == code
    assert told.casefold() in html.unescape(answer.text).casefold()


def _monsters() -> Iterable[tuple[str, Any]]:
    yield "a megabyte", "x" * 900_000
    yield "a flag", "\U0001f1e9\U0001f1ea"
    yield "right to left", "\u202eevil\u202c \u05d0\u05d1"
    yield "a control character", "a\x01b\x1b[31m"
    yield "many", list(range(5_000))


async def test_monsters_do_not_break_a_page() -> None:
    app = make_app("memory://")

    @app.task
    async def take(name: str, value: Any) -> None:
        """Never run."""

    async with app:
        site = site_of(app)
        for name, value in _monsters():
            handle = await take.enqueue(name, value)
            answer = await site.get(f"/jobs/{handle.id}")
            assert answer.code == 200, name
            assert len(answer.body) < 200_000, name


# -- bad days --------------------------------------------------------------------------------------


async def test_a_store_that_is_away_is_said_with_its_last_answer(
    app: offpath.App, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await site.get("/readyz")).code == 200

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("cannot reach postgresql://ann:hunter2@db/x")

    monkeypatch.setattr(shares, "FOR", 0.0)
    monkeypatch.setattr(places, "_timed", away)
    page = await site.get("/queues", headers={**BEARER, "accept": "text/html"})
    assert page.code == 503
    assert "The database is away" in page.text
    assert "It last answered at 20" in page.text
    assert "hunter2" not in page.text
    assert (await site.get("/readyz")).code == 503
    assert (await site.get("/healthz")).code == 200


async def test_what_takes_too_long_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(places, "_timed", hang)
    monkeypatch.setattr(places, "PATIENCE", 0.01)
    told = (await site.get("/api/v1/jobs")).document
    assert (told["code"], told["retryable"]) == ("TOOK_TOO_LONG", True)


async def test_several_databases_stand_beside_each_other(app: offpath.App) -> None:
    site = site_of({"shop": app, "mail": make_app("memory://")})
    assert (await site.get("/")).headers["location"] == "/shop/"
    assert 'href="/mail/queues"' in (await site.get("/shop/queues")).text
    assert (await site.get("/mail/api/v1/jobs")).document["items"] == []
    assert len((await site.get("/shop/api/v1/dead")).document["items"]) == 6


async def test_times_are_said_relative_and_exact(app: offpath.App, site: Site) -> None:
    page = (await site.get("/schedules/nightly")).text
    found = re.findall(r'<time datetime="([^"]+)" title="([^"]+)">in \d+', page)
    times = [datetime.fromisoformat(one) for one, _ in found]
    assert len(times) == 5
    assert times == sorted(times)
    assert times[0] - datetime.now(UTC) < timedelta(days=1)
    in_zone = re.findall(
        r"<code>(\S+T03:00:00\+0[12]:00)</code><span class=\"soft\">Europe/Berl", page
    )
    assert [datetime.fromisoformat(one) for one in in_zone] == times


async def test_of_a_worker_that_is_gone_no_loops_are_told() -> None:
    """Its last report is of when it ran."""
    app = offpath.App("memory://", auto_start=False)
    async with app:
        async with app.worker():
            assert "of 100</span>" in (await site_of(app).get("/workers")).text
        page = (await site_of(app).get("/workers")).text
        assert "</span> stopped" in page
        assert "go well" not in page
        assert "of 100" not in page


async def test_a_schedule_says_when_in_words(site: Site) -> None:
    for path in ("/schedules", "/schedules/nightly"):
        text = (await site.get(path)).text
        assert "At 03:00 every day, Europe/Berlin" in text
        assert "0 3 * * *" in text


@pytest.mark.parametrize("path", ["/", "/health"])
async def test_nothing_looks_green_beside_a_warning(site: Site, path: str) -> None:
    text = (await site.get(path)).text
    verdict = text.partition('aria-label="Verdict"')[2].partition("</section>")[0]
    assert "healthy so far" in verdict
    assert "tone-succeeded" not in verdict


@pytest.mark.parametrize("part", ["attempts", "checks"])
async def test_a_part_of_a_router_is_within_the_menu_of_routers(site: Site, part: str) -> None:
    text = (await site.get(f"/routers/iu/{part}")).text
    assert re.search(r'<a href="/routers" aria-current="page"', text)
