"""Buttons in a real browser: pressed, confirmed, stopped half-way, by the keyboard alone."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

import offpath
from offpath.model.action import STOP, ActionRecord
from offpath.operating import actions
from offpath.store.backends import backup
from tests.browser.scene import fill, make_app
from tests.browser.serving import Served, served
from tests.browser.watched import watched
from tests.integration.polling import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
MANY = 1_100
OF_MAIL = re.compile(r"Redrive [\d,]+… of send_mail")
"""The name of the button that puts back all jobs of that fault."""
expect.set_options(timeout=30_000)  # a loaded machine is not a page that hangs


@pytest.fixture(scope="session")
def many_dead(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a store with more dead jobs than one step of an action changes."""
    path = tmp_path_factory.mktemp("many") / "many.db"
    asyncio.run(fill(make_app(f"sqlite:///{path}"), dead=MANY))
    return str(path)


@pytest.fixture
def crowd(many_dead: str, tmp_path: Path) -> str:
    """The URL of a copy of it, which a test may change."""
    backup(f"sqlite:///{many_dead}", tmp_path / "crowd.db")
    return f"sqlite:///{tmp_path / 'crowd.db'}"


@pytest.fixture
async def crowded(browser: Browser, crowd: str) -> AsyncIterator[Page]:
    """A page of that store's dashboard."""
    with served(crowd, refresh=0.5) as site:
        async with watched(browser, site) as page:
            yield page


async def counted(url: str, state: offpath.JobState, task: str = "send_mail") -> int:
    """The jobs of a task in a state."""
    async with make_app(url) as app:
        return await app.jobs.count(task=task, state=state)


async def press(page: Page, name: str) -> None:
    """Press a button, or a link that looks like one."""
    main = page.locator("#main")
    found = main.get_by_role("button", name=name, exact=True)
    await found.or_(main.get_by_role("link", name=name, exact=True)).first.click()


async def test_one_dead_job_is_redriven_and_the_page_says_so(
    page: Page, site: Served, scene: str
) -> None:
    await page.goto(f"{site.url}/dead")
    await page.get_by_role("link", name="Newest of thumbnail").click()
    await press(page, "Redrive")
    await expect(page.locator("#live .why[role=status]")).to_contain_text("1 redriven")
    await expect(page.locator("h1 + .state")).to_contain_text("queued")
    assert await counted(scene, offpath.JobState.DEAD, "thumbnail") == 2
    await page.get_by_role("link", name="The action").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("job.redrive")


async def test_marked_jobs_are_redriven_and_no_others(page: Page, site: Served, scene: str) -> None:
    await page.goto(f"{site.url}/dead?task=send_mail")
    for row in (1, 4):
        await page.locator("tbody tr").nth(row).get_by_role("checkbox").check()
    await expect(page.locator("[data-marked]").first).to_have_text("2 marked")
    await press(page, "Redrive marked…")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Redrive 2?")
    await press(page, "Redrive 2")
    await expect(page.locator("#live .why[role=status]")).to_contain_text("2 redriven")
    assert page.url.startswith(f"{site.url}/dead?task=send_mail")
    assert await counted(scene, offpath.JobState.DEAD) == 10


async def test_several_faults_are_marked_and_redriven_together(
    page: Page, site: Served, scene: str
) -> None:
    await page.goto(f"{site.url}/dead")
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await expect(page.locator("[data-marked]").first).to_have_text("1 marked, 12 jobs")
    await page.get_by_label("Mark all faults").check()
    await expect(page.locator("[data-marked]").first).to_have_text("2 marked, 15 jobs")
    await expect(page.locator("[data-marked]").nth(1)).to_be_hidden()
    await press(page, "Redrive marked…")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Redrive 15?")
    await press(page, "Redrive 15")
    await page.wait_for_url(f"{site.url}/actions")
    assert await counted(scene, offpath.JobState.DEAD) == 0
    assert await counted(scene, offpath.JobState.DEAD, "thumbnail") == 0


async def test_marks_outlive_a_look_at_what_is_new(page: Page, site: Served, scene: str) -> None:
    await page.goto(f"{site.url}/dead?task=send_mail")
    await page.locator("tbody tr").nth(2).get_by_role("checkbox").check()
    async with make_app(scene) as app:
        await app.dead.redrive(task="thumbnail")
    # a page whose rows are marked is not asked for again: the mark is still on that row
    async with page.expect_response(lambda one: "/dead" in one.url) as looked:
        await page.locator("tbody tr").nth(2).get_by_role("checkbox").uncheck()
        await page.evaluate("document.activeElement.blur()")
    assert (await looked.value).status in {200, 304}
    assert await page.locator("td.mark input:checked").count() == 0


async def test_all_of_a_fault_are_redriven_in_five_clicks_to_the_end(
    crowded: Page, crowd: str
) -> None:
    clicks = 0

    async def click(target: Any) -> None:
        nonlocal clicks
        clicks += 1
        await target.click()

    await click(crowded.get_by_role("link", name="Dead letters").first)
    await click(crowded.get_by_role("link", name=OF_MAIL))
    heading = crowded.get_by_role("heading", level=1)
    await expect(heading).to_contain_text(f"Redrive {MANY:,}")
    await expect(crowded.get_by_text("jobs take about 22 s")).to_be_visible()
    await click(crowded.get_by_role("button", name=f"Redrive {MANY:,}"))
    await click(crowded.get_by_role("link", name="The action"))
    await expect(crowded.locator("h1 + .state")).to_contain_text("done", timeout=60_000)
    await expect(crowded.get_by_text(f"{MANY:,} redriven.")).to_be_visible()
    assert clicks <= 5
    assert await counted(crowd, offpath.JobState.DEAD) == 0
    assert await counted(crowd, offpath.JobState.QUEUED) == MANY


