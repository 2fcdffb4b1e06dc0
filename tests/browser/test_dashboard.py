"""The dashboard in a real browser: its policy, keys, small screens, both themes, freshness."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Browser, Page, Route

import offpath
from tests.browser.barriers import barriers
from tests.browser.scene import make_app
from tests.browser.serving import Served, served
from tests.browser.watched import watched

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_page_has_a_barrier(
    page: Page, site: Served, paths: list[str], axe: str, scheme: str
) -> None:
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    for path in paths:
        await page.goto(f"{site.url}/{path}")
        assert (path, await barriers(page, axe)) == (path, [])


async def test_nothing_foreign_is_run(page: Page, site: Served, paths: list[str]) -> None:
    for path in paths:
        await page.goto(f"{site.url}/{path}")
        assert await page.evaluate("window.hacked === undefined"), path


@pytest.mark.parametrize("width", [320, 700, 1100, 1440])
async def test_nothing_overflows_the_screen(
    page: Page, site: Served, paths: list[str], width: int
) -> None:
    await page.set_viewport_size({"width": width, "height": 640})
    for path in paths:
        await page.goto(f"{site.url}/{path}")
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert (path, wide) == (path, width)


async def test_a_number_and_its_unit_stay_in_one_line(page: Page, site: Served) -> None:
    await page.set_viewport_size({"width": 1280, "height": 640})
    for path in ("jobs", "dead"):
        await page.goto(f"{site.url}/{path}")
        lines = await page.evaluate(
            """() => [...document.querySelectorAll('td[data-name="Waited"], td[data-name="Ran"]')]
            .map(cell => { const range = document.createRange(); range.selectNodeContents(cell);
                return new Set([...range.getClientRects()].map(one => one.top)).size })"""
        )
        assert (path, set(lines)) == (path, {1})


async def test_from_something_is_wrong_to_the_traceback_in_three_clicks(
    page: Page, site: Served
) -> None:
    await page.goto(site.url)
    await page.get_by_role("link", name="Dead letters").first.click()
    await page.get_by_role("link", name="Newest of send_mail").click()
    await page.get_by_text("Traceback", exact=True).click()
    assert await page.get_by_text("raise ConnectionResetError").is_visible()
    assert "hunter2" not in await page.content()


async def test_keys_lead_everywhere(page: Page, site: Served) -> None:
    await page.goto(site.url)
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.className") == "skip"
    await page.keyboard.press("g")
    await page.keyboard.press("d")
    await page.wait_for_url(f"{site.url}/dead")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{site.url}/dead?*")
    await page.keyboard.press("?")
    assert await page.get_by_role("dialog").is_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.keyboard.press("j")
    await page.wait_for_url(f"{site.url}/jobs")
    await page.keyboard.press("/")
    await page.keyboard.type("state:dead task:send_mail")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{site.url}/jobs?state=dead&task=send_mail")
    assert await page.locator("tbody tr").count() == 12


async def test_keys_can_be_turned_off(page: Page, site: Served) -> None:
    await page.goto(site.url)
    await page.keyboard.press("?")
    await page.get_by_role("button", name="Turn keys off").click()
    await page.get_by_role("button", name="Close").click()
    await page.keyboard.press("g")
    await page.keyboard.press("d")
    await page.keyboard.press("?")
    assert not await page.get_by_role("dialog").is_visible()
    assert page.url.rstrip("/") == site.url


async def test_a_page_stays_fresh_and_keeps_what_is_open(
    page: Page, site: Served, scene: str
) -> None:
    await page.goto(f"{site.url}/dead")
    await page.get_by_role("link", name="Newest of send_mail").click()
    await page.get_by_text("Traceback", exact=True).click()
    job = page.url.rsplit("/", 1)[1]
    async with make_app(scene) as app:
        await app.dead.redrive(job)
    await page.wait_for_selector(".state.tone-waiting")
    assert await page.get_by_text("raise ConnectionResetError").is_visible()


async def test_a_group_is_a_graph_or_a_table_and_stays_what_was_chosen(
    page: Page, site: Served, paths: list[str], axe: str, scene: str
) -> None:
    album = [one for one in paths if one.startswith("groups/")][-1]
    await page.goto(f"{site.url}/{album}")
    graph, table = page.locator(".graph"), page.locator("#graph-table table")
    assert await graph.is_visible()
    assert not await table.is_visible()
    await page.locator("summary", has_text="Table").press("Enter")
    assert await table.is_visible()
    assert not await graph.is_visible()
    await page.locator("summary", has_text="Show members").click()
    assert await barriers(page, axe) == []
    async with make_app(scene) as app:
        (held,) = (await app.jobs.find(task="approve")).items
        await app.jobs.cancel(held.id)
    await page.locator("#live .state", has_text="cancelled").first.wait_for()
    assert await page.get_by_text("Show members").locator("..").get_by_role("link").count() > 1
    assert await table.is_visible()
    await page.locator("summary", has_text="Graph").click()
    await page.get_by_text("show members", exact=True).click()
    await page.wait_for_url("**/jobs?group=*&task=resize&parent=*")
    assert await page.locator("tbody tr").count() == 30


async def test_new_rows_are_offered_and_move_nothing_until_they_are_taken(
    page: Page, site: Served, scene: str
) -> None:
    await page.goto(f"{site.url}/jobs")
    rows = page.locator("tbody tr")
    before = [await one.get_attribute("id") for one in await rows.all()]
    async with make_app(scene) as app:
        made = await app.enqueue([app.tasks["add"].job(n, b=9) for n in range(3)])
    offer = page.get_by_role("button", name="3 new", exact=True)
    await offer.wait_for()
    assert [await one.get_attribute("id") for one in await rows.all()] == before
    await offer.click()
    await page.wait_for_selector(f"#job-{made[-1].id}")
    after = [await one.get_attribute("id") for one in await rows.all()]
    assert after == [*(f"job-{one.id}" for one in reversed(made)), *before][:50]
    assert await offer.count() == 0


async def test_times_are_told_as_they_are_wanted(browser: Browser, site: Served) -> None:
    context = await browser.new_context(timezone_id="Asia/Kolkata")
    page = await context.new_page()
    await site.sign_in(page)
    await page.goto(f"{site.url}/dead")
    one = page.locator("tbody time").first
    moment = datetime.fromisoformat(await one.get_attribute("datetime") or "")
    assert (await one.inner_text()).endswith("ago")
    switch = page.get_by_role("button", name="Times:")
    await switch.click()
    assert await one.inner_text() == f"{moment:%Y-%m-%d %H:%M:%S}"
    await switch.click()
    local = moment.astimezone(ZoneInfo("Asia/Kolkata"))
    assert await one.inner_text() == f"{local:%Y-%m-%d %H:%M:%S}"
    assert (await one.get_attribute("title") or "").endswith(("Asia/Kolkata", "Asia/Calcutta"))
    await page.goto(f"{site.url}/jobs?state=dead")  # it is kept, and outlives a refresh
    assert await switch.inner_text() == "Times: local"
    assert await page.locator("tbody time").first.inner_text() >= f"{local:%Y-%m-%d}"
    await switch.click()
    assert (await page.locator("tbody time").first.inner_text()).endswith("ago")
    await context.close()


async def test_a_theme_is_kept(page: Page, site: Served) -> None:
    await page.emulate_media(color_scheme="light")
    await page.goto(site.url)
    light = await page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    await page.get_by_role("button", name="Theme").click()
    await page.goto(f"{site.url}/jobs")
    dark = await page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    assert light != dark


@pytest.mark.parametrize("width", [1440, 900])
async def test_the_theme_and_the_times_can_be_changed_beside_a_narrow_rail_too(
    page: Page, site: Served, width: int
) -> None:
    await page.set_viewport_size({"width": width, "height": 640})
    await page.goto(site.url)
    for name in ("Theme", "Times: ago", "Keys"):
        assert await page.get_by_role("button", name=name, exact=True).count() == 1
    await page.get_by_role("button", name="Keys", exact=True).click()
    assert await page.get_by_role("dialog").is_visible()


async def test_everything_works_without_scripts(browser: Browser, site: Served) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await site.sign_in(page)
    await page.get_by_role("link", name="Jobs", exact=True).click()
    await page.get_by_role("searchbox").fill("task:thumbnail")
    await page.get_by_role("button", name="Search").click()
    assert await page.locator("tbody tr").count() == 3
    await page.locator("tbody a").first.click()
    assert await page.get_by_role("heading", name="thumbnail").is_visible()
    await page.get_by_role("button", name="Sign out").click()
    assert page.url == f"{site.url}/sign-in"
    await context.close()


TEACHING = ("jobs", "groups", "signals", "tasks", "queues", "schedules", "limits", "workers",
            "messages", "endpoints", "log", "routers")  # fmt: skip
"""Pages of which an empty one shows the code that fills it."""
PLAIN = ("", "stats", "dead", "gates", "runs", "actions", "health", "config", "sweeps")
NEVER_EMPTY = {"health", "config", "sweeps"}


async def test_an_empty_store_says_what_would_be_there(
    browser: Browser, tmp_path: Path, axe: str
) -> None:
    url = f"sqlite:///{tmp_path / 'empty.db'}"
    async with offpath.App(url, auto_start=False, migrate=True):
        pass
    with served(url) as site:
        async with watched(browser, site) as page:
            await page.set_viewport_size({"width": 320, "height": 700})
            for path in (*TEACHING, *PLAIN):
                await page.goto(f"{site.url}/{path}")
                empty, code = page.locator(".empty"), page.locator(".empty pre")
                assert await empty.count() > 0 or path in NEVER_EMPTY, path
                assert (path, await code.count() > 0) == (path, path in TEACHING or not path)
                assert await page.evaluate("document.documentElement.scrollWidth") == 320, path
                for scheme in ("light", "dark"):
                    await page.emulate_media(color_scheme=scheme)
                    assert (path, scheme, await barriers(page, axe)) == (path, scheme, [])


async def test_no_state_is_told_by_its_colour_alone(
    page: Page, site: Served, paths: list[str]
) -> None:
    """Each has a sign and a word; of the marks on a time line those that failed are struck."""
    for path in paths:
        await page.goto(f"{site.url}/{path}")
        states = await page.locator("#live [class*=tone-].state").all_text_contents()
        assert [one for one in states if len(one.split()) < 2] == [], path
        marks = await page.evaluate("""() => [...document.querySelectorAll("rect[class^=mark-]")]
            .filter((one) => one.classList.contains("mark-failed")
                !== (one.nextElementSibling?.classList.contains("struck") ?? false)).length""")
        assert (path, marks) == (path, 0)
        lines = await page.evaluate("""() => [...document.querySelectorAll(".chart svg")].map(
            (svg) => [...new Set([...svg.querySelectorAll("[class^=line-]")]
                .map((one) => one.classList[0]))]
                .map((name) => getComputedStyle(svg.querySelector("." + name)).strokeDasharray))""")
        assert all(len(set(dashes)) == len(dashes) for dashes in lines), (path, lines)


async def test_who_may_change_nothing_is_shown_no_button_that_would(
    browser: Browser, scene: str, axe: str, paths: list[str]
) -> None:
    with served(scene, read_only=True) as site:
        async with watched(browser, site) as page:
            for path in (one for one in paths if not one.startswith("act?")):
                await page.goto(f"{site.url}/{path}")
                acts = page.locator(
                    "#live form[method=post], #live a[href*='/act?'], #live td.mark"
                )
                assert (path, await acts.count()) == (path, 0)
                assert (path, await barriers(page, axe)) == (path, [])
            await page.goto(f"{site.url}/queues/exports")
            assert await page.get_by_text("offpath queues pause exports").is_visible()
            answer = await page.goto(f"{site.url}/act?verb=queue.pause&name=mail&back=/queues")
            assert answer is not None
            assert answer.status == 403


async def test_a_page_that_cannot_be_asked_again_stays_and_says_since_when(
    page: Page, site: Served
) -> None:
    await page.goto(f"{site.url}/jobs")
    rows = await page.locator("tbody tr").count()
    await page.route("**/jobs", lambda route: route.fulfill(status=503, body="away"))
    await page.get_by_text("last seen").wait_for()
    assert await page.locator("tbody tr").count() == rows
    await page.unroute("**/jobs")
    await page.wait_for_selector("#fresh:empty", state="attached")


async def test_a_page_that_is_still_asked_for_can_be_used(page: Page, site: Served) -> None:
    """An answer that does not come holds up no link, no key and no menu."""
    await page.goto(f"{site.url}/jobs")
    hung: list[Route] = []
    asked = asyncio.Event()

    def hang(route: Route) -> None:
        hung.append(route)
        asked.set()

    await page.route("**/jobs", hang)
    await asyncio.wait_for(asked.wait(), 30)
    assert await page.locator("tbody tr").count() > 20
    await page.keyboard.press("?")
    assert await page.get_by_role("dialog").is_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="Queues", exact=True).click()
    await page.wait_for_url(f"{site.url}/queues")
    for one in hung:
        await one.abort()
