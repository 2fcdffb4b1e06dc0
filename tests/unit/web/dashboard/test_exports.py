"""Exports: a whole list as CSV or JSON lines, by rights, bounded, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

import offpath
from offpath.web.console import exports
from offpath.web.console.exports import KINDS, cell, exported
from offpath.web.console.readings import READINGS
from tests.unit.web.dashboard.rig import BEARER, Site, site_for_lookers, site_of

LISTS = [one for one in READINGS if exported(one)]


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


async def test_each_list_is_exported_as_its_json_has_it(site: Site) -> None:
    job = (await site.get("/api/v1/dead")).document["items"][0]["id"]
    for one in LISTS:
        path = f"/api/v1{one.path.replace('{router}', 'iu').replace('{id}', job)}"
        told = (await site.get(f"{path}?limit=200")).document["items"]
        for accept, kind in (("text/csv", "csv"), ("application/x-ndjson", "ndjson")):
            answer = await site.get(path, headers={**BEARER, "accept": accept})
            assert (path, answer.code) == (path, 200)
            assert answer.headers["content-type"] == KINDS[kind]
            assert f'filename="{one.name}.{kind}"' in answer.headers["content-disposition"]
            if kind == "ndjson":
                assert [json.loads(line) for line in answer.text.splitlines()] == told
            else:
                heads, *rows = table(answer.text)
                assert (one.name, len(rows)) == (one.name, len(told))
                assert all(set(heads) == set(row) for row in told)
        linked = await site.get(f"{path}?format=csv")
        assert len(table(linked.text)) == len(told) + 1


async def test_pages_are_gone_through_to_the_bound(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "PAGE", 4)
    every = (await site.get("/api/v1/jobs?format=ndjson")).text.splitlines()
    assert len(every) > 50
    assert len({json.loads(one)["id"] for one in every}) == len(every)
    monkeypatch.setattr(exports, "MOST_ROWS", 10)
    assert (await site.get("/api/v1/jobs?format=ndjson")).text.splitlines() == every[:10]
    after = json.loads(every[9])["id"]
    rest = (await site.get(f"/api/v1/jobs?format=ndjson&after={after}")).text.splitlines()
    assert rest == every[10:20]


async def test_the_filter_of_a_list_is_that_of_its_export(site: Site) -> None:
    told = (await site.get("/api/v1/jobs?state=dead&task=send_mail&format=ndjson")).text
    assert [json.loads(one)["task"] for one in told.splitlines()] == ["send_mail"] * 3
    assert (await site.get("/api/v1/jobs?state=lost&format=csv")).code == 400
    assert (await site.get("/api/v1/jobs?format=pdf")).code == 400
    assert (await site.get("/api/v1/queues?format=csv")).code == 400


async def test_an_export_is_a_payload(app: offpath.App) -> None:
    for site in (site_for_lookers(app), site_of(app, payloads="hidden")):
        for one in LISTS:
            path = f"/api/v1{one.path.replace('{router}', 'iu')}?format=csv"
            answer = await site.get(path)
            assert (answer.code, answer.document["code"]) == (403, "RIGHT.MISSING")
        assert "format=csv" not in (await site.get("/jobs")).text


async def test_secrets_leave_by_no_export(site: Site) -> None:
    for one in LISTS:
        for kind in KINDS:
            path = f"/api/v1{one.path.replace('{router}', 'iu')}?format={kind}"
            assert "hunter2-marker" not in (await site.get(path)).text


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
async def test_no_cell_is_a_formula(start: str) -> None:
    made = offpath.App("memory://")

    @made.task
    async def add(a: int) -> int:
        return a

    async with made:
        await add.options(queue="q", tags=[f"x{start}1"]).enqueue(1)
        await made.publish(f"{start}cmd", {"n": 1})
        text = (await site_of(made).get("/api/v1/messages?format=csv")).text
    heads, row = table(text)
    assert row[heads.index("topic")] == f"'{start}cmd"


def test_a_cell_is_plain_whatever_it_holds() -> None:
    texts = ("\tcmd", "\rcmd", "=1+1", "a=b", "")
    assert [cell(one) for one in texts] == ["'\tcmd", "'\rcmd", "'=1+1", "a=b", ""]
    assert [cell(one) for one in (-5, 1.5, True, None)] == [-5, 1.5, True, None]
    assert cell({"a": [1]}) == '{"a":[1]}'
    assert cell(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00Z"


async def test_a_page_of_a_list_has_its_links(site: Site) -> None:
    page: Any = await site.get("/jobs?state=dead")
    assert "/api/v1/jobs?state=dead&amp;format=csv" in page.text
    assert "format=ndjson" in page.text
    assert "format=csv" not in (await site.get("/queues")).text
