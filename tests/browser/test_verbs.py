"""Verbs on workers, signals, sweeps and tasks in a real browser: from a page to what it did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser, Page, expect

import offpath
from offpath.model.action import ActionFilter, ActionState
from offpath.web.viewers import ADMIN
from tests.browser.scene import make_app
from tests.browser.serving import Served, served
from tests.browser.watched import watched

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
WORKER = "0198c0de-0000-7000-8000-00000000beef"


@pytest.fixture
def site(scene: str) -> Iterator[Served]:
    """The dashboard of the scene, for somebody who may do everything."""
    with served(make_app(scene), can=ADMIN, title="shop", refresh=0.5) as running:
        yield running


@pytest.fixture
async def page(browser: Browser, site: Served) -> AsyncIterator[Page]:
    """A page that is signed in."""
    async with watched(browser, site) as made:
        yield made


async def done(scene: str, verb: str) -> tuple[ActionState, int]:
    """The state of the newest action of a verb, and the number of things that it changed."""
    async with make_app(scene) as app:
        (found,) = await app.store().actions(ActionFilter(verbs=(verb,)), limit=1)
    return found.state, found.changed


@pytest.mark.parametrize(
    ("words", "request_"),
    [("Take no more jobs", "quiet"), ("Resume", "resume"), ("Dump", "dump"), ("Stop…", "stop")],
)
async def test_a_worker_is_asked_and_the_page_says_so(
    page: Page, site: Served, scene: str, words: str, request_: str
) -> None:
    await page.goto(f"{site.url}/workers/{WORKER}")
    confirmed = words.endswith("…")
    await page.get_by_role("link" if confirmed else "button", name=words, exact=True).click()
    if confirmed:
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Stop")
        await page.get_by_role("button", name="Stop").click()
    await expect(page.locator("#live .why[role=status]")).to_contain_text("1 asked")
    await expect(page.get_by_text(f"not answered yet: {request_}")).to_be_visible()
    assert await done(scene, f"worker.{request_}") == (ActionState.DONE, 1)


async def test_a_signal_that_nobody_took_is_dropped(page: Page, site: Served, scene: str) -> None:
    await page.goto(f"{site.url}/signals")
    await page.get_by_role("link", name="Drop…").click()
    await expect(page.get_by_text("cannot be brought back")).to_be_visible()
    await page.get_by_role("button", name="Drop").click()
    await expect(page.locator("#live .why[role=status]")).to_contain_text("1 dropped")
    await expect(page.get_by_text("Every signal was taken")).to_be_visible()
    assert await done(scene, "signal.drop") == (ActionState.DONE, 1)


async def test_a_sweep_is_run_now(page: Page, site: Served, scene: str) -> None:
    await page.goto(f"{site.url}/sweeps")
    row = page.locator("tr", has_text="prune").first
    await row.get_by_role("button", name="Run now").click()
    await expect(page.locator("#live .why[role=status]")).to_contain_text("moved")
    state, _ = await done(scene, "sweep.run")
    assert state is ActionState.DONE


async def test_a_job_is_made_of_a_task(page: Page, site: Served, scene: str) -> None:
    await page.goto(f"{site.url}/tasks/add")
    await page.get_by_role("link", name="New job…").click()
    await page.get_by_label("Arguments, as JSON").fill('{"a": 40, "b": 2}')
    await page.get_by_label("Queue").fill("by-hand")
    await page.get_by_label("Why, for the record").fill("to try it")
    await page.get_by_role("button", name="New job").click()
    await expect(page.locator("#live .why[role=status]")).to_contain_text("1 enqueued")
    async with make_app(scene) as app:
        found = (await app.jobs.find(queue="by-hand")).items
    assert [(one.task, one.input) for one in found] == [("add", '{"a":40,"b":2}')]


async def test_arguments_that_do_not_fit_are_told(page: Page, site: Served, scene: str) -> None:
    await page.goto(f"{site.url}/tasks/add")
    await page.get_by_role("link", name="New job…").click()
    await page.get_by_label("Arguments, as JSON").fill("{40")
    await page.get_by_role("button", name="New job").click()
    await expect(page.get_by_text("not JSON")).to_be_visible()
    async with make_app(scene) as app:
        assert await app.store().actions(ActionFilter(verbs=("job.enqueue",)), limit=1) == []


async def test_a_job_is_copied(page: Page, site: Served, scene: str) -> None:
    async with make_app(scene) as app:
        (known, *_) = (await app.jobs.find(task="send_mail", state=offpath.JobState.DEAD)).items
    await page.goto(f"{site.url}/jobs/{known.id}")
    await page.get_by_role("link", name="Run a copy…").click()
    await page.get_by_role("button", name="New job").click()
    await expect(page.locator("#live .why[role=status]")).to_contain_text("1 enqueued")
    async with make_app(scene) as app:
        made = (await app.jobs.find(task="send_mail", state=offpath.JobState.QUEUED)).items
    assert [one.input for one in made] == [known.input]
    await page.goto(f"{site.url}/jobs/{known.id}")
    await expect(page.get_by_role("heading", name="History")).to_be_visible()
