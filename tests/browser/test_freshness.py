"""Staying fresh in a real browser, by a clock that the tests move: when a page looks, and rests."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from playwright.async_api import Page, expect

from tests.browser.serving import Served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
expect.set_options(timeout=30_000)
COUNTED = """
    window.asked = [];
    const fetched = window.fetch;
    window.fetch = (...given) => { window.asked.push(Date.now()); return fetched(...given); };
"""
LONG = 5_000
"""Milliseconds of many looks, each half a second behind the one before."""


async def opened(page: Page, url: str) -> None:
    """A page whose time is the test's, and which counts how often it asks."""
    await page.add_init_script(COUNTED)
    await page.clock.install()
    await page.goto(url)


async def asked(page: Page) -> int:
    """The times that it has asked for what is new."""
    found: int = await page.evaluate("asked.length")
    return found


async def dialog(page: Page) -> None:
    await page.keyboard.press("?")


async def menu(page: Page) -> None:
    await page.set_viewport_size({"width": 375, "height": 700})
    await page.locator(".small-menu > summary").click()


async def field(page: Page) -> None:
    await page.get_by_role("searchbox").focus()


async def mark(page: Page) -> None:
    await page.keyboard.press("j")
    await page.keyboard.press("x")


async def selection(page: Page) -> None:
    await page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")


async def hidden(page: Page) -> None:
    await page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => true, configurable: true})"
    )


async def switched_off(page: Page) -> None:
    await page.get_by_role("button", name="● Live").click()


@pytest.mark.parametrize("act", [dialog, menu, field, mark, selection, hidden, switched_off])
async def test_a_page_rests_while_somebody_is_at_it(
    page: Page, site: Served, act: Callable[[Page], Awaitable[None]]
) -> None:
    await opened(page, f"{site.url}/jobs")
    await page.clock.run_for(LONG)
    assert await asked(page) > 0
    await act(page)
    before = await asked(page)
    await page.clock.run_for(LONG)
    assert await asked(page) == before


async def test_another_page_of_a_list_stays_as_it_is(page: Page, site: Served) -> None:
    await opened(page, f"{site.url}/jobs?limit=5")
    await page.get_by_role("link", name="Older").click()
    await page.wait_for_url("**after=*")
    await page.clock.run_for(LONG)
    assert await asked(page) == 0


async def test_pauses_double_where_nobody_answers_up_to_half_a_minute(
    page: Page, site: Served
) -> None:
    await opened(page, f"{site.url}/jobs")
    await page.route("**/jobs", lambda route: route.fulfill(status=503, body="away"))
    told = page.locator("#fresh")
    for number in range(1, 10):
        while await asked(page) < number:
            await page.clock.run_for(200)
        await expect(told).to_have_text(re.compile(r"^last seen \d\d:\d\d:\d\d$"))
    times = await page.evaluate("asked")
    waits = [later - sooner for sooner, later in pairwise(times)]
    for number, wait in enumerate(waits, 1):
        least = min(500 * 2**number, 30_000) * 0.9
        assert wait >= least, (number, waits)
        # a fraction of a second more, for the clock goes in steps
        assert wait <= least / 0.9 * 1.1 + 1_500, (number, waits)
    await page.unroute("**/jobs")
    before = await asked(page)
    # in small steps: a long one would end the look, which may take ten seconds, before its answer
    while await asked(page) == before:
        await page.clock.run_for(200)
    await expect(told).to_be_empty()
