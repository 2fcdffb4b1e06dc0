"""Actions of operators: noted before they begin, held while they are carried out, kept with their
outcome.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.model.action import (
    ActionFilter,
    ActionProgress,
    ActionRecord,
    ActionState,
    NewAction,
)
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from offpath.sweeps.context import SweepContext
from offpath.sweeps.prune import Prune
from tests.conformance.builders import START

pytestmark = pytest.mark.needs("operating")

VERB = "job.redrive"
ALL = ActionFilter()
LEASE = 30.0


def asked(number: int = 1, *, holder: str = "web-1", verb: str = VERB) -> NewAction:
    """An action as somebody asks for it."""
    return NewAction(
        id=f"0198c0de-0000-7000-8000-{number:012}",
        actor="ann",
        via="dashboard",
        verb=verb,
        target='{"ids": ["a", "b"]}',
        options='{"per_second": 5}',
        note="the provider was down",
        holder=holder,
        lease=LEASE,
    )


def progress(of: ActionRecord | NewAction, **told: object) -> ActionProgress:
    """A step of its holder."""
    return ActionProgress(id=of.id, holder=of.holder, lease=LEASE, **told)  # type: ignore[arg-type]


async def test_an_action_is_kept_as_it_was_asked(store: Store, clock: ManualClock) -> None:
    made = await store.put_action(asked())
    assert made == ActionRecord(
        id=asked().id,
        at=START,
        actor="ann",
        via="dashboard",
        verb=VERB,
        target='{"ids": ["a", "b"]}',
        options='{"per_second": 5}',
        note="the provider was down",
        state=ActionState.RUNNING,
        holder="web-1",
        held_until=START + timedelta(seconds=LEASE),
    )
    assert await store.actions(ALL) == [made]


async def test_who_asks_again_by_the_same_id_learns_what_became_of_it(
    store: Store, clock: ManualClock
) -> None:
    first = await store.put_action(asked())
    clock.advance(1)
    again = await store.put_action(asked(holder="web-2", verb="job.cancel"))
    assert again == first
    ended = await store.step_action(progress(first, state=ActionState.DONE, changed=2))
    assert await store.put_action(asked(holder="web-3")) == ended


async def test_a_step_tells_how_far_it_is_and_holds_it_on(store: Store, clock: ManualClock) -> None:
    made = await store.put_action(asked())
    clock.advance(20)
    told = progress(made, cursor="j5", changed=4, unchanged=1, reasons={"is_running": 1})
    stepped = await store.step_action(told)
    assert stepped is not None
    assert (stepped.cursor, stepped.changed, stepped.unchanged) == ("j5", 4, 1)
    assert stepped.reasons == {"is_running": 1}
    assert stepped.held_until == START + timedelta(seconds=20 + LEASE)
    assert stepped.finished_at is None
    assert await store.step_action(told) == stepped


async def test_the_last_step_ends_it_once(store: Store, clock: ManualClock) -> None:
    made = await store.put_action(asked())
    clock.advance(3)
    ended = await store.step_action(progress(made, state=ActionState.FAILED, error="it is away"))
    assert ended is not None
    assert (ended.state, ended.error) == (ActionState.FAILED, "it is away")
    assert ended.finished_at == START + timedelta(seconds=3)
    assert await store.step_action(progress(made, changed=9)) is None
    assert await store.actions(ALL) == [ended]


async def test_only_its_holder_steps(store: Store) -> None:
    made = await store.put_action(asked())
    other = progress(asked(holder="web-2"), changed=7)
    assert await store.step_action(other) is None
    assert await store.step_action(progress(asked(2))) is None
    assert await store.actions(ALL) == [made]


async def test_what_a_dead_holder_left_is_taken_over_by_one(
    store: Store, clock: ManualClock
) -> None:
    first = await store.put_action(asked(1))
    await store.put_action(asked(2))
    assert await store.take_action("web-2", verbs=[VERB], lease=LEASE) is None
    clock.advance(LEASE)
    taken = await store.take_action("web-2", verbs=[VERB], lease=LEASE)
    assert taken is not None
    assert (taken.id, taken.holder, taken.resumed) == (first.id, "web-2", True)
    assert taken.held_until == START + timedelta(seconds=2 * LEASE)
    assert await store.step_action(progress(first)) is None
    following = await store.take_action("web-3", verbs=[VERB], lease=LEASE)
    assert following is not None
    assert following.id == asked(2).id
    assert await store.take_action("web-4", verbs=[VERB], lease=LEASE) is None


async def test_who_takes_over_knows_the_verb(store: Store, clock: ManualClock) -> None:
    await store.put_action(asked())
    clock.advance(LEASE)
    assert await store.take_action("web-2", verbs=["queue.pause"], lease=LEASE) is None
    assert await store.take_action("web-2", verbs=[], lease=LEASE) is None


async def test_a_stopped_action_is_not_carried_on(store: Store, clock: ManualClock) -> None:
    made = await store.put_action(asked())
    assert await store.stop_action(made.id)
    assert not await store.stop_action(made.id)
    assert not await store.stop_action(asked(2).id)
    clock.advance(LEASE)
    assert await store.take_action("web-2", verbs=[VERB], lease=LEASE) is None
    (kept,) = await store.actions(ALL)
    assert (kept.state, kept.finished_at) == (ActionState.STOPPED, START)


@pytest.mark.parametrize("state", [ActionState.RUNNING, ActionState.DONE])
async def test_a_stopped_action_counts_the_step_that_was_under_way(
    store: Store, clock: ManualClock, state: ActionState
) -> None:
    made = await store.put_action(asked())
    clock.advance(2)
    await store.stop_action(made.id)
    clock.advance(3)
    ended = await store.step_action(progress(made, state=state, cursor="j5", changed=500))
    assert ended is not None
    assert (ended.state, ended.changed, ended.cursor) == (ActionState.STOPPED, 500, "j5")
    assert ended.finished_at == START + timedelta(seconds=2)
    assert await store.actions(ALL) == [ended]
    assert await store.step_action(progress(asked(holder="web-2"))) is None


async def test_actions_are_listed_newest_first_page_by_page(store: Store) -> None:
    for number in (2, 1, 3):
        await store.put_action(asked(number))
    page = await store.actions(ALL, limit=2)
    assert [one.id for one in page] == [asked(3).id, asked(2).id]
    rest = await store.actions(ALL, limit=2, after=page[-1].id)
    assert [one.id for one in rest] == [asked(1).id]


async def test_actions_are_chosen_by_id_state_verb_and_actor(store: Store) -> None:
    await store.put_action(asked(1))
    second = await store.put_action(asked(2, verb="queue.pause"))
    await store.step_action(progress(second, state=ActionState.DONE))
    chosen = {
        "ids": ActionFilter(ids=(asked(2).id,)),
        "state": ActionFilter(states=(ActionState.DONE, ActionState.FAILED)),
        "verb": ActionFilter(verbs=("queue.pause",)),
    }
    for where in chosen.values():
        assert [one.id for one in await store.actions(where)] == [asked(2).id]
    assert len(await store.actions(ActionFilter(actors=("ann", "bob")))) == 2
    assert await store.actions(ActionFilter(actors=("bob",))) == []


async def test_old_actions_are_removed_once_they_have_ended(
    store: Store, clock: ManualClock
) -> None:
    for number in (1, 2, 3):
        made = await store.put_action(asked(number))
        await store.step_action(progress(made, state=ActionState.DONE))
    running = await store.put_action(asked(4))
    clock.advance(60)
    await store.step_action(progress(running))
    young = await store.put_action(asked(5))
    await store.step_action(progress(young, state=ActionState.DONE))
    before = START + timedelta(seconds=60)
    assert await store.prune_actions(before=START, limit=10) == 0
    assert await store.prune_actions(before=before, limit=2) == 2
    assert await store.prune_actions(before=before, limit=2) == 1
    assert await store.prune_actions(before=before, limit=2) == 0
    assert [one.id for one in await store.actions(ALL)] == [young.id, running.id]


async def test_the_sweep_forgets_actions_by_their_age(store: Store, clock: ManualClock) -> None:
    made = await store.put_action(asked())
    await store.step_action(progress(made, state=ActionState.DONE))
    sweep = Prune(lambda: store, keep_log=None, keep_actions=60.0)
    context = SweepContext(app=None, sweep="prune", id="one", now=START)
    clock.advance(60)
    assert not (await sweep.run(context, clock.now(), 100)).counted
    clock.advance(1)
    assert (await sweep.run(context, clock.now(), 100)).counted == {"actions": 1}
    assert await store.actions(ALL) == []
