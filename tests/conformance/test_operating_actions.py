"""An operator's action is done to what was seen, to the end, and once; in every store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from offpath import App
from offpath.errors import IdConflict, InvalidArgument, NotFound, StoreUnavailable, Unconfirmed
from offpath.model.action import STOP, ActionFilter, ActionRecord, ActionState
from offpath.model.job import JobState
from offpath.operating import actions
from offpath.operating.actions import LEASE, Asker
from offpath.operating.documents.actions import in_words
from offpath.operating.orders import ActionAsked
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from offpath.testing import FlakyStore
from tests.conformance.builders import add, die, fresh_id, join, record, start, succeed, take_one

pytestmark = pytest.mark.needs("operating")

ANN = Asker(name="ann", via="dashboard")
BOB = Asker(name="bob", via="api")
ALL_OF_TASK: dict[str, Any] = {"where": {"task": ["mail"]}}


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    """An app on the store."""
    async with App(store=store, clock=clock, auto_start=False) as made:
        yield made


async def dead_jobs(store: Store, clock: ManualClock, count: int, task: str = "mail") -> list[str]:
    """Jobs that are dead, oldest first."""
    await join(store)
    ids = []
    for _ in range(count):
        job = await start(store, task=task)
        await die(store, job)
        ids.append(job.id)
    clock.advance(1)
    return ids


async def do(app: App, verb: str, target: dict[str, Any], **more: Any) -> ActionRecord:
    """Ask for it, and carry it out."""
    asked = ActionAsked(verb=verb, target=target, **more)
    return await actions.carry_out(app, await actions.ask(app, asked, ANN))


async def states(store: Store, ids: list[str]) -> list[str]:
    known = await store.states(ids)
    return [known[one].value if one in known else "gone" for one in ids]


# -- by id and by filter ---------------------------------------------------------------------------


async def test_named_jobs_are_redriven_and_the_others_told_apart(
    app: App, store: Store, clock: ManualClock
) -> None:
    dead = await dead_jobs(store, clock, 2)
    job = await start(store)
    await succeed(store, job)
    done = await do(app, "job.redrive", {"ids": [*dead, job.id, fresh_id()]}, note="it is up")
    assert (done.state, done.changed, done.unchanged) == (ActionState.DONE, 2, 2)
    assert done.reasons == {"is_succeeded": 1, "unknown": 1}
    assert await states(store, dead) == ["queued", "queued"]
    assert in_words(done) == "2 redriven, 2 left alone: 1 is succeeded, 1 unknown (any more)"
    assert (done.actor, done.note, done.finished_at) == ("ann", "it is up", clock.now())


async def test_all_that_match_are_those_that_matched_then(
    app: App, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.operating.job_steps.CHUNK", 2)
    seen = await dead_jobs(store, clock, 5)
    await dead_jobs(store, clock, 1, task="other")
    asked = await actions.ask(app, ActionAsked(verb="job.redrive", target=ALL_OF_TASK), ANN)
    clock.advance(1)
    later = await dead_jobs(store, clock, 1)
    done = await actions.carry_out(app, asked)
    assert done.changed == 5
    assert set(await states(store, seen)) == {"queued"}
    assert await states(store, later) == ["dead"]


async def test_what_died_again_since_it_was_seen_is_left_alone(
    app: App, store: Store, clock: ManualClock
) -> None:
    (job,) = await dead_jobs(store, clock, 1)
    seen = clock.now()
    await do(app, "job.redrive", {"ids": [job]})
    clock.advance(5)
    again = await take_one(store, task="mail")
    assert again.id == job
    await die(store, again)
    target = {"ids": [job], "before": seen.isoformat()}
    done = await do(app, "job.redrive", target)
    assert (done.changed, done.reasons) == (0, {"moved_since": 1})
    assert (await record(store, job)).redrives == 1


async def test_what_ended_and_came_back_since_it_was_asked_is_left_alone(
    app: App, store: Store, clock: ManualClock
) -> None:
    """It did not match then; a second operator has put it back meanwhile."""
    (dead, before) = await dead_jobs(store, clock, 2)
    await store.redrive([JobRedrive(id=before, delay=3_600)])
    clock.advance(1)
    asked = await actions.ask(app, ActionAsked(verb="job.cancel", target=ALL_OF_TASK), ANN)
    clock.advance(1)
    await store.redrive([JobRedrive(id=dead)])
    done = await actions.carry_out(app, asked)
    assert (done.changed, done.reasons) == (1, {"moved_since": 1})
    assert await states(store, [dead, before]) == ["queued", "cancelled"]


async def test_the_moment_of_asking_is_not_in_the_future(
    app: App, store: Store, clock: ManualClock
) -> None:
    target = {**ALL_OF_TASK, "before": datetime.max.replace(tzinfo=clock.now().tzinfo).isoformat()}
    asked = await actions.ask(app, ActionAsked(verb="job.redrive", target=target), ANN)
    clock.advance(1)
    later = await dead_jobs(store, clock, 1)
    await actions.carry_out(app, asked)
    assert await states(store, later) == ["dead"]


async def test_waiting_jobs_are_cancelled_or_run_now(
    app: App, store: Store, clock: ManualClock
) -> None:
    job = await add(store, delay=3_600)
    clock.advance(1)
    done = await do(app, "job.run_now", {"where": {"state": ["queued"]}})
    assert done.changed == 1
    assert (await record(store, job)).run_at == clock.now()
    done = await do(app, "job.cancel", {"ids": [job]})
    assert await states(store, [job]) == ["cancelled"]


async def test_a_redrive_at_a_rate_spreads_what_is_due(
    app: App, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.operating.job_steps.CHUNK", 2)
    dead = await dead_jobs(store, clock, 3)
    await do(app, "job.redrive", ALL_OF_TASK, options={"per_second": 0.5})
    due = [(await record(store, one)).run_at for one in dead]
    assert [(one - clock.now()).total_seconds() for one in due] == [0.0, 2.0, 4.0]


async def test_many_are_redriven_slowly_unless_another_rate_is_asked_for(
    app: App, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.operating.previews.SLOWLY_FROM", 2)
    await dead_jobs(store, clock, 3)
    asked = ActionAsked(verb="job.redrive", target=ALL_OF_TASK)
    seen = await actions.preview(app, asked)
    assert (seen.matching, seen.per_second, seen.seconds) == (3, 50.0, 0.06)
    assert '"per_second":50.0' in (await actions.ask(app, asked, ANN)).options


# -- removal ---------------------------------------------------------------------------------------


async def test_many_are_removed_only_by_who_knows_how_many(
    app: App, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.operating.previews.FREELY", 2)
    dead = await dead_jobs(store, clock, 3)
    asked = ActionAsked(verb="job.delete", target=ALL_OF_TASK)
    seen = await actions.preview(app, asked)
    assert (seen.matching, seen.confirm) == (3, "3")
    assert [one.id for one in seen.first] == dead
    for confirm in (None, "", "2", "all", "x"):
        with pytest.raises(Unconfirmed, match=r"3 rows, .* confirm it by '3'"):
            await do(app, "job.delete", ALL_OF_TASK, confirm=confirm)
    assert await store.actions(ActionFilter()) == []
    await do(app, "job.redrive", {"ids": dead[:1]})
    done = await do(app, "job.delete", {"where": {"state": ["dead"]}}, confirm="3")
    assert (done.changed, await states(store, dead)) == (2, ["queued", "gone", "gone"])


async def test_what_is_too_much_to_count_is_confirmed_in_a_word(
    app: App, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.operating.previews.MOST_COUNTED", 2)
    monkeypatch.setattr("offpath.operating.previews._PAGE", 1)
    await dead_jobs(store, clock, 3)
    seen = await actions.preview(app, ActionAsked(verb="job.delete", target=ALL_OF_TASK))
    assert (seen.matching, seen.more, seen.confirm) == (2, True, "all")
    with pytest.raises(Unconfirmed, match="2 and more rows"):
        await do(app, "job.delete", ALL_OF_TASK, confirm="3")
    assert (await do(app, "job.delete", ALL_OF_TASK, confirm="all")).changed == 3


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "target", "options", "match"),
    [
        ("job.explode", {"ids": ["x"]}, {}, "there is no verb 'job.explode'; there are job.cancel"),
        ("job.redrive", {}, {}, "ids, or a filter"),
        ("job.redrive", {"ids": [fresh_id()], "where": {}}, {}, "ids, or a filter"),
        ("job.redrive", {"ids": ["x"]}, {}, "id must be a UUID"),
        ("job.redrive", {"ids": [fresh_id()] * 1_001}, {}, "at most 1,000 ids"),
        ("job.redrive", {"where": {"tsk": ["a"]}}, {}, "unknown field `tsk`"),
        ("job.redrive", {"where": {"state": ["ded"]}}, {}, "the states are"),
        ("job.redrive", {"where": {"state": ["running"]}}, {}, "it would have to be cancelled"),
        ("job.redrive", ALL_OF_TASK, {"per_second": 0}, "per_second"),
        ("job.redrive", ALL_OF_TASK, {"rate": 5}, "unknown field `rate`"),
        ("queue.pause", {"name": 5}, {}, "the target does not fit"),
        ("queue.pause", {"name": "mail"}, {"until": "soon"}, "the options do not fit|options"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_anything_is_noted(
    app: App, store: Store, verb: str, target: Any, options: Any, match: str
) -> None:
    with pytest.raises(InvalidArgument, match=match):
        await do(app, verb, target, options=options)
    assert await store.actions(ActionFilter()) == []


async def test_what_cannot_be_done_is_kept_as_failed(app: App, store: Store) -> None:
    done = await do(app, "schedule.trigger", {"name": "nightly"})
    assert (done.state, done.changed) == (ActionState.FAILED, 0)
    assert "nightly" in (done.error or "")
    assert await store.actions(ActionFilter(states=(ActionState.FAILED,))) == [done]


async def test_a_note_and_a_name_have_bounds(app: App) -> None:
    with pytest.raises(InvalidArgument, match="note has more than 500"):
        await do(app, "queue.pause", {"name": "mail"}, note="x" * 501)
    with pytest.raises(InvalidArgument, match="the name of who asks must have 1 to 200"):
        Asker(name="x" * 201, via="cli")


# -- repeats, crashes, two at once -----------------------------------------------------------------


async def test_asking_again_by_the_same_id_does_nothing_twice(
    app: App, store: Store, clock: ManualClock
) -> None:
    (job,) = await dead_jobs(store, clock, 1)
    asked = ActionAsked(id=fresh_id(), verb="job.redrive", target={"ids": [job]})
    first = await actions.carry_out(app, await actions.ask(app, asked, ANN))
    clock.advance(1)
    await die(store, await take_one(store, task="mail"))
    clock.advance(1)
    again = await actions.carry_out(app, await actions.ask(app, asked, ANN))
    assert again == first
    assert await states(store, [job]) == ["dead"]
    other = ActionAsked(id=asked.id, verb="job.cancel", target={"ids": [job]})
    with pytest.raises(IdConflict, match="another one"):
        await actions.ask(app, other, ANN)


@pytest.mark.parametrize("operation", ["redrive", "step_action"])
async def test_what_a_dead_process_began_is_carried_on(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    monkeypatch.setattr("offpath.operating.job_steps.CHUNK", 2)
    dead = await dead_jobs(store, clock, 5)
    flaky = FlakyStore(store)
    async with App(store=flaky, clock=clock, auto_start=False) as app:
        asked = ActionAsked(verb="job.redrive", target=ALL_OF_TASK)
        begun = await actions.ask(app, asked, ANN)
        flaky.lose_answer(operation, call=2)
        with pytest.raises(StoreUnavailable):
            await actions.carry_out(app, begun)
        assert await actions.carry_on(app, "dashboard") is None, "its lease still runs"
        clock.advance(LEASE)
        done = await actions.carry_on(app, "dashboard")
        assert done is not None
        assert (done.id, done.state, done.resumed) == (begun.id, ActionState.DONE, True)
        assert await states(store, dead) == ["queued"] * 5
        assert [(await record(store, one)).redrives for one in dead] == [1] * 5
        assert in_words(done).startswith("at least ")
        assert await actions.carry_on(app, "dashboard") is None


async def test_who_lost_it_learns_what_the_other_one_did(
    app: App, store: Store, clock: ManualClock
) -> None:
    await dead_jobs(store, clock, 1)
    begun = await actions.ask(app, ActionAsked(verb="job.redrive", target=ALL_OF_TASK), ANN)
    clock.advance(LEASE)
    done = await actions.carry_on(app, "worker")
    assert done is not None
    assert await actions.carry_out(app, begun) == done
    assert done.changed == 1


async def test_a_stopped_one_ends_between_two_steps(
    app: App, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.operating.job_steps.CHUNK", 1)
    dead = await dead_jobs(store, clock, 3)
    begun = await actions.ask(app, ActionAsked(verb="job.redrive", target=ALL_OF_TASK), ANN)
    real = store.redrive

    async def and_stop(redrives: Any) -> Any:
        await actions.stop(app, begun.id, BOB)
        return await real(redrives)

    monkeypatch.setattr(store, "redrive", and_stop)
    done = await actions.carry_out(app, begun)
    assert (done.state, done.changed) == (ActionState.STOPPED, 1)
    assert await states(store, dead) == ["queued", "dead", "dead"]
    with pytest.raises(NotFound, match="no action"):
        await actions.stop(app, fresh_id(), BOB)


async def test_a_stop_is_an_action_of_whoever_asked_for_it(
    app: App, store: Store, clock: ManualClock
) -> None:
    await dead_jobs(store, clock, 1)
    begun = await actions.ask(app, ActionAsked(verb="job.redrive", target=ALL_OF_TASK), ANN)
    for text in ("1 stopped", "0 stopped, 1 left alone: 1 had ended already"):
        clock.advance(1)
        assert (await actions.stop(app, begun.id, BOB)).state is ActionState.STOPPED
        row = (await store.actions(ActionFilter(verbs=(STOP,)), limit=1))[0]
        assert (row.actor, row.via, row.state) == (BOB.name, BOB.via, ActionState.DONE)
        assert json.loads(row.target) == {"ids": [begun.id]}
        assert in_words(row) == text
    clock.advance(LEASE * 2)
    assert await actions.carry_on(app, "worker") is None


async def test_a_triggered_schedule_makes_one_job_however_often_it_is_carried_out(
    store: Store, clock: ManualClock
) -> None:
    flaky = FlakyStore(store)
    async with App(store=flaky, clock=clock, auto_start=False) as app:

        @app.task
        async def report() -> None: ...

        await app.schedules.create("nightly", report.job(), cron="0 3 * * *", zone="UTC")
        asked = ActionAsked(verb="schedule.trigger", target={"name": "nightly"})
        begun = await actions.ask(app, asked, ANN)
        flaky.lose_answer("trigger_schedule")
        with pytest.raises(StoreUnavailable):
            await actions.carry_out(app, begun)
        clock.advance(LEASE)
        assert await actions.carry_on(app, "dashboard") is not None
        assert len((await app.jobs.find(task="report")).items) == 1
        assert len(await app.schedules.history("nightly")) == 1


# -- one thing -------------------------------------------------------------------------------------


async def test_queues_limits_and_schedules_are_paused_and_resumed(
    app: App, store: Store, clock: ManualClock
) -> None:
    @app.task
    async def report() -> None: ...

    await app.schedules.create("nightly", report.job(), cron="0 3 * * *", zone="UTC")
    for noun, name in (("queue", "mail"), ("limit", "api"), ("schedule", "nightly")):
        assert (await do(app, f"{noun}.pause", {"name": name})).changed == 1
        resumed = await do(app, f"{noun}.resume", {"name": name})
        assert (resumed.state, resumed.changed) == (ActionState.DONE, 1)
    again = await do(app, "queue.resume", {"name": "mail"})
    assert (again.changed, again.reasons) == (0, {"not_paused": 1})


async def test_a_finding_is_accepted_with_its_reason(app: App, store: Store) -> None:
    found = await store.record_finding("ledger.mismatch", "ann", new_id="f1")
    options = {"reason": "restored"}
    assert (await do(app, "finding.accept", {"id": found.id}, options=options)).changed == 1
    assert (await store.findings())[0].reason == "restored"
    missing = await do(app, "finding.accept", {"id": "f2"}, options=options)
    assert missing.state is ActionState.FAILED


async def test_a_group_is_cancelled_whole(app: App, store: Store) -> None:
    root = await add(store)
    for _ in range(3):
        await add(store, group_id=root)
    done = await do(app, "group.cancel", {"id": root})
    assert (done.state, done.changed) == (ActionState.DONE, 4)
    found = await app.groups.members(root)
    assert {one.state for one in found.items} == {JobState.CANCELLED}
    several = [await add(store), await add(store)]
    done = await do(app, "group.cancel", {"ids": [*several, several[0]]})
    assert (done.state, done.changed) == (ActionState.DONE, 2)
    with pytest.raises(InvalidArgument, match="the ids of 1 to 1,000 groups"):
        await do(app, "group.cancel", {})


async def test_a_signal_is_sent_once(app: App, store: Store) -> None:
    target = {"target": "order-7", "event": "paid"}
    assert (await do(app, "job.signal", target, options={"payload": {"by": "ann"}})).changed == 1
