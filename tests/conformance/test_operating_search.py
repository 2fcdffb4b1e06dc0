"""A search tells nothing of what its reader may not see; in every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from offpath import App
from offpath.model.job import DeadReason
from offpath.model.settlement import Dead
from offpath.operating import list_views
from offpath.operating.documents.lists import BriefList
from offpath.operating.redaction import PLAIN, Redaction
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import add, end, failure, join, start

pytestmark = pytest.mark.needs("operating")

SECRET = '{"to": "ann@example.org", "password": "hunter2"}'
OPEN = '{"to": "ann@example.org", "n": 1}'
LOOKER = Redaction(payloads=False)


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    """An app on the store."""
    async with App(store=store, clock=clock, auto_start=False) as made:
        yield made


async def search(app: App, text: str, seen: Redaction = PLAIN, **more: Any) -> BriefList:
    return await list_views.jobs(app, {}, text=text, seen=seen, **more)


def ids(found: BriefList) -> list[str]:
    return [one.id for one in found.items]


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_a_right_guess_is_answered_as_a_wrong_one(
    app: App, store: Store, limit: int, *, newest: bool
) -> None:
    for _ in range(4):
        await add(store, input=SECRET)
    right = await search(app, "hunter", limit=limit, newest=newest)
    assert right.items == ()
    assert right == await search(app, "hunted", limit=limit, newest=newest)


@pytest.mark.parametrize("newest", [True, False])
async def test_what_is_shown_is_found_page_by_page(app: App, store: Store, *, newest: bool) -> None:
    made = []
    for number in range(5):
        made.append(await add(store, input=OPEN if number % 2 else SECRET))
    order = made[::-1] if newest else made
    found, after = [], None
    for _ in range(10):
        page = await search(app, "ann@", limit=2, after=after, newest=newest)
        found += ids(page)
        if (after := page.next) is None:
            break
    assert found == order
    assert ids(await search(app, '"n": 1')) == [made[3], made[1]]


async def test_a_secret_in_an_error_is_not_found(app: App, store: Store) -> None:
    await join(store)
    job = await start(store)
    failed = failure("no door: password=hunter2 at gate 7", attempt=job.attempt)
    await end(store, job, Dead(reason=DeadReason.EXHAUSTED, failure=failed))
    assert ids(await search(app, "gate 7", LOOKER)) == [job.id]
    for seen in (PLAIN, LOOKER):
        assert await search(app, "hunter", seen) == await search(app, "hunted", seen)


async def test_arguments_are_found_by_whoever_may_see_them(app: App, store: Store) -> None:
    job_id = await add(store, input=OPEN)
    assert ids(await search(app, "ann@")) == [job_id]
    assert await search(app, "ann@", LOOKER) == await search(app, "bob@", LOOKER)


async def test_what_the_view_of_an_app_leaves_out_is_not_found(app: App, store: Store) -> None:
    job_id = await add(store, input=OPEN)
    seen = Redaction(shape=lambda task, value: {"n": value["n"]})
    assert await search(app, "ann@", seen) == await search(app, "bob@", seen)
    assert ids(await search(app, '"n"', seen)) == [job_id]
