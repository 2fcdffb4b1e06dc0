"""Files for browsers: those of others as they came, all of them small; templates that escape."""

from __future__ import annotations

import gzip
import hashlib
import re
import tomllib

import pytest

from offpath.web.console.renderer import asset
from offpath.web.console.runbooks import runbook, runbook_of
from tests.architecture.sources import PACKAGE, ROOT

CONSOLE = PACKAGE / "web" / "console"
VENDORED = tomllib.loads((CONSOLE / "vendored" / "VENDORED.toml").read_text("utf-8"))["file"]


@pytest.mark.parametrize("one", VENDORED, ids=lambda one: str(one["name"]))
def test_a_file_of_others_is_as_it_came(one: dict[str, str]) -> None:
    content = (CONSOLE / one["path"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == one["sha256"]
    assert one["version"] in one["path"]
    assert (CONSOLE / one["licence_text"]).stat().st_size > 0


def test_every_minified_file_is_listed() -> None:
    minified = {f"static/{path.name}" for path in (CONSOLE / "static").glob("*.min.*")}
    assert minified == {one["path"] for one in VENDORED}


@pytest.mark.parametrize(("ending", "most"), [("js", 60_000), ("css", 15_000)])
def test_what_a_browser_loads_is_small(ending: str, most: int) -> None:
    files = list((CONSOLE / "static").glob(f"*.{ending}"))
    assert files
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < most


def test_templates_always_escape() -> None:
    for path in (CONSOLE / "templates").iterdir():
        text = path.read_text("utf-8")
        found = re.findall(r"\|\s*safe|autoescape|<style|style=|<script>|hx-on|\son\w+=", text)
        assert (path.name, found) == (path.name, [])
    trusting = {path.name for path in CONSOLE.glob("*.py") if "Markup(" in path.read_text("utf-8")}
    assert trusting == {"runbooks.py"}


@pytest.mark.parametrize("name", ["../rendering.py", "nothing.css", "", "tokens.css.bak"])
def test_no_other_file_is_handed_out(name: str) -> None:
    assert asset(name) is None


def test_every_runbook_is_a_page_and_leads_to_pages() -> None:
    for path in (ROOT / "docs" / "runbooks").glob("*.md"):
        text = runbook(path.stem)
        assert text is not None
        links = re.findall(r'href="([^"]*)"', text)
        assert [one for one in links if runbook(one) is None] == []
    assert runbook("../guides/cli") is None


@pytest.mark.parametrize(
    ("reason", "page"),
    [
        ("no worker is live", "workers"),
        ("the oldest due job of queue mail has waited for 412 s, more than 300 s", "waiting"),
        ("the oldest unrouted event of router iu has waited for 412 s, more than 300 s", "routers"),
        ("12 new dead letters of task send_mail in 15 minutes", "jobs"),
        ("3 new dead letters of stream mail in 15 minutes", "outbox"),
        ("3 new dead letters of router iu in 15 minutes", "routers"),
        ("loop fetch: 4 turns in a row failed", "loops"),
        ("worker w1: loop fetch: no success for 70 s", "loops"),
        ("settlement run fees for 2026-11 failed: x", "settlement"),
        ("limit.full.smtp: it is full", "findings"),
        ("no live worker serves the queue exports", "workers"),
        ("something new", None),
    ],
)
def test_each_reason_has_its_runbook(reason: str, page: str | None) -> None:
    assert runbook_of(reason) == page
    assert page is None or runbook(page) is not None