async def test_a_long_action_is_stopped_half_way_and_says_how_far_it_came(
    crowded: Page, crowd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, steps = threading.Event(), 0
    real = actions._progress

    async def one_and_wait(app: offpath.App, record: ActionRecord) -> Any:
        nonlocal steps
        steps += record.verb != STOP  # the stop is an action of its own, of one step
        if steps > 1 and record.verb != STOP:
            await asyncio.to_thread(go_on.wait, 60)
        return await real(app, record)

    monkeypatch.setattr(actions, "_progress", one_and_wait)
    await crowded.get_by_role("link", name="Dead letters").first.click()
    await crowded.get_by_role("link", name=OF_MAIL).click()
    await crowded.get_by_role("button", name=f"Redrive {MANY:,}").click()
    await crowded.get_by_role("link", name="The action").click()
    await expect(crowded.get_by_text("500 redriven so far")).to_be_visible(timeout=60_000)
    await press(crowded, "Stop")
    await expect(crowded.locator("h1 + .state")).to_contain_text("stopped")
    go_on.set()
    # the step that was under way is done and counted; none comes after it
    await expect(crowded.get_by_text("1,000 redriven, then somebody stopped it")).to_be_visible(
        timeout=60_000
    )
    assert await counted(crowd, offpath.JobState.DEAD) == MANY - 1_000


async def test_a_removal_of_many_wants_their_number(crowded: Page, crowd: str) -> None:
    await crowded.get_by_role("link", name="Dead letters").first.click()
    await crowded.get_by_role("link", name="send_mail", exact=True).first.click()
    await press(crowded, "Discard all…")
    await expect(crowded.get_by_text("cannot be brought back")).to_be_visible()
    field = crowded.get_by_label(f"Type {MANY} to confirm")
    await field.fill("100")
    await press(crowded, f"Discard {MANY:,}")
    await expect(crowded.get_by_role("alert")).to_contain_text("which cannot be brought back")
    assert await counted(crowd, offpath.JobState.DEAD) == MANY
    await field.fill(str(MANY))
    await press(crowded, f"Discard {MANY:,}")
    await expect(crowded.locator("#live .why[role=status]")).to_be_visible()
    await crowded.get_by_role("link", name="The action").click()
    await expect(crowded.locator("h1 + .state")).to_contain_text("done", timeout=60_000)
    assert await counted(crowd, offpath.JobState.DEAD) == 0


async def test_waiting_jobs_are_cancelled_with_a_reason(
    page: Page, site: Served, scene: str
) -> None:
    await page.goto(f"{site.url}/jobs?state=queued&task=export")
    await press(page, "Cancel all…")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Cancel 6?")
    await page.get_by_label("Why, for the record").fill("the month was wrong")
    await press(page, "Cancel 6")
    await expect(page.locator("#live .why[role=status]")).to_contain_text("6 cancelled")
    assert await counted(scene, offpath.JobState.CANCELLED, "export") == 6
    await page.goto(f"{site.url}/actions")
    await expect(page.locator("tbody tr").first).to_contain_text("the month was wrong")


async def test_a_queue_is_paused_for_an_hour_and_resumed(
    page: Page, site: Served, scene: str
) -> None:
    await page.goto(f"{site.url}/queues/mail")
    await press(page, "Pause…")
    await page.get_by_label("For how long").select_option("3600")
    await press(page, "Pause")
    await expect(page.locator("h1 + .state")).to_contain_text("paused")
    async with make_app(scene) as app:
        until = {one.name: one.paused_until for one in await app.queues.list()}
    assert until["mail"] is not None
    await press(page, "Resume")
    await expect(page.locator("h1 + .state")).to_contain_text("on")


async def test_the_keyboard_alone_redrives_all_of_a_fault(
    page: Page, site: Served, scene: str
) -> None:
    await page.goto(site.url)
    await page.keyboard.press("g")
    await page.keyboard.press("d")
    await page.wait_for_url(f"{site.url}/dead")
    await tab_to(page, "Redrive 12… of send_mail")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{site.url}/act?*")
    await tab_to(page, "Redrive 12")
    await page.keyboard.press("Enter")
    await expect(page.locator("#live .why[role=status]")).to_contain_text("12 redriven")
    assert await counted(scene, offpath.JobState.DEAD) == 0


async def tab_to(page: Page, words: str) -> None:
    """Go on by the tabulator to what says these words; its focus is to be seen."""
    for _ in range(120):
        await page.keyboard.press("Tab")
        told = await page.evaluate("document.activeElement.textContent.trim()")
        if told.startswith(words):
            style = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert style == "solid"
            return
    raise AssertionError(f"the tabulator does not lead to {words!r}")


async def test_buttons_work_on_a_small_screen_and_without_scripts(
    browser: Browser, site: Served, scene: str
) -> None:
    context = await browser.new_context(
        java_script_enabled=False, viewport={"width": 320, "height": 640}
    )
    page = await context.new_page()
    await site.sign_in(page)
    await page.goto(f"{site.url}/dead?task=thumbnail")
    await press(page, "Redrive all…")
    await press(page, "Redrive 3")
    told = page.locator("#live .why[role=status]")

    async def done() -> bool:
        await page.reload()  # as a person without scripts does
        return "3 redriven." in await told.inner_text()

    await eventually(done, within=60.0, what="the action is done")
    assert await counted(scene, offpath.JobState.DEAD, "thumbnail") == 0
    await context.close()
