"""Pages of messages, endpoints and routers, and what is done there."""

from __future__ import annotations

from functools import partial
from html import escape

import pytest

import offpath
from offpath.model.action import ActionFilter, ActionState
from tests.browser.scene import SECRET
from tests.unit.web.dashboard.rig import Site, site_for_lookers, site_of
from tests.unit.web.dashboard.test_acting import submit


async def _states(app: offpath.App) -> list[ActionState]:
    return [one.state for one in await app.store().actions(ActionFilter())]


async def test_messages_are_filtered_as_their_commands_do(site: Site) -> None:
    told = (await site.get("/api/v1/messages?box=out&stream=billing")).document
    assert [(one["topic"], one["state"]) for one in told["items"]] == [("order.sent", "pending")]
    assert {one["stream"]: one["due"] for one in told["streams"]}["billing"] == 1
    assert (await site.get("/api/v1/messages?box=side")).code == 400
    assert (await site.get("/api/v1/messages?colour=red")).code == 400


async def test_one_message_shows_what_it_carries_without_secrets(
    app: offpath.App, site: Site
) -> None:
    found = (await site.get("/api/v1/messages?topic=order.paid")).document["items"]
    one = (await site.get(f"/api/v1/messages/{found[0]['id']}")).document
    assert one["payload"] == {"order": 7, "token": "***"}
    hidden = await site_for_lookers(app).get(f"/api/v1/messages/{found[0]['id']}")
    assert hidden.document["payload"] == "hidden"
    page = await site.get(f"/messages/{found[0]['id']}")
    assert SECRET not in page.text
    assert (await site.get(f"/messages/{found[0]['id'][:-1]}x")).code == 400


async def test_an_endpoint_is_paused_and_resumed(app: offpath.App, site: Site) -> None:
    shown = (await site.get("/endpoints")).text
    assert "verb=endpoint.pause" in shown
    assert "whsec" not in shown
    await submit(site, verb="endpoint.pause", name="shop", note="its certificate is over")
    (one,) = await app.webhooks.list()
    assert (one.state, one.reason) == ("paused", "its certificate is over")
    await submit(site, verb="endpoint.resume", name="shop")
    assert (await app.webhooks.get("shop")).state == "enabled"


async def test_a_router_is_opened_and_its_route_switched(app: offpath.App, site: Site) -> None:
    assert "gate of all routers is closed" in (await site.get("/routers/iu")).text
    await submit(site, verb="router.open", name="iu")
    fields = {"verb": "route.switch", "router": "iu", "route": "call"}
    await submit(site, **fields, **{"o.enabled": "true"})
    await submit(site, **fields, **{"o.dry_run": "false"})
    record = await app.routers.stored("iu").record()
    assert record.open
    assert [(one.enabled, one.dry_run) for one in record.routes] == [(True, False)]
    assert (await site.get("/routers/nowhere")).code == 404
    await submit(site, verb="route.switch", router="iu", route="no")
    assert await _states(app) == [ActionState.FAILED, *[ActionState.DONE] * 3]


async def test_dead_messages_are_discarded_by_their_filter(app: offpath.App, site: Site) -> None:
    text = (await site.get("/act?verb=message.discard&match=box%3Dout&back=/messages")).text
    assert "Nothing matches any more" in text
    found = (await site.get("/api/v1/messages?topic=order.paid")).document["items"]
    await submit(site, verb="message.discard", id=found[0]["id"])
    (done,) = await app.store().actions(ActionFilter())
    assert (done.changed, done.reasons) == (0, {"is_pending": 1})


async def test_a_list_of_messages_says_how_far_it_came(
    app: offpath.App, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (await site.get("/api/v1/messages")).document
    assert (whole["exhausted"], whole["next"], whole["looked_at_most"]) == (True, None, 20_000)
    first = (await site.get("/api/v1/messages?limit=1")).document
    rest = (await site.get(f"/api/v1/messages?after={first['next']}")).document
    assert [one["id"] for one in [*first["items"], *rest["items"]]] == [
        one["id"] for one in whole["items"]
    ]
    assert (await site.get("/api/v1/messages?after=x")).code == 400
    look = app.store().look_at_messages
    monkeypatch.setattr(app.store(), "look_at_messages", partial(look, most=1))
    page = (await site_of(app).get("/messages?topic=nobody.has.it")).text
    assert "None of these match." in page
    assert "Looked at 20,000 messages, back to" in page
    assert "Look further" in page


async def test_the_overview_tells_of_events_on_their_way(app: offpath.App, site: Site) -> None:
    told = (await site.get("/api/v1/overview")).document
    assert "iu" in {one["name"] for one in told["routers"]}
    assert told["endpoints"] == []
    await app.webhooks.pause("shop", "password=hunter2")
    told = (await site.get("/api/v1/overview")).document
    (shut,) = told["endpoints"]
    assert (shut["name"], shut["state"]) == ("shop", "paused")
    assert "hunter2" not in shut["reason"]
    page = (await site.get("/")).text
    assert 'id="events-title"' in page
    assert 'href="/endpoints/shop"' in page
    assert 'href="/routers/iu"' in page
    assert "hunter2" not in page


async def test_a_router_is_told_beside_the_newest_event_of_its_domain(
    app: offpath.App, site: Site
) -> None:
    told = (await site.get("/api/v1/routers/iu")).document
    newest = (await site.get("/api/v1/events?domain=iu&limit=1")).document["items"][0]
    assert told["head"] == newest["position"] > 0
    assert f"the newest event of iu is at {told['head']}" in (await site.get("/routers/iu")).text
    router = app.router("bare", domain="nothing", start="beginning")
    router.route(type="paid", deliver=app.tasks["add"], name="call")
    await router.record()
    assert (await site.get("/api/v1/routers/bare")).document["head"] == 0
    assert "nothing has no event" in (await site.get("/routers/bare")).text


async def test_a_task_a_router_and_a_stream_lead_to_their_charts(site: Site) -> None:
    for page, link, words in (
        ("/tasks/add", "/stats?range=1h&task=add", "of the task add"),
        ("/routers/iu", "/stats?router=iu", "of the router iu"),
        ("/messages?stream=billing", "/stats?stream=billing", "of the stream billing"),
    ):
        assert f'href="{escape(link)}"' in (await site.get(page)).text
        charts = await site.get(link)
        assert (charts.code, words in charts.text) == (200, True)
