"""Several faults at once: as many actions, one confirmation, and the age of the oldest death."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

import offpath
from offpath.config import load_settings
from offpath.operating import previews
from offpath.web.console import several
from tests.unit.web.dashboard.rig import BEARER, Answer, Site, site_of

FORM = {**BEARER, "content-type": "application/x-www-form-urlencoded"}


async def _faults(site: Site) -> list[str]:
    """The filter of each fault, as its mark has it."""
    items = (await site.get("/api/v1/faults")).document["items"]
    return [
        urlencode({"state": "dead", "task": one["task"], "reason": one["reason"],
                   "fault": one["key"]})
        for one in items
    ]  # fmt: skip


async def _confirmed(site: Site, verb: str, **more: str) -> tuple[Answer, list[tuple[str, str]]]:
    """The page that confirms all faults, and the fields of its form."""
    pairs = [("verb", verb), *(("match", one) for one in await _faults(site)), *more.items()]
    page = await site.get(f"/act?{urlencode(pairs)}")
    ids = re.findall(r'name="action" value="([^"]+)"', page.text)
    before = re.search(r'name="before" value="([^"]+)"', page.text)
    assert before is not None
    return page, [*pairs, *(("action", one) for one in ids), ("before", before[1])]


async def _dead(app: offpath.App) -> int:
    return len((await app.dead.list(limit=200)).items)


async def test_marked_faults_are_redriven_by_an_action_each(app: offpath.App, site: Site) -> None:
    page, fields = await _confirmed(site, "job.redrive")
    assert "Redrive 6?" in re.sub(r"\s+", " ", page.text)
    assert "Of 2 faults, each by an action of its own." in page.text
    for _ in range(2):  # a form that is sent twice acts once
        sent = await site.ask("POST", "/act", headers=FORM, body=urlencode(fields).encode())
        assert (sent.code, sent.headers["location"]) == (303, "/actions")
    assert await _dead(app) == 0
    done = (await site.get("/api/v1/actions")).document["items"]
    assert sorted(one["changed"] for one in done) == [3, 3]
    assert {one["verb"] for one in done} == {"job.redrive"}


async def test_many_of_several_faults_are_removed_by_their_number(
    app: offpath.App, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (several, previews):
        monkeypatch.setattr(module, "FREELY", 4)
    page, fields = await _confirmed(site, "job.delete")
    assert "Type <strong>6</strong> to confirm" in page.text
    for given, code in (("3", 409), ("6", 303)):
        body = urlencode([*fields, ("confirm", given)]).encode()
        assert (await site.ask("POST", "/act", headers=FORM, body=body)).code == code
        assert await _dead(app) == (6 if code == 409 else 0)


@pytest.mark.parametrize(("limit", "told"), [(3_600.0, "alert at 1h"), (1e-6, "over the limit of")])
async def test_the_oldest_death_is_told_against_the_limit_of_health(
    limit: float, told: str
) -> None:
    settings = load_settings(url="memory://", dead_age_limit=limit)
    app = offpath.App(settings=settings, auto_start=False)

    @app.task(retry=1)
    async def boom() -> None:
        raise RuntimeError

    async with app, app.worker():
        job = await boom.enqueue()
        with pytest.raises(offpath.JobEnded):
            await job.result(timeout=50)
        site = site_of(app)
        assert (await site.get("/api/v1/counts")).document["dead_age_limit"] == limit
        assert told in (await site.get("/dead")).text
