"""Empty pages teach: a link to the guide, which is shipped as the runbooks are."""

from __future__ import annotations

import re

import pytest

import offpath
from offpath.web.console.runbooks import guide
from tests.architecture.sources import PACKAGE, ROOT
from tests.unit.web.dashboard.rig import Site, site_of

TEMPLATES = PACKAGE / "web" / "console" / "templates"


def test_every_guide_is_a_page_that_leads_to_pages() -> None:
    for path in (ROOT / "docs" / "guides").glob("*.md"):
        text = guide(path.stem)
        assert text is not None, path.stem
        assert "<img" not in text
        assert "<!--" not in text
        links = re.findall(r'href="([^"]*)"', text)
        assert [one for one in links if guide(one) is None] == []
    assert guide("../runbooks/jobs") is None


def test_every_guide_that_a_page_names_is_there() -> None:
    named = {
        found
        for path in TEMPLATES.iterdir()
        for found in re.findall(r"parts\.guide\(base, '([^']+)'", path.read_text("utf-8"))
    }
    assert len(named) > 8
    assert [one for one in named if guide(one) is None] == []


@pytest.mark.parametrize(
    "path",
    ["jobs", "dead", "groups", "gates", "signals", "tasks", "queues", "schedules", "limits",
     "workers", "messages", "endpoints", "log", "routers", "actions", "runs"],
)  # fmt: skip
async def test_an_empty_page_leads_to_its_guide(path: str) -> None:
    async with offpath.App("memory://", auto_start=False) as app:
        site = site_of(app)
        page = (await site.get(f"/{path}")).text
        (link,) = set(re.findall(r'href="(/guides/[^"]+)"', page))
        shown = await site.get(link)
        assert shown.code == 200
        assert "<h1>" in shown.text


async def test_a_guide_that_there_is_not_is_not_there(site: Site) -> None:
    assert (await site.get("/guides/nothing")).code == 404
