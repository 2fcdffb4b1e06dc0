"""Changing things: one door, rights, forgery, confirmation, and what a page tells afterwards."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

import offpath
from offpath.model.action import ActionFilter, ActionState
from offpath.model.job import JobState
from offpath.operating import actions
from offpath.operating.verbs import VERBS
from offpath.web import auth, dashboard
from offpath.web.auth import VIEWER
from offpath.web.console.readings import READINGS
from offpath.web.viewers import Can
from tests.integration.polling import eventually
from tests.unit.web.dashboard.rig import BEARER, TOKEN, Answer, Site, site_for_lookers, site_of
from tests.unit.web.dashboard.test_doors import FOREIGN

JSON = {**BEARER, "content-type": "application/json"}
FORM = {**BEARER, "content-type": "application/x-www-form-urlencoded"}
FORM["sec-fetch-site"] = "same-origin"
DEAD_MAIL = {"where": {"state": ["dead"], "task": ["send_mail"]}}


async def post(site: Site, document: Any, path: str = "/api/v1/actions", **headers: str) -> Answer:
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return await site.ask("POST", path, headers={**JSON, **headers}, body=body)


async def submit(site: Site, path: str = "/act", **fields: Any) -> Answer:
    pairs = {name.replace("_dot_", "."): value for name, value in fields.items()}
    body = urlencode(pairs, doseq=True).encode()
    return await site.ask("POST", path, headers=FORM, body=body)


async def kept(app: offpath.App) -> list[tuple[str, str, str, ActionState, int]]:
    """The acts, by person."""
    found = await app.store().actions(ActionFilter())
    return [(one.actor, one.via, one.verb, one.state, one.changed) for one in found]


async def dead_ids(app: offpath.App, task: str = "send_mail") -> list[str]:
    return [one.id for one in (await app.dead.list(task=task)).items]


# -- programs --------------------------------------------------------------------------------------


async def test_a_program_acts_and_reads_what_it_did(app: offpath.App, site: Site) -> None:
    ids = await dead_ids(app)
    answer = await post(site, {"verb": "job.redrive", "target": {"ids": ids}, "note": "up again"})
    told = answer.document
    assert answer.code == 200
    assert (told["state"], told["changed"], told["text"]) == ("done", 3, "3 redriven")
    assert await kept(app) == [("ann", "api", "job.redrive", ActionState.DONE, 3)]
    again = (await site.get(f"/api/v1/actions/{told['id']}")).document
    assert {**again, "finished_at": 0} == {**told, "finished_at": 0}
    listed = (await site.get("/api/v1/actions?verb=job.redrive&actor=ann&state=done")).document
    assert [one["id"] for one in listed["items"]] == [told["id"]]


async def test_all_that_match_go_on_behind_the_request(app: offpath.App, site: Site) -> None:
    asked = {"verb": "job.redrive", "target": DEAD_MAIL}
    seen = (await post(site, asked, "/api/v1/actions/preview")).document
    assert (seen["matching"], seen["more"], len(seen["first"])) == (3, False, 3)
    asked["target"] = {**DEAD_MAIL, "before": seen["before"]}
    answer = await post(site, asked)
    assert (answer.code, answer.document["state"]) == (202, "running")
    told = await _ended(site, answer.document["id"])
    assert (told["state"], told["changed"]) == ("done", 3)
    assert await dead_ids(app) == []


async def _ended(site: Site, action: str) -> dict[str, Any]:
    """The action, once it has ended behind the requests."""
    while True:
        await asyncio.sleep(0)
        told: dict[str, Any] = (await site.get(f"/api/v1/actions/{action}")).document
        if told["state"] != "running":
            return told


async def test_a_preview_changes_nothing(app: offpath.App, site: Site) -> None:
    asked = {"verb": "job.delete", "target": DEAD_MAIL}
    assert (await post(site, asked, "/api/v1/actions/preview")).document["matching"] == 3
    assert (len(await dead_ids(app)), await kept(app)) == (3, [])


@pytest.mark.parametrize(
    ("body", "headers", "code", "word"),
    [
        (b"{", {}, 400, "BODY_NOT_UNDERSTOOD"),
        (b"[]", {}, 400, "BODY_NOT_UNDERSTOOD"),
        ({"verb": "x", "target": {}}, {}, 400, "INVALID_ARGUMENT"),
        ({"verb": "queue.pause", "target": {}}, {}, 400, "INVALID_ARGUMENT"),
        ({"verb": "x", "target": {}, "now": 1}, {}, 400, "BODY_NOT_UNDERSTOOD"),
        (b"x" * 70_000, {}, 413, "BODY_TOO_LARGE"),
        (b"verb=x", {"content-type": "application/x-www-form-urlencoded"}, 415, "NOT_JSON"),
        (b"{}", {"content-type": "text/plain"}, 415, "NOT_JSON"),
    ],
)  # fmt: skip
async def test_what_cannot_be_understood_is_refused(
    app: offpath.App, site: Site, body: Any, headers: dict[str, str], code: int, word: str
) -> None:
    answer = await post(site, body, **headers)
    assert (answer.code, answer.document["code"]) == (code, word)
    assert await kept(app) == []


async def test_a_new_job_may_be_large_and_nothing_else(app: offpath.App) -> None:
    makers = Site(dashboard(app, auth=auth.token({"ann": TOKEN}, can=auth.ADMIN)))
    large = {"to": "a" * 900_000, "password": ""}
    asked = {"verb": "job.enqueue", "target": {"task": "send_mail"}, "options": {"input": large}}
    assert (await post(makers, asked)).code == 200
    fields: dict[str, Any] = {
        "verb": "job.enqueue",
        "task": "send_mail",
        "o.input": msgspec.json.encode(large),
    }
    assert (await submit(makers, **fields)).code == 303
    queued = await app.jobs.find(task="send_mail", state=JobState.QUEUED)
    assert [len(one.input) > 900_000 for one in queued.items] == [True, True]
    paused = {"verb": "queue.pause", "target": {"name": "mail"}, "note": "a" * 70_000}
    assert (await post(makers, paused)).code == 413
    assert (await submit(makers, verb="queue.pause", name="mail", note="a" * 70_000)).code == 413
    assert (await post(site_of(app), asked)).code == 413, "who may make no job sends no large one"
    asked["options"] = {"input": {"to": "a" * 2_000_000}}
    assert (await post(makers, asked)).code == 413


async def test_an_id_is_of_one_action(app: offpath.App, site: Site) -> None:
    asked = {
        "id": "0198c0de-0000-7000-8000-000000000001",
        "verb": "queue.pause",
        "target": {"name": "mail"},
    }
    first = await post(site, asked)
    assert (await post(site, asked)).document == first.document
    other = await post(site, {**asked, "verb": "queue.resume"})
    assert (other.code, other.document["code"]) == (409, "ID_CONFLICT")


# -- rights, forgery, read-only --------------------------------------------------------------------


def _example(verb: str) -> dict[str, Any]:
    names = VERBS[verb].target.__struct_fields__
    if "where" in names:
        return {"ids": ["0198c0de-0000-7000-8000-000000000001"]}
    return {name: ["0198c0de-0000-7000-8000-000000000001"] if name == "ids" else "x"
            for name in names}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
async def test_each_verb_needs_its_right(app: offpath.App, verb: str) -> None:
    rights = frozenset(Can) - {VERBS[verb].right}
    site = Site(dashboard(app, auth=auth.token({"ann": TOKEN}, can=rights)))
    for path in ("/api/v1/actions", "/api/v1/actions/preview"):
        answer = await post(site, {"verb": verb, "target": _example(verb)}, path)
        assert (answer.code, answer.document["code"]) == (403, "RIGHT.MISSING")
    assert (await submit(site, verb=verb, id="x", name="x")).code == 403
    assert (await site.get(f"/act?verb={verb}&id=x")).code == 403
    assert await kept(app) == []


async def test_who_may_only_look_is_shown_no_buttons(app: offpath.App) -> None:
    site = site_for_lookers(app)
    job = (await dead_ids(app))[0]
    for path in ("/jobs", "/dead", f"/jobs/{job}", "/queues/images", "/schedules/nightly"):
        text = (await site.get(path)).text
        assert "/act" not in re.findall(r'(?:action|href)="([^"?]*)', text), path
        assert 'type="checkbox"' not in text


async def test_a_read_only_dashboard_changes_nothing(app: offpath.App) -> None:
    site = site_of(app, read_only=True)
    answer = await post(site, {"verb": "queue.pause", "target": {"name": "mail"}})
    assert (answer.code, answer.document["code"]) == (403, "READ_ONLY")
    assert (await submit(site, verb="queue.pause", name="mail")).code == 403
    assert 'action="/act"' not in (await site.get("/jobs")).text
    assert await kept(app) == []


@pytest.mark.parametrize("case", FOREIGN)
@pytest.mark.parametrize("path", ["/act", "/api/v1/actions", "/actions/x/stop"])
async def test_no_other_page_acts(app: offpath.App, site: Site, case: str, path: str) -> None:
    headers, code = FOREIGN[case]
    body = urlencode({"verb": "queue.pause", "name": "mail"}).encode()
    given = {"accept": "application/json", **headers}
    answer = await site.ask("POST", path, headers=given, body=body)
    assert (answer.code, answer.document["code"]) == (403, code)
    assert await kept(app) == []


async def test_looking_changes_nothing(app: offpath.App, site: Site) -> None:
    """No page that is got, with whatever fields, does anything."""
    job = (await dead_ids(app))[0]
    for one in READINGS:
        await site.get(re.sub(r"{\w+}", job, one.page or one.path))
    for verb in VERBS:
        query = urlencode({"verb": verb, "id": job, "name": "mail", "note": "x", "action": job})
        await site.get(f"/act?{query}")
    assert await kept(app) == []
    assert len(await dead_ids(app)) == 3


# -- people ----------------------------------------------------------------------------------------


async def test_a_button_acts_and_leads_back(app: offpath.App, site: Site) -> None:
    job = (await dead_ids(app))[0]
    back = "/dead?task=send_mail"
    answer = await submit(site, verb="job.redrive", id=job, back=back)
    assert answer.code == 303
    place = answer.headers["location"]
    assert place.startswith("/dead?task=send_mail&done=")
    text = (await site.get(place)).text
    assert "1 redriven." in text
    assert "done=" not in re.sub(r'href="/actions/[^"]*"', "", text)
    assert await kept(app) == [("ann", "dashboard", "job.redrive", ActionState.DONE, 1)]


async def test_a_button_for_all_leads_to_a_page_that_tells_of_its_end(site: Site) -> None:
    fields = {"verb": "job.redrive", "match": "state=dead&task=send_mail", "back": "/dead"}
    answer = await submit(site, **fields)
    text = (await site.get(answer.headers["location"])).text
    assert "<span>3 redriven. <a" in text


async def test_an_action_that_is_slow_leads_back_without_its_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, real = asyncio.Event(), actions._progress

    async def late(*given: Any) -> Any:
        await go_on.wait()
        return await real(*given)

    monkeypatch.setattr(actions, "_progress", late)
    monkeypatch.setattr("offpath.web.console.action_routes.SOON", 0.01)
    fields = {"verb": "job.redrive", "match": "state=dead&task=send_mail", "back": "/dead"}
    place = (await submit(site, **fields)).headers["location"]
    text = (await site.get(place)).text
    assert "<span>Under way, none redriven yet. <a" in text
    go_on.set()
    await _ended(site, place.partition("done=")[2])
    assert "<span>3 redriven. <a" in (await site.get(place)).text


async def test_pages_show_what_an_action_did_behind_the_requests_at_once(
    app: offpath.App, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.web.console.shares.FOR", 3600.0)
    monkeypatch.setattr("offpath.web.console.action_routes.SOON", 0.0)
    go_on, real = asyncio.Event(), actions._progress

    async def late(*given: Any) -> Any:
        await go_on.wait()
        return await real(*given)

    monkeypatch.setattr(actions, "_progress", late)
    fields = {"verb": "job.redrive", "match": "state=dead&task=send_mail", "back": "/dead"}
    assert (await submit(site, **fields)).code == 303

    async def redriven() -> bool:
        return '<tr id="job-' not in (await site.get("/jobs?state=dead&task=send_mail")).text

    assert not await redriven()  # and this page would be given for an hour
    go_on.set()
    await eventually(redriven, within=10)


async def test_a_form_that_is_sent_twice_acts_once(app: offpath.App, site: Site) -> None:
    page = (await site.get("/act?verb=queue.pause&name=mail&back=/queues")).text
    action = re.findall(r'name="action" value="([^"]+)"', page)[0]
    for _ in range(2):
        sent = await submit(site, verb="queue.pause", name="mail", action=action)
        assert sent.code == 303
    assert len(await kept(app)) == 1


async def test_the_page_that_confirms_says_how_many(app: offpath.App, site: Site) -> None:
    query = urlencode({"verb": "job.delete", "match": "state=dead&task=send_mail", "back": "/dead"})
    text = (await site.get(f"/act?{query}")).text
    assert "<h1>Discard 3?</h1>" in text
    assert "cannot be brought back" in text
    assert text.count('<tr id="job-') == 3
    before = re.findall(r'name="before" value="([^"]+)"', text)[0]
    fields = {"verb": "job.delete", "match": "state=dead&task=send_mail", "back": "/dead"}
    assert (await submit(site, **fields, before=before, note="old ones")).code == 303


async def test_marked_rows_are_what_is_asked_about(app: offpath.App, site: Site) -> None:
    ids = (await dead_ids(app))[:2]
    query = urlencode({"verb": "job.redrive", "id": ids, "back": "/dead"}, doseq=True)
    text = (await site.get(f"/act?{query}")).text
    assert "<h1>Redrive 2?</h1>" in text
    assert re.findall(r'name="id" value="([^"]+)"', text) == ids


async def test_a_removal_of_many_wants_their_number(
    app: offpath.App, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.operating.previews.FREELY", 2)
    fields = {"verb": "job.delete", "match": "state=dead&task=send_mail", "back": "/dead"}
    page = (await site.get(f"/act?{urlencode(fields)}")).text
    assert "Type <strong>3</strong> to confirm" in page
    refused = await submit(site, **fields, note="because")
    assert refused.code == 409
    assert "confirm it by" in refused.text
    assert 'value="because"' in refused.text
    assert await kept(app) == []
    assert (await submit(site, **fields, confirm="3")).code == 303


async def test_a_note_is_wanted_where_that_was_said(app: offpath.App) -> None:
    site = site_of(app, require_note=True)
    refused = await post(site, {"verb": "queue.pause", "target": {"name": "mail"}, "note": " "})
    assert (refused.code, refused.document["code"]) == (400, "NOTE.MISSING")
    page = await submit(site, verb="queue.pause", name="mail")
    assert (page.code, "Say why" in page.text) == (400, True)
    assert (await submit(site, verb="queue.pause", name="mail", note="a deploy")).code == 303


async def test_a_queue_is_paused_for_a_while(app: offpath.App, site: Site) -> None:
    await submit(site, verb="queue.pause", name="mail", **{"o.seconds": "600"})
    (queue,) = [one for one in await app.queues.list() if one.name == "mail"]
    assert queue.paused_until is not None


@pytest.mark.parametrize("back", ["//evil.example/", "https://evil.example", "/\\evil", ""])
async def test_an_action_leads_nowhere_else(site: Site, back: str) -> None:
    answer = await submit(site, verb="queue.resume", name="images", back=back)
    assert answer.headers["location"].startswith("/?done=")


async def test_a_signal_is_sent_with_its_payload(app: offpath.App, site: Site) -> None:
    fields = {"verb": "job.signal", "target": "order-7", "event": "paid"}
    assert (await submit(site, **fields, **{"o.payload": "{"})).code == 400
    assert (await submit(site, **fields, **{"o.payload": '{"token": "t0p"}'})).code == 303
    found = (await site.get("/api/v1/actions")).document["items"]
    assert [one["options"] for one in found] == [{"payload": {"token": "***"}}]
    looker = Site(dashboard(app, auth=auth.token({"bob": TOKEN}, can=VIEWER)))
    (one,) = (await looker.get("/api/v1/actions")).document["items"]
    assert "t0p" not in str(one)


async def test_a_long_action_is_stopped(
    app: offpath.App, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.web.console.places.Place.carry", lambda *_: None)
    told = (await post(site, {"verb": "job.redrive", "target": DEAD_MAIL})).document
    assert told["state"] == "running"
    page = (await site.get(f"/actions/{told['id']}")).text
    assert f'action="/actions/{told["id"]}/stop"' in page
    assert (await submit(site, f"/actions/{told['id']}/stop")).code == 303
    stopped = await post(site, b"", f"/api/v1/actions/{told['id']}/stop")
    assert stopped.document["state"] == "stopped"
    rows = (await site.get("/api/v1/actions")).document["items"]
    assert {one["text"] for one in rows if one["verb"] == "action.stop"} == {
        "1 stopped",
        "0 stopped, 1 left alone: 1 had ended already",
    }
    assert "1 stopped" in (await site.get("/actions")).text
    assert len(await dead_ids(app)) == 3
    missing = await post(site, b"", f"/api/v1/actions/{told['id'][:-1]}0/stop")
    assert missing.code in {404, 200}


async def test_a_stop_wants_a_reason_where_each_action_does(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.web.console.places.Place.carry", lambda *_: None)
    site = site_of(app, require_note=True)
    given = {"verb": "job.redrive", "target": DEAD_MAIL, "note": "it is up again"}
    told = (await post(site, given)).document
    path, api = f"/actions/{told['id']}/stop", f"/api/v1/actions/{told['id']}/stop"
    assert 'name="note"' in (await site.get(f"/actions/{told['id']}")).text
    for refused in (await submit(site, path), await post(site, b"", api)):
        assert (refused.code, "NOTE.MISSING" in refused.text) == (400, True)
    assert (await submit(site, path, note="wrong queue")).code == 303
    body = b'{"note": "wrong one"}'
    headers = {**BEARER, "content-type": "application/json", "content-length": str(len(body))}
    assert (await site.ask("POST", api, headers=headers, body=body)).code == 200
    rows = (await site.get("/api/v1/actions?verb=action.stop")).document["items"]
    assert [one["note"] for one in rows] == ["wrong one", "wrong queue"]


async def test_jobs_of_each_state_have_their_verbs(app: offpath.App, site: Site) -> None:
    async def verbs(job: str) -> set[str]:
        text = (await site.get(f"/jobs/{job}")).text
        return set(re.findall(r'(?:verb=|value=")(job\.\w+)', text))

    async def one(**where: Any) -> str:
        return (await app.jobs.find(limit=1, **where)).items[0].id

    assert await verbs(await one(state=JobState.DEAD)) == {"job.redrive", "job.delete"}
    assert await verbs(await one(state=JobState.SUCCEEDED)) == {"job.delete"}
    assert await verbs(await one(task="export")) == {
        "job.cancel",
        "job.run_now",
        "job.amend",
    }


async def test_every_verb_is_in_the_description(site: Site) -> None:
    described = (await site.get("/api/v1/openapi.json")).document
    asked = described["components"]["schemas"]["ActionAsked"]["oneOf"]
    assert [one["properties"]["verb"]["const"] for one in asked] == list(VERBS)
    known = described["components"]["schemas"]
    for one in asked:
        for part in ("target", "options"):
            assert one["properties"][part]["$ref"].rsplit("/", 1)[1] in known
