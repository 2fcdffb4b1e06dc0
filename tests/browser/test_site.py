"""The documentation site in a real browser: no barrier, nothing from elsewhere, a search."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Request, TimeoutError

from tests.browser.barriers import RULES
from tools import site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
APART = {
    "empty-table-header": {"enabled": False},  # the corner of a table has no name
    "landmark-unique": {"enabled": False},  # the theme's own, around its copy buttons
}
SHOWN = ("index", "docs/index", "docs/quickstart", "docs/errors", "docs/reference/offpath")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: a request is not news."""


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site."""
    folder: Path = site.build(tmp_path_factory.mktemp("site"))
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


async def test_the_site_can_be_read_by_everybody_and_asks_nobody_else(
    browser: Browser, docs: str, axe: str
) -> None:
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        for path in SHOWN:
            await page.goto(f"{docs}/{path}.html")
            assert (scheme, path, await _barriers(page, axe)) == (scheme, path, [])
    await page.keyboard.press("Control+k")
    await page.keyboard.type("redrive")
    while not page.url.endswith("redrive"):  # Enter leads to the first result, once there is one
        await page.keyboard.press("Enter")
        with suppress(TimeoutError):
            await page.wait_for_url("**redrive", timeout=500)
    assert [url for url in asked if not url.startswith((docs, "data:", "blob:"))] == []
    await page.close()


async def _barriers(page: Page, axe: str) -> list[tuple[str, list[str]]]:
    await page.evaluate(axe)
    options = json.dumps({"runOnly": RULES, "rules": APART})
    found = await page.evaluate(f"axe.run(document, {options}).then((r) => r.violations)")
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
