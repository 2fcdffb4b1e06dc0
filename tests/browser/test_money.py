"""Pages of money in a real browser: no screen is too small for them, and a proof is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page

import offpath
from offpath.economy import Actor, Economy, TopUp, credits
from offpath.settlements import Credited
from offpath.settlements.rates import PlayerActivity
from offpath.web.viewers import ADMIN
from tests.browser.barriers import barriers
from tests.browser.serving import Served, served
from tests.browser.watched import watched

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PATHS = (
    "ledger", "ledger/backing", "ledger/accounts", "ledger/accounts?q=nobody",
    "ledger/accounts/ann:spendable", "ledger/checkpoints", "ledger/audit", "payouts",
    "subscriptions", "settlements", "act?verb=ledger.prove&back=/ledger",
    "act?verb=settlement.run&kind=bonus&period=2026-11&back=/settlements",
)  # fmt: skip

EMPTY = (
    "ledger", "ledger/accounts", "ledger/checkpoints", "ledger/audit", "payouts", "subscriptions",
    "settlements",
)  # fmt: skip


def make_shop(url: str) -> offpath.App:
    """An app with an economy and a kind of settlement runs."""
    app = offpath.App(url, auto_start=False, migrate=True)
    Economy(app)

    async def records(_: Any) -> AsyncIterator[PlayerActivity]:
        yield PlayerActivity(id="ann", user="ann")

    async def credit(_user: str, _amount: int, _key: str) -> Credited:
        return Credited()

    app.settlements.define("bonus", records=records, calculate=lambda _: 5, credit=credit)
    return app


async def _fill(app: offpath.App) -> None:
    async with app:
        for number in range(3):
            await app.economy.submit(
                TopUp(
                    key=f"t-{number}",
                    actor=Actor.operator("ops"),
                    user="ann",
                    amount=credits(20),
                    source="card",
                )
            )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Served]:
    """The dashboard of that app."""
    app = make_shop(f"sqlite:///{tmp_path / 'shop.db'}")
    asyncio.run(_fill(app))
    with served(app, can=ADMIN, title="shop", refresh=0.5) as running:
        yield running


@pytest.fixture
async def page(browser: Browser, site: Served) -> AsyncIterator[Page]:
    """A page that is signed in."""
    async with watched(browser, site) as made:
        yield made


async def test_no_page_has_a_barrier(page: Page, site: Served, axe: str) -> None:
    for path in PATHS:
        await page.goto(f"{site.url}/{path}")
        await page.emulate_media(color_scheme="light")
        assert (path, await barriers(page, axe)) == (path, [])
        await page.emulate_media(color_scheme="dark")
        assert (path, await barriers(page, axe)) == (path, [])


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Served]:
    """A dashboard of an economy in which nothing has happened; nobody can act there."""
    app = make_shop(f"sqlite:///{tmp_path / 'bare.db'}")
    asyncio.run(_opened(app))
    with served(app, can=ADMIN, title="shop", refresh=0.5, read_only=True) as running:
        yield running


async def _opened(app: offpath.App) -> None:
    async with app:
        pass


async def test_an_empty_economy_that_nobody_may_change_has_no_barrier(
    browser: Browser, bare: Served, axe: str
) -> None:
    async with watched(browser, bare) as page:
        for path in EMPTY:
            await page.goto(f"{bare.url}/{path}")
            assert (path, await page.locator(".empty, .zero").count() > 0) == (path, True)
            assert (
                await page.locator("main form[action*='/act'], main a[href*='/act?']").count() == 0
            )
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme)
                assert (path, await barriers(page, axe)) == (path, [])


async def test_they_fit_every_screen(page: Page, site: Served) -> None:
    for width in (320, 700, 1100, 1440):
        await page.set_viewport_size({"width": width, "height": 640})
        for path in PATHS:
            answer = await page.goto(f"{site.url}/{path}")
            assert answer is not None
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert (path, answer.status, wide) == (path, 200, width)


async def test_an_account_is_found_and_followed_to_its_posting(page: Page, site: Served) -> None:
    await page.goto(f"{site.url}/ledger")
    await page.get_by_role("link", name="Accounts and statements").click()
    await page.get_by_label("Beginning of an account's id").fill("ann")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("link", name="ann:spendable").click()
    assert await page.locator("tbody tr").count() == 3
    await page.locator("tbody tr a").first.click()
    assert await page.get_by_text("platform:").first.is_visible()


async def test_a_proof_is_confirmed_by_its_name_by_keyboard_and_waits_for_a_worker(
    page: Page, site: Served
) -> None:
    await page.goto(f"{site.url}/ledger")
    await _tab_to(page, page.get_by_role("link", name="Prove…"))
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/act?**")
    await _tab_to(page, page.get_by_label("Type ledger to confirm"))
    await page.keyboard.type("ledger")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{site.url}/ledger?done=*")
    await page.get_by_role("link", name="The action").click()
    assert await page.get_by_text("waits for a worker of this app").is_visible()
    assert await page.get_by_role("button", name="Stop").is_visible()


async def _tab_to(page: Page, wanted: Locator) -> None:
    """Go on by the tab key to an element."""
    for _ in range(80):
        await page.keyboard.press("Tab")
        if await wanted.evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"{wanted} is reached by no tab")


async def test_a_run_is_asked_for_by_its_period(page: Page, site: Served) -> None:
    await page.goto(f"{site.url}/settlements")
    await page.get_by_label("Period of bonus").fill("2026-11")
    await page.get_by_role("button", name="Run…").click()
    await page.get_by_label("Type bonus 2026-11 to confirm").fill("bonus 2026-11")
    await page.get_by_role("button", name="Run a period").click()
    await page.wait_for_url(f"{site.url}/settlements?done=*")
    assert await page.get_by_role("cell", name="2026-11").first.is_visible()
