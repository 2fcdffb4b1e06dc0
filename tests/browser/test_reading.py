"""Reading with a real browser: ids that are copied, exact times, and one moment in all charts."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.serving import Served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
expect.set_options(timeout=30_000)


async def pasted(page: Page) -> str:
    """The text of the clipboard, as somebody finds it who pastes it into a field."""
    field = page.get_by_role("searchbox")
    await field.fill("")
    await field.press("Control+v")
    return str(await field.input_value())


@pytest.mark.parametrize("secure", [True, False])
async def test_an_id_is_copied_from_its_row(page: Page, site: Served, secure: bool) -> None:
    """Over plain http from another machine a browser has no ``navigator.clipboard``."""
    if not secure:
        await page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: null})")
    await page.goto(f"{site.url}/jobs")
    row = page.locator("tbody tr").nth(2)
    wanted = (await row.get_attribute("id") or "").removeprefix("job-")
    await row.hover()
    await row.locator(".copy").click()
    await expect(page.locator("#said")).to_have_text("Copied")
    assert await pasted(page) == wanted


async def test_the_key_c_copies_the_id_of_the_row_that_has_the_focus(
    page: Page, site: Served
) -> None:
    await page.goto(f"{site.url}/jobs")
    for key in ("j", "j", "c"):
        await page.keyboard.press(key)
    await expect(page.locator("#said")).to_have_text("Copied")
    second = page.locator("tbody tr").nth(1)
    assert f"job-{await pasted(page)}" == await second.get_attribute("id")


async def test_a_list_has_one_stop_for_each_link_and_none_for_its_times_and_copies(
    page: Page, site: Served
) -> None:
    await page.goto(f"{site.url}/jobs?state=dead")
    stops = await page.locator("tbody tr").first.evaluate(
        "(row) => [...row.querySelectorAll('*')].filter((one) => one.tabIndex >= 0)"
        ".map((one) => one.localName)"
    )
    assert stops == ["input", "a", "a"]


async def test_a_row_that_has_the_focus_tells_its_exact_times(page: Page, site: Served) -> None:
    await page.goto(f"{site.url}/dead")
    exact = page.locator("#exact")
    await page.keyboard.press("j")
    first, last = [
        await one.get_attribute("title")
        for one in await page.locator("tbody tr").first.locator("time").all()
    ]
    await expect(exact).to_have_text(f"First: {first}Last: {last}")
    assert (first or "").endswith(" UTC")
    room = await exact.bounding_box()
    assert room is not None
    assert room["x"] >= 0
    await page.keyboard.press("Escape")
    await expect(exact).to_be_hidden()


async def test_a_time_beside_no_list_is_reached_by_the_tabulator_and_told_exactly(
    page: Page, site: Served
) -> None:
    await page.goto(f"{site.url}/dead")
    await page.get_by_role("link", name="Newest of send_mail").click()
    time = page.locator(".way time").first
    for _ in range(80):
        await page.keyboard.press("Tab")
        if await time.evaluate("(one) => one === document.activeElement"):
            break
    await expect(page.locator("#exact")).to_have_text(await time.get_attribute("title") or "?")
    assert await time.get_attribute("aria-describedby") == "exact"
    await page.evaluate("document.activeElement.blur()")
    await expect(page.locator("#exact")).to_be_hidden()


async def test_one_moment_is_told_in_all_charts(page: Page, site: Served) -> None:
    await page.goto(site.url)
    charts = page.locator(".chart .lines")
    values = page.locator(".chart [data-told]")
    last = await values.all_text_contents()
    box = await charts.first.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + 40)
    moment = page.locator("[data-moment]")
    await expect(moment).not_to_be_empty()
    places = [await one.get_attribute("d") for one in await page.locator(".hair").all()]
    assert len(places) == await charts.count() > 2
    assert len(set(places)) == 1
    then = await values.all_text_contents()
    assert then != last
    told = await values.first.get_attribute("data-told") or ""
    assert then[0] == told.split("\n")[6]
    await page.mouse.move(0, 0)
    await expect(moment).to_be_empty()
    assert await values.all_text_contents() == last


async def test_the_arrows_move_the_moment_of_charts(page: Page, site: Served) -> None:
    await page.goto(site.url)
    await page.get_by_role("group", name="Charts of the same times").focus()
    moment = page.locator("[data-moment]")
    await page.keyboard.press("ArrowLeft")
    latest = await moment.inner_text()
    await page.keyboard.press("ArrowLeft")
    assert await moment.inner_text() < latest
    await page.keyboard.press("ArrowRight")
    assert await moment.inner_text() == latest
    await page.keyboard.press("Escape")
    await expect(moment).to_be_empty()
