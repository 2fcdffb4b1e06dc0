"""A stop whose process died is settled by whoever comes after it, and no row stays for ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.model.action import STOP, ActionFilter, ActionRecord, ActionState, NewAction
from offpath.operating import actions
from offpath.operating.action_loop import ActionLoop
from offpath.operating.actions import LEASE, Asker
from offpath.operating.orders import ActionAsked
from offpath.runtime.clock import ManualClock
from offpath.store.hints import Hint
from offpath.store.protocol import Store
from tests.conformance.builders import add, fresh_id

pytestmark = pytest.mark.needs("operating")

ANN = Asker(name="ann", via="dashboard")


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    """An open app on the store, without a worker."""
    async with App(store=store, clock=clock, auto_start=False) as made:
        yield made


async def begun(app: App, store: Store) -> ActionRecord:
    """An action that is under way, in the hand of who asked for it."""
    job = await add(store)
    return await actions.ask(app, ActionAsked(verb="job.cancel", target={"ids": [job]}), ANN)


async def left_stop(store: Store, of: ActionRecord) -> ActionRecord:
    """The row of a stop, as its process left it."""
    return await store.put_action(
        NewAction(
            id=fresh_id(), actor="bob", via="api", verb=STOP,
            target=json.dumps({"ids": [of.id]}), holder="api/dead", lease=LEASE,
        )
    )  # fmt: skip


async def now(app: App, of: ActionRecord) -> ActionRecord:
    """The row as it is."""
    return await actions.action(app, of.id)


async def carried_on(app: App, clock: ManualClock) -> None:
    clock.advance(LEASE)
    loop = ActionLoop(app)
    while (await loop.step()).again is not None:
        pass


async def test_a_stop_that_was_not_done_is_done(app: App, store: Store, clock: ManualClock) -> None:
    action = await begun(app, store)
    await store.step_action(actions._so_far(action))
    stop = await left_stop(store, action)
    clock.advance(LEASE)
    # held by the one who still carries it out
    taken = await store.take_action("worker/one", verbs=("job.cancel",), lease=10 * LEASE)
    assert taken is not None
    await carried_on(app, clock)
    done = await now(app, stop)
    assert (done.state, done.changed, done.resumed) == (ActionState.DONE, 1, True)
    assert (await now(app, action)).state is ActionState.STOPPED


async def test_a_stop_that_was_done_and_not_told_counts_as_done(
    app: App, store: Store, clock: ManualClock
) -> None:
    action = await begun(app, store)
    stop = await left_stop(store, action)
    assert await store.stop_action(action.id)
    await carried_on(app, clock)
    done = await now(app, stop)
    assert (done.state, done.changed, done.reasons) == (ActionState.DONE, 1, {})


async def test_a_stop_of_what_had_ended_says_so(app: App, store: Store, clock: ManualClock) -> None:
    action = await begun(app, store)
    await actions.carry_out(app, action)
    stop = await left_stop(store, action)
    await carried_on(app, clock)
    done = await now(app, stop)
    assert (done.state, done.reasons) == (ActionState.DONE, {"ended_already": 1})


async def test_a_dashboard_settles_it_too(app: App, store: Store, clock: ManualClock) -> None:
    action = await begun(app, store)
    await actions.carry_out(app, action)
    stop = await left_stop(store, action)
    clock.advance(LEASE)
    settled = await actions.carry_on(app, "dashboard")
    assert settled is not None
    assert (settled.id, settled.state) == (stop.id, ActionState.DONE)


async def test_what_nobody_can_carry_on_is_removed_with_the_old_ones(
    app: App, store: Store, clock: ManualClock
) -> None:
    strange = await store.put_action(
        NewAction(id=fresh_id(), actor="bob", via="cli", verb="endpoint.add", target="{}",
                  holder="cli/dead", lease=LEASE)
    )  # fmt: skip
    clock.advance(LEASE)
    moment = strange.at + timedelta(seconds=LEASE)
    assert await store.prune_actions(before=moment, limit=10) == 0
    assert await store.prune_actions(before=moment + timedelta(seconds=1), limit=10) == 1
    assert await store.actions(ActionFilter()) == []


async def test_one_that_is_given_back_is_told_to_who_listens(app: App, store: Store) -> None:
    heard = asyncio.Event()
    end = store.listen(lambda hint: heard.set() if hint is Hint.ACTIONS else None)
    action = await begun(app, store)
    heard.clear()
    await actions.give_back(app, action)
    await asyncio.wait_for(heard.wait(), 10)
    assert Hint.ACTIONS in ActionLoop(app).spec().wakes
    end()


@pytest.mark.parametrize("name", ["", "a" * 201, "ann\0"])
async def test_a_name_that_no_row_holds_is_refused_before_anything_is_written(
    app: App, store: Store, name: str
) -> None:
    with pytest.raises(InvalidArgument, match="the name of who asks"):
        Asker(name=name, via="code")
    assert Asker(name="a" * 200, via="code").name == "a" * 200
    assert await store.actions(ActionFilter()) == []
