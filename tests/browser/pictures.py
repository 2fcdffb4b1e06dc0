"""Pictures of every page: ``python -m tests.browser.pictures FOLDER``, to be looked at."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from tests.browser.scene import fill, make_app
from tests.browser.serving import CHROMIUM, Served, served

PAGES = (
    "", "jobs", "dead", "queues", "queues/exports", "schedules", "schedules/nightly", "limits",
    "workers", "health", "runbooks/waiting", "messages", "endpoints", "routers", "routers/iu",
    "actions", "groups", "gates", "signals", "tasks", "tasks/album", "sweeps", "config", "log",
    "endpoints/shop", "routers/iu/checks", "routers/iu/attempts",
    "act?verb=job.redrive&match=state%3Ddead&back=/dead",
)  # fmt: skip
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1440, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1440, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 320, "height": 700}},
}


async def take(folder: Path, only: str = "") -> None:
    """Take all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        url = f"sqlite:///{place}/scene.db"
        await fill(make_app(url))
        with served(url, title="shop, production", accent="red") as site:
            async with async_playwright() as driver:
                browser = await driver.chromium.launch(
                    executable_path=CHROMIUM, args=["--no-sandbox"]
                )
                for look in LOOKS:
                    await _look(browser, site, folder, look, only)
                await browser.close()


async def _look(browser: Browser, site: Served, folder: Path, look: str, only: str) -> None:
    context = await browser.new_context(**LOOKS[look])  # type: ignore[arg-type]
    page = await context.new_page()
    await site.sign_in(page)
    job = await page.evaluate("async () => (await (await fetch('api/v1/dead')).json()).items[0].id")
    await page.goto(f"{site.url}/workers")
    worker = await page.locator("tbody a").first.get_attribute("href")
    for path in (*PAGES, f"jobs/{job}", (worker or "").strip("/")):
        name = path.partition("?")[0].split("/")[0] + ("-one" if "/" in path else "") or "overview"
        if only and only not in name:
            continue
        await page.goto(f"{site.url}/{path}")
        await page.screenshot(path=folder / f"{name}-{look}.png", full_page=look == "phone")
    await context.close()


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1]), *sys.argv[2:]))
