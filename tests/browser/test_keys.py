"""Keys in a real browser beside those that lead: marks, a switch of one click, and long things."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

import offpath
from tests.browser.barriers import barriers
from tests.browser.serving import Served, served
from tests.browser.watched import watched

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
expect.set_options(timeout=30_000)
LONG = {
    "text": "x" * 1_000_000,
    "flag": "\U0001f1e9\U0001f1ea\U0001f4a9",
    "backwards": "\u202eevil\u202c \u05d0\u05d1",
}


async def test_the_row_that_the_tabulator_led_to_is_marked(page: Page, site: Served) -> None:
    await page.goto(f"{site.url}/jobs")
    row = page.locator("tbody tr").nth(3)
    await row.locator("a").first.focus()
    await page.keyboard.press("x")
    await expect(row.get_by_role("checkbox")).to_be_checked()
    await page.keyboard.press("j")  # from the row that has the focus, not from the first one
    await page.keyboard.press("x")
    await expect(page.locator("tbody tr").nth(4).get_by_role("checkbox")).to_be_checked()
    await expect(page.locator("[data-marked]").first).to_have_text("2 marked")


async def test_keys_go_on_where_a_checkbox_has_the_focus(page: Page, site: Served) -> None:
    await page.goto(f"{site.url}/jobs")
    await page.locator("tbody tr").first.get_by_role("checkbox").click()
    await page.keyboard.press("j")
    assert await page.evaluate("document.activeElement.closest('tr').rowIndex") == 2


async def test_one_click_turns_keys_off_and_on(page: Page, site: Served) -> None:
    await page.goto(f"{site.url}/jobs")
    await page.get_by_role("button", name="Keys: on").click()
    switch = page.get_by_role("button", name="Keys: off")
    await expect(switch).to_have_attribute("aria-pressed", "false")
    await page.keyboard.press("j")
    await page.keyboard.press("?")
    assert await page.locator("tr.at").count() == 0
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await switch.click()
    await page.keyboard.press("j")
    assert await page.locator("tr.at").count() == 1


async def test_no_key_takes_what_a_modifier_makes_the_browsers(page: Page, site: Served) -> None:
    await page.goto(f"{site.url}/jobs")
    for key in ("Control+j", "Alt+j", "Meta+j"):
        await page.keyboard.press(key)
    assert await page.locator("tr.at").count() == 0


async def test_long_and_strange_things_fit_a_small_screen(
    browser: Browser, tmp_path: Path, axe: str
) -> None:
    url = f"sqlite:///{tmp_path / 'long.db'}"
    app = offpath.App(url, auto_start=False, migrate=True)

    @app.task(name="a_package_with_a_long_name.of_a_module.that_has_a_task_of_a_long_name_too")
    async def strange(**given: str) -> None: ...

    async with app:
        tags = [f"tag-{number}" for number in range(20)]
        handles = [
            await strange.options(tags=tags).enqueue(**{name: value})
            for name, value in LONG.items()
        ]
    with served(url) as site:
        async with watched(browser, site) as page:
            await page.set_viewport_size({"width": 320, "height": 700})
            for path in ("jobs", *(f"jobs/{one.id}" for one in handles)):
                await page.goto(f"{site.url}/{path}")
                assert await page.evaluate("document.documentElement.scrollWidth") == 320, path
                assert await barriers(page, axe) == [], path
            await page.goto(f"{site.url}/jobs/{handles[0].id}")
            async with page.expect_download() as begun:
                await page.get_by_role("link", name="Download the input").click()
            kept = await (await begun.value).path()
            assert LONG["text"] in Path(kept).read_text("utf-8")
