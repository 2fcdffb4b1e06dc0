"""A real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright

from offpath.store.backends import backup
from offpath.web.console import places
from tests.browser.barriers import axe_script
from tests.browser.scene import fill, make_app
from tests.browser.serving import CHROMIUM, TOKEN, Served, served
from tests.browser.watched import watched
from tests.conftest import missing_server


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine is not a database that hangs."""
    monkeypatch.setattr(places, "PATIENCE", 30.0)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a store with one of everything, made once."""
    url = f"sqlite:///{tmp_path_factory.mktemp('scene') / 'scene.db'}"
    asyncio.run(fill(make_app(url)))
    return url


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core."""
    return axe_script(tmp_path_factory.mktemp("axe"))


@pytest.fixture
def scene(filled: str, tmp_path: Path) -> str:
    """The URL of a copy of it, which a test may change."""
    backup(filled, tmp_path / "scene.db")
    return f"sqlite:///{tmp_path / 'scene.db'}"


@pytest.fixture
def site(scene: str) -> Iterator[Served]:
    """The dashboard of that store."""
    with served(scene, title="shop, production", accent="red", refresh=0.5) as running:
        yield running


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A headless browser."""
    if not Path(CHROMIUM).exists():
        missing_server("no chromium: apt-get install chromium")
    async with async_playwright() as driver:
        made = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        await made.close()


@pytest.fixture
async def page(browser: Browser, site: Served) -> AsyncIterator[Page]:
    """A page that is signed in; whatever its policy forbids, or raises, fails the test."""
    async with watched(browser, site) as made:
        yield made


@pytest.fixture
def paths(site: Served) -> list[str]:
    """Every page of the scene."""

    def read(path: str) -> dict[str, list[dict[str, object]]]:
        asked = urllib.request.Request(f"{site.url}/api/v1/{path}")
        asked.add_header("Authorization", f"Bearer {TOKEN}")
        with urllib.request.urlopen(asked, timeout=30) as answer:
            found: dict[str, list[dict[str, object]]] = json.load(answer)
            return found

    job = read("dead")["items"][0]
    info = read("workers")["items"][0]["info"]
    worker = info["id"] if isinstance(info, dict) else ""
    return ["", "jobs", "jobs?state=cancelled", "dead", f"jobs/{job['id']}",
            f"groups/{job['group_id']}", "queues", "queues/exports", "stats", "schedules",
            "groups",
            f"groups/{read('groups')['items'][0]['id']}",
            "gates", "signals", "tasks", "tasks/album", "sweeps", "runs", "config", "log",
            f"log/{read('events')['items'][0]['id']}", "endpoints/shop", "routers/iu/attempts",
            "routers/iu/checks",
            "schedules/nightly", "limits", "workers", f"workers/{worker}", "health",
            "messages", f"messages/{read('messages')['items'][0]['id']}", "endpoints", "routers",
            "routers/iu", "actions", "act?verb=job.redrive&match=state%3Ddead&back=/dead",
            "act?verb=queue.pause&name=mail&back=/queues",
            "act?verb=job.amend&match=queue%3Dmail&back=/jobs",
            "runbooks/waiting"]  # fmt: skip
