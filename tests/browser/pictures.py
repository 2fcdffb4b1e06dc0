"""Pictures of every page: ``python -m tests.browser.pictures FOLDER``, to be looked at.

``python -m tests.browser.pictures --docs`` makes those that the README and the guide show.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from tests.browser.scene import fill, make_app
from tests.browser.serving import CHROMIUM, Served, served

PAGES = (
    "", "stats", "jobs", "dead", "queues", "queues/exports", "schedules", "schedules/nightly",
    "limits", "workers", "health", "runbooks/waiting", "messages", "endpoints", "routers",
    "routers/iu", "actions", "groups", "gates", "signals", "tasks", "tasks/send_mail",
    "sweeps", "config", "log",
    "endpoints/shop", "routers/iu/checks", "routers/iu/attempts",
    "act?verb=job.redrive&match=state%3Ddead&back=/dead",
)  # fmt: skip
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1440, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1440, "height": 900}},
    "tablet": {"color_scheme": "dark", "viewport": {"width": 768, "height": 1024}},
    "no-red": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "no-colour": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 320, "height": 700}},
}
DEFICIENCIES = {"no-red": "deuteranopia", "no-colour": "achromatopsia"}
"""The looks that are as some people see: what tells states apart must not be a colour alone."""
SHOWN = Path(__file__).parents[2] / "docs" / "pictures"
BEST = {
    "overview": ("", "light", 1280),
    "dead": ("dead", "light", 1280),
    "job-dark": ("jobs/{job}", "dark", 1280),
    "group": ("groups/{group}", "light", 1280),
    "redrive": ("act?verb=job.redrive&match=state%3Ddead%26task%3Dsend_mail&back=/dead",
                "dark", 1280),
    "phone": ("dead", "light", 390),
}  # fmt: skip
"""The pictures that are shown to readers: the page, the theme, the width."""


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


async def show(folder: Path) -> None:
    """Make the pictures that readers are shown."""
    with tempfile.TemporaryDirectory() as place:
        url = f"sqlite:///{place}/scene.db"
        await fill(make_app(url, lively=""), lively="")
        with served(url, title="shop, production", accent="teal") as site:
            async with async_playwright() as driver:
                browser = await driver.chromium.launch(
                    executable_path=CHROMIUM, args=["--no-sandbox"]
                )
                for name, (path, theme, width) in BEST.items():
                    context = await browser.new_context(
                        color_scheme="dark" if theme == "dark" else "light",
                        viewport={"width": width, "height": 780},
                    )
                    page = await context.new_page()
                    await site.sign_in(page)
                    await page.goto(f"{site.url}/{path.format(**await _ids(page))}")
                    await page.screenshot(path=folder / f"{name}.png")
                    await context.close()
                await browser.close()


async def _ids(page: Page) -> dict[str, str]:
    found: dict[str, str] = await page.evaluate("""async () => {
        const first = async (name) => (await (await fetch(`api/v1/${name}`)).json()).items[0].id;
        return {job: await first("dead?task=send_mail"), group: await first("groups")};
    }""")
    return found


async def _look(browser: Browser, site: Served, folder: Path, look: str, only: str) -> None:
    context = await browser.new_context(**LOOKS[look])  # type: ignore[arg-type]
    page = await context.new_page()
    if look in DEFICIENCIES:
        devtools = await context.new_cdp_session(page)
        await devtools.send("Emulation.setEmulatedVisionDeficiency", {"type": DEFICIENCIES[look]})
    await site.sign_in(page)
    job = await page.evaluate("async () => (await (await fetch('api/v1/dead')).json()).items[0].id")
    await page.goto(f"{site.url}/workers")
    worker = await page.locator("tbody a").first.get_attribute("href")
    group = await page.evaluate(
        "async () => (await (await fetch('api/v1/groups')).json()).items[0].id"
    )
    for path in (*PAGES, f"jobs/{job}", f"groups/{group}", (worker or "").strip("/")):
        name = _name(path)
        if only and only not in name:
            continue
        await page.goto(f"{site.url}/{path}")
        await page.screenshot(path=folder / f"{name}-{look}.png", full_page=look == "phone")
    await context.close()


def _name(path: str) -> str:
    """The name of a page's picture: a row of a list is one, and its parts have their own."""
    first, *rest = path.partition("?")[0].split("/")
    return "-".join([first or "overview", *(["one"] if rest else []), *rest[1:]])


if __name__ == "__main__":
    if sys.argv[1:] == ["--docs"]:
        asyncio.run(show(SHOWN))
    else:
        asyncio.run(take(Path(sys.argv[1]), *sys.argv[2:]))
