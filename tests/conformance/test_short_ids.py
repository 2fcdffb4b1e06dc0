"""The unique beginning of an id stands for it; of several, the candidates are told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from offpath.app import App
from offpath.errors import InvalidArgument, NotFound
from offpath.model.brief import Kind
from offpath.operating import actions, views
from offpath.operating.actions import Asker
from offpath.operating.orders import ActionAsked
from offpath.operating.short_ids import whole
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import add, join, record

ONE = "0198c0de-1111-7000-8000-000000000001"
TWIN = "0198c0de-2222-7000-8000-000000000002"


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    """An open app with two jobs whose ids begin alike."""
    async with App(store=store, clock=clock, auto_start=False) as made:
        for each in (ONE, TWIN):
            await add(store, id=each)
        yield made


async def test_a_unique_beginning_is_the_id(app: App) -> None:
    assert await whole(app, Kind.JOB, "0198c0de-1") == ONE
    assert await whole(app, Kind.JOB, "0198C0DE2") == TWIN
    assert await whole(app, Kind.JOB, ONE.upper()) == ONE


async def test_the_candidates_of_an_ambiguous_one_are_told(app: App) -> None:
    with pytest.raises(InvalidArgument, match=f"{ONE}, {TWIN}; give more of it: 10 "):
        await whole(app, Kind.JOB, "0198c0de")


async def test_of_many_some_are_told_and_how_much_tells_them_apart(app: App, store: Store) -> None:
    for number in range(20):
        await add(store, id=f"0198c0de-3333-7000-8000-0000000000{number:02x}")
    with pytest.raises(InvalidArgument, match="36 characters tell them apart") as told:
        await whole(app, Kind.JOB, "0198c0de")
    assert str(told.value).count("-7000-") == 3


async def test_what_begins_no_id_is_not_found(app: App) -> None:
    with pytest.raises(NotFound, match="no job has an id"):
        await whole(app, Kind.JOB, "ffffffff")
    for text in ("", "019", "order-7", ONE + "0", "%", "0198c0de' or 1=1"):
        with pytest.raises(InvalidArgument):
            await whole(app, Kind.JOB, text)


async def test_views_and_actions_take_beginnings(app: App, store: Store) -> None:
    assert (await views.job(app, "0198c0de-2")).id == TWIN
    assert (await views.group(app, "0198c0de-2")).id == TWIN
    asked = ActionAsked(verb="job.cancel", target={"ids": ["0198c0de-1"]})
    begun = await actions.ask(app, asked, Asker(name="ann", via="cli"))
    done = await actions.carry_out(app, begun)
    assert done.changed == 1
    assert (await record(store, ONE)).state.value == "cancelled"
    assert (await actions.action(app, done.id[:35])).id == done.id


async def test_a_worker_is_asked_by_a_beginning(app: App, store: Store) -> None:
    await join(store, "0198c0de-aaaa-7000-8000-000000000009")
    asked = ActionAsked(verb="worker.quiet", target={"id": "0198c0de-a"})
    done = await actions.carry_out(app, await actions.ask(app, asked, Asker(name="ann", via="cli")))
    assert done.changed == 1


async def test_a_group_is_found_among_groups_although_jobs_alone_begin_alike(
    app: App, store: Store
) -> None:
    root, more = "0198c0de-3333-7000-8000-000000000001", "0198c0de-3333-8000-8000-000000000001"
    await add(store, id=root)
    await add(store, id=more, group_id=root)
    await add(store, id="0198c0de-3333-7000-8000-000000000002")
    assert (await views.group(app, "0198c0de-3333-7000")).id == root
    asked = ActionAsked(verb="group.cancel", target={"id": "0198C0DE33337"})
    assert root in (await actions.ask(app, asked, Asker(name="ann", via="cli"))).target
    await add(store, id="0198c0de-4444-7000-8000-000000000001")
    await add(
        store,
        id="0198c0de-4444-8000-8000-000000000001",
        group_id="0198c0de-4444-7000-8000-000000000001",
    )
    with pytest.raises(InvalidArgument, match="several ids of groups begin with '0198c0de'"):
        await views.group(app, "0198c0de")
