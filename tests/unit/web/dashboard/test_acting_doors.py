"""The doors of what changes something: every verb, money's too, by every way that asks for it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

import offpath
from offpath.economy.operating.verbs import MONEY_VERBS
from offpath.model.action import ActionFilter
from offpath.operating.verbs import VERBS
from offpath.web import auth, dashboard
from offpath.web.console.application import API
from offpath.web.viewers import ADMIN, Can
from tests.unit.web.dashboard.rig import TOKEN, Answer, Site
from tests.unit.web.dashboard.test_acting import FORM, JSON
from tests.unit.web.dashboard.test_doors import WRONG

ALL = {one.name: one for one in (*VERBS.values(), *MONEY_VERBS)}
"""The verbs of an app with an economy. The table has money's once an economy was made."""
ID = "0198c0de-0000-7000-8000-000000000001"
TRIED = {
    Can.OPERATE: ("queue.pause", {"name": "mail"}, None),
    Can.ACT: ("job.signal", {"target": "order-7", "event": "paid"}, None),
    Can.ENQUEUE: ("job.enqueue", {"task": "count"}, None),
    Can.MONEY: ("economy.pause", {}, "economy"),
}
"""A verb of each right, with its target and the words that confirm it."""


def site_for(app: offpath.App, can: frozenset[Can] = ADMIN, *, read_only: bool = False) -> Site:
    return Site(dashboard(app, auth=auth.token({"ann": TOKEN}, can=can), read_only=read_only))


def _target(verb: str) -> dict[str, Any]:
    names = ALL[verb].target.__struct_fields__
    if "where" in names:
        return {"ids": [ID]}
    return {name: [ID] if name == "ids" else "x" for name in names}


async def _ways(site: Site, verb: str, **headers: str) -> dict[str, Answer]:
    """The answers to all requests that ask for a verb."""
    body = msgspec.json.encode({"verb": verb, "target": _target(verb), "confirm": "x"})
    fields = {name: value for name, value in _target(verb).items() if name != "ids"}
    form = urlencode({"verb": verb, "id": ID, "confirm": "x", **fields})
    json_of, form_of = {**JSON, **headers}, {**FORM, "accept": "application/json", **headers}
    return {
        "asked": await site.ask("POST", f"{API}/actions", headers=json_of, body=body),
        "previewed": await site.ask("POST", f"{API}/actions/preview", headers=json_of, body=body),
        "confirmed": await site.ask("POST", "/act", headers=form_of, body=form.encode()),
        "looked at": await site.ask("GET", f"/act?{form}", headers=form_of),
    }


async def _stops(site: Site, action: str, **headers: str) -> dict[str, Answer]:
    """The answers to both requests that stop an action."""
    form_of = {**FORM, "accept": "application/json", **headers}
    return {
        "api": await site.ask("POST", f"{API}/actions/{action}/stop", headers={**JSON, **headers}),
        "page": await site.ask("POST", f"/actions/{action}/stop", headers=form_of),
    }


async def _done(app: offpath.App) -> list[str]:
    """Events of what was done, which are kept."""
    return [one.id for one in await app.store().actions(ActionFilter())]


async def test_all_verbs_of_an_app_with_an_economy_are_tried(house: offpath.App) -> None:
    assert dict(VERBS) == ALL


@pytest.mark.parametrize("verb", ALL)
async def test_each_verb_needs_its_right_by_every_way(house: offpath.App, verb: str) -> None:
    site = site_for(house, ADMIN - {ALL[verb].right})
    for way, answer in (await _ways(site, verb)).items():
        assert (way, answer.code, answer.document["code"]) == (way, 403, "RIGHT.MISSING")
    assert await _done(house) == []


@pytest.mark.parametrize("verb", ALL)
async def test_a_read_only_dashboard_refuses_each_verb(house: offpath.App, verb: str) -> None:
    site = site_for(house, read_only=True)
    for way, answer in (await _ways(site, verb)).items():
        assert (way, answer.code, answer.document["code"]) == (way, 403, "READ_ONLY")
    assert await _done(house) == []


@pytest.mark.parametrize("credentials", WRONG)
async def test_nothing_is_done_without_credentials(house: offpath.App, credentials: str) -> None:
    given = {"authorization": "", **WRONG[credentials]}
    for verb in ALL:
        site = site_for(house)  # five guesses are free, and four are taken
        for way, answer in (await _ways(site, verb, **given, **_FROM_HERE)).items():
            assert (verb, way, answer.code) == (verb, way, 401)
    for way, answer in (await _stops(site_for(house), ID, **given, **_FROM_HERE)).items():
        assert (way, answer.code) == (way, 401)
    assert await _done(house) == []
    assert not await house.economy.paused()


_FROM_HERE = {"sec-fetch-site": "same-origin"}
"""A page of the dashboard's own: the credentials are what is refused."""


@pytest.mark.parametrize("right", TRIED)
async def test_a_stop_needs_the_right_of_what_it_stops(house: offpath.App, right: Can) -> None:
    @house.task
    async def count() -> None:
        """Never run."""

    verb, target, confirm = TRIED[right]
    body = msgspec.json.encode({"verb": verb, "target": target, "confirm": confirm})
    asked = await site_for(house).ask("POST", f"{API}/actions", headers=JSON, body=body)
    assert (asked.code, asked.document["state"]) == (200, "done")
    before = await _done(house)
    lacking, looking = site_for(house, ADMIN - {right}), site_for(house, read_only=True)
    for site, code in ((lacking, "RIGHT.MISSING"), (looking, "READ_ONLY")):
        for way, answer in (await _stops(site, asked.document["id"])).items():
            assert (way, answer.code, answer.document["code"]) == (way, 403, code)
    assert await _done(house) == before
