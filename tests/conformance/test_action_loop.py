"""Workers carry on what a dead process left of an action; verbs that need the code of an app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from offpath.app import App
from offpath.errors import StoreUnavailable
from offpath.events.deliveries import RoutedEvent
from offpath.model.action import ActionRecord, ActionState
from offpath.model.job import JobFilter, JobState
from offpath.model.lease import WorkerRequest
from offpath.model.tally import Tally, Verdict
from offpath.operating import actions
from offpath.operating.action_loop import ActionLoop
from offpath.operating.actions import Asker
from offpath.operating.orders import ActionAsked
from offpath.operating.steps import CHUNK
from offpath.operating.verbs import verb_of
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import add, enqueue, fresh_id, join, new_job, record
from tests.conformance.workflow_builders import signal

ANN = Asker(name="ann", via="dashboard")


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    """An open app on the store, without a worker."""
    async with App(store=store, clock=clock, auto_start=False) as made:
        yield made


async def asked(app: App, verb: str, target: dict[str, Any], **options: Any) -> ActionRecord:
    """An action that was noted, and nothing of it done: its process has died."""
    return await actions.ask(app, ActionAsked(verb=verb, target=target, options=options), ANN)


async def carried_on(app: App, clock: ManualClock, turns: int = 20) -> list[Verdict]:
    """The turns of one worker's loop after the lease of the dead process, until there is no more
    to do.
    """
    clock.advance(actions.LEASE)
    loop, seen = ActionLoop(app), []
    for _ in range(turns):
        turn = await loop.step()
        seen.append(turn.verdict)
        if turn.again is None:
            break
    return seen


async def known(app: App, of: ActionRecord) -> ActionRecord:
    """An action as it is now."""
    return await actions.action(app, of.id)


async def waiting_jobs(store: Store, clock: ManualClock, count: int) -> list[str]:
    """Jobs that wait, enqueued before now."""
    made = [new_job() for _ in range(count)]
    await enqueue(store, *made)
    clock.advance(1)
    return [one.id for one in made]


async def test_a_worker_carries_on_what_a_dead_process_left(
    app: App, store: Store, clock: ManualClock
) -> None:
    await waiting_jobs(store, clock, CHUNK + 20)
    left = await asked(app, "job.cancel", {"where": {"state": ["queued"]}})
    assert (await ActionLoop(app).step()).verdict is Verdict.EMPTY  # its lease still runs
    await carried_on(app, clock)
    done = await known(app, left)
    assert (done.state, done.changed, done.resumed) == (ActionState.DONE, CHUNK + 20, True)
    assert await store.count(JobFilter(states=(JobState.QUEUED,))) == []


async def test_between_two_steps_it_rests_as_long_as_a_step_took(
    app: App, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waiting_jobs(store, clock, CHUNK + 1)
    await asked(app, "job.cancel", {"where": {"state": ["queued"]}})
    clock.advance(actions.LEASE)
    real = actions.advance

    async def slow(*given: Any) -> Any:
        clock.advance(0.5)
        return await real(*given)

    monkeypatch.setattr(actions, "advance", slow)
    turn = await ActionLoop(app).step()
    assert (turn.again, turn.counts) == (0.5, {"stepped": 1})


async def test_a_worker_that_stops_gives_it_back_at_once(
    app: App, store: Store, clock: ManualClock
) -> None:
    await waiting_jobs(store, clock, CHUNK + 1)
    left = await asked(app, "job.cancel", {"where": {"state": ["queued"]}})
    clock.advance(actions.LEASE)
    first, second = ActionLoop(app), ActionLoop(app)
    await first.step()
    assert (await second.step()).verdict is Verdict.EMPTY
    stop = first.spec().stop
    assert stop is not None
    await stop(1.0)
    assert (await second.step()).verdict is Verdict.CLEAN
    assert (await known(app, left)).changed == CHUNK + 1


async def test_an_action_that_was_stopped_is_not_carried_on(
    app: App, store: Store, clock: ManualClock
) -> None:
    ids = await waiting_jobs(store, clock, CHUNK + 5)
    left = await asked(app, "job.cancel", {"where": {"state": ["queued"]}})
    clock.advance(actions.LEASE)
    loop = ActionLoop(app)
    await loop.step()
    await actions.stop(app, left.id, ANN)
    await loop.step()
    done = await known(app, left)
    assert (done.state, done.changed) == (ActionState.STOPPED, CHUNK)
    assert (await record(store, ids[-1])).state is JobState.QUEUED


async def test_a_step_of_a_dead_worker_is_repeated_and_changes_nothing_twice(
    app: App, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waiting_jobs(store, clock, 3)
    left = await asked(app, "job.cancel", {"where": {"state": ["queued"]}})
    real = app.store().step_action

    async def died(*_: object) -> Any:
        raise StoreUnavailable("the process died before it wrote how it went")

    monkeypatch.setattr(app.store(), "step_action", died)
    clock.advance(actions.LEASE)
    with pytest.raises(StoreUnavailable):
        await ActionLoop(app).step()
    monkeypatch.setattr(app.store(), "step_action", real)
    await carried_on(app, clock)
    done = await known(app, left)
    assert (done.state, done.resumed) == (ActionState.DONE, True)
    assert done.changed <= 3
    assert len((await store.find(JobFilter(states=(JobState.CANCELLED,)))).items) == 3


async def test_one_that_fails_makes_the_loop_degraded(app: App, clock: ManualClock) -> None:
    left = await asked(app, "schedule.trigger", {"name": "nowhere"})
    assert Verdict.DEGRADED in await carried_on(app, clock)
    assert (await known(app, left)).state is ActionState.FAILED


async def test_what_needs_other_code_waits_for_a_worker_that_has_it(
    app: App, store: Store, clock: ManualClock
) -> None:
    strange = await asked(app, "sweep.run", {"name": "stale_carts"})
    assert (await actions.carry_out(app, strange)).state is ActionState.RUNNING
    job = await add(store)
    plain = await asked(app, "job.cancel", {"ids": [job]})
    await carried_on(app, clock)
    assert (await known(app, strange)).state is ActionState.RUNNING
    assert (await known(app, plain)).state is ActionState.DONE  # nobody waits behind it

    class Carts:
        async def run(self, ctx: Any, now: Any, limit: int) -> Tally:
            return Tally(buckets={"moved": ("a", "b")})

    app.sweep("stale_carts")(Carts)
    await carried_on(app, clock)
    done = await known(app, strange)
    assert (done.state, done.changed) == (ActionState.DONE, 2)


async def test_a_sweep_of_the_engine_is_run_by_hand(app: App, clock: ManualClock) -> None:
    left = await asked(app, "sweep.run", {"name": "rescue"})
    done = await actions.carry_out(app, left)
    assert (done.state, done.changed) == (ActionState.DONE, 0)


async def test_a_worker_is_asked_by_the_action_once(app: App, store: Store) -> None:
    worker = fresh_id()
    await join(store, worker)
    left = await asked(app, "worker.dump", {"id": worker})
    done = await actions.carry_out(app, left)
    assert done.changed == 1
    desk = await store.worker_desk(worker)
    assert desk is not None
    assert [(one.id, one.request) for one in desk.asked] == [(left.id, WorkerRequest.DUMP)]
    gone = await actions.carry_out(app, await asked(app, "worker.stop", {"id": fresh_id()}))
    assert gone.reasons == {"gone_or_busy": 1}


async def test_signals_that_nobody_took_are_dropped(app: App, store: Store) -> None:
    sent = signal()
    await store.send_signal(sent)
    left = await asked(app, "signal.drop", {"ids": [sent.id, fresh_id()]})
    done = await actions.carry_out(app, left)
    assert (done.changed, done.reasons) == (1, {"taken_or_unknown": 1})


async def test_a_new_job_is_made_once_however_often_it_is_carried_out(
    app: App, store: Store, clock: ManualClock
) -> None:
    @app.task
    async def mail(to: str) -> None: ...

    options = {"input": {"to": "ann"}, "queue": "slow", "priority": 4}
    left = await asked(app, "job.enqueue", {"task": "mail"}, **options)
    work = actions._work(left, verb_of(left.verb))
    verb = verb_of(left.verb)
    assert [(await verb.step(app, work)).changed for _ in range(2)] == [1, 0]
    (job,) = (await store.find(JobFilter(tasks=("mail",)))).items
    assert (job.input, job.queue, job.priority) == ('{"to":"ann"}', "slow", 4)


async def test_a_new_job_with_wrong_arguments_is_refused(app: App, store: Store) -> None:
    @app.task
    async def mail(to: str) -> None: ...

    left = await asked(app, "job.enqueue", {"task": "mail"}, input={"to": 3})
    assert (await actions.carry_out(app, left)).state is ActionState.FAILED
    assert (await store.find(JobFilter())).items == ()


async def test_a_job_is_copied_as_a_new_one(app: App, store: Store) -> None:
    job = await add(
        store, input='{"to":"ann"}', queue="q", priority=2, tags=("vip",), headers='{"a":"b"}'
    )
    left = await asked(app, "job.enqueue", {"task": "mail.send"}, copy_of=job)
    assert (await actions.carry_out(app, left)).changed == 1
    first, second = (await store.find(JobFilter())).items
    copy = first if first.id != job else second
    assert (copy.input, copy.queue, copy.priority, copy.tags, copy.headers) == (
        '{"to":"ann"}',
        "q",
        2,
        ("vip",),
        '{"a":"b"}',
    )
    assert copy.group_id == copy.id
    other = await asked(app, "job.enqueue", {"task": "another"}, copy_of=job)
    assert (await actions.carry_out(app, other)).state is ActionState.FAILED


async def router_with_a_letter(app: App, broken: list[bool]) -> str:
    """A router whose deliverer fails as long as it is broken, and the id of its only letter."""

    async def deliver(_event: RoutedEvent) -> None:
        if broken[0]:
            raise ValueError("down")

    router = app.router("iu", domain="iu", start="beginning")
    router.route(deliver=deliver, enabled=True, dry_run=False)
    await app.routers.open_gate()
    await router.open_gate()
    await app.log.append("iu", "paid", "eu", {"n": 1}, key="k")
    await router.run_once()
    (letter,) = await app.store().letters("iu")
    return letter.id


async def test_a_letter_is_delivered_again_where_its_router_is(
    app: App, store: Store, clock: ManualClock
) -> None:
    broken = [True]
    letter = await router_with_a_letter(app, broken)
    unknown = fresh_id()
    target = {"router": "iu", "ids": [letter, unknown]}
    failed = await asked(app, "letter.redrive", target)
    # a process without the router's code leaves it to one that has it; it shares the open store
    await carried_on(App(store=store, clock=clock, auto_start=False), clock, turns=3)
    assert (await known(app, failed)).state is ActionState.RUNNING
    await carried_on(app, clock)
    done = await known(app, failed)
    assert (done.state, done.changed) == (ActionState.DONE, 0)
    assert done.reasons == {"failed_again": 1, "unknown_or_resolved": 1}
    broken[0] = False
    again = await asked(app, "letter.redrive", {"router": "iu", "ids": [letter]})
    await carried_on(app, clock)
    assert (await known(app, again)).changed == 1
    assert await store.letters("iu") == []


async def test_a_router_is_verified_and_says_what_does_not_hold(
    app: App, clock: ManualClock
) -> None:
    await router_with_a_letter(app, [True])
    order = await asked(app, "router.verify", {"name": "iu"})
    await carried_on(app, clock)
    done = await known(app, order)
    checks = await app.routers.stored("iu").verify()
    assert done.state is ActionState.DONE
    assert done.changed == sum(one.fine is True for one in checks)
    assert set(done.reasons) == {
        f"check {one.number}: {one.name}" for one in checks if one.fine is False
    }
    assert done.reasons, "a dead letter that nobody has looked at is a check that fails"


async def test_two_operators_who_do_the_same_do_it_once(app: App, store: Store) -> None:
    ids = await waiting_jobs(store, app.clock, 3)  # type: ignore[arg-type]
    orders = [await asked(app, "job.cancel", {"ids": ids}) for _ in range(2)]
    await asyncio.gather(*(actions.carry_out(app, one) for one in orders))
    told = [await known(app, one) for one in orders]
    assert sum(one.changed for one in told) == len(ids)
    assert sum(one.unchanged for one in told) == len(ids)
    assert all(one.state is ActionState.DONE for one in told)
    assert {name for one in told for name in one.reasons} <= {"is_cancelled", "refused"}
