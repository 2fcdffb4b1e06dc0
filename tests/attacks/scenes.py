"""Scenes with one row of each kind, and the calls that name it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from offpath.model.action import ActionFilter
from offpath.model.effects import NOTHING, Effects
from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.model.job import DeadReason, JobFilter, LeasedJob, NewJob
from offpath.model.limit import LimitSpec
from offpath.model.message import Box, MessageFilter
from offpath.model.route import AttemptStatus, Letter
from offpath.model.settlement import Dead, Outcome, Settlement, Succeeded
from offpath.store.protocol import JobRedrive, Store
from tests.conformance import log_builders, message_builders, schedule_builders
from tests.conformance.builders import (
    add,
    failure,
    join,
    new_job,
    take,
    unique,
    worker_info,
)
from tests.conformance.test_actions import asked, progress
from tests.conformance.workflow_builders import gate_on, gives, hold, signal, waiting

Call = Callable[[], Awaitable[object]]


class Place:
    """A store with one of each, and the calls that name each of them."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def job(self) -> dict[str, Call]:
        """A job that waits, with a key, a limit and a tag."""
        store = self.store
        job = new_job(unique=unique("k"), tags=("a",), group_id=None, deadline=None)
        await store.commit(Effects(jobs=(job,)))
        await join(store)
        return {
            "get": lambda: store.get([job.id]),
            "states": lambda: store.states([job.id]),
            "find": lambda: store.find(JobFilter(ids=(job.id,))),
            "repeat": lambda: store.commit(Effects(jobs=(job,))),
            "same key": lambda: store.commit(Effects(jobs=(new_job(unique=unique("k")),))),
            "watch": lambda: hold(store, gate_on(job.id)),
            "lease": lambda: self._run(Succeeded()),
            "held": lambda: store.held("w1"),
            "cancel": lambda: store.cancel([job.id]),
            "redrive": lambda: store.redrive([JobRedrive(id=job.id)]),
            "steps": lambda: store.steps(job.id),
            "delete": lambda: store.delete([job.id]),
        }

    async def ended(self) -> dict[str, Call]:
        """A job that is dead, with a failure."""
        store = self.store
        await join(store)
        job = await add(store)
        (held,) = await take(store)
        await store.settle([dying(held)])
        return {
            "get": lambda: store.get([job]),
            "find": lambda: store.find(JobFilter(ids=(job,))),
            "watch": lambda: hold(store, gate_on(job)),
            "redrive": lambda: store.redrive([JobRedrive(id=job)]),
            "delete": lambda: store.delete([job]),
        }

    async def running(self) -> dict[str, Call]:
        """A job in a worker's hand."""
        store = self.store
        await join(store)
        job = await add(store)
        (held,) = await take(store)
        await store.put_step(held, "a", "1")
        await store.put_undo(held, "a", "{}")
        return {
            "get": lambda: store.get([job]),
            "held": lambda: store.held("w1"),
            "signals": lambda: store.signals("w1", [held]),
            "extend": lambda: store.extend(worker_info(), lease_seconds=60, held=[held]),
            "step": lambda: store.put_step(held, "b", "1"),
            "again": lambda: store.put_step(held, "a", "2"),
            "steps": lambda: store.steps(job),
            "undo": lambda: store.put_undo(held, "b", "{}"),
            "progress": lambda: store.progress(held, "{}"),
            "take signal": lambda: store.take_signal(held, target="t", event="e", step="s"),
            "children": lambda: store.settle([with_children(held, new_job(parent=held.id))]),
            "gone": lambda: store.deregister("w1"),
            "rescue": lambda: store.rescue(limit=10, max_deliveries=3),
            "undoing": lambda: store.undoing(limit=10),
            "compensate": lambda: store.compensate(job, Effects()),
        }

    async def job_gate(self) -> dict[str, Call]:
        """A gate that one job waits at, and the end of the job that it watches."""
        store = self.store
        await join(store)
        watched = await add(store)
        gate = gate_on(watched, timeout=3600)
        held = await hold(store, gate)
        return {
            "gates": lambda: store.gates([gate.id]),
            "join": lambda: store.commit(Effects(jobs=(new_job(gate=gate.id),))),
            "again": lambda: store.commit(Effects(jobs=(new_job(gate=gate.id),), gates=(gate,))),
            "get": lambda: store.get(held),
            "end": lambda: self._run(Succeeded()),
            "join later": lambda: store.commit(Effects(jobs=(new_job(gate=gate.id),))),
            "expire": lambda: store.expire_blocked(limit=10),
            "cancel": lambda: store.cancel(held),
            "delete": lambda: store.delete(held),
        }

    async def job_group(self) -> dict[str, Call]:
        """A group with an open member, another one in hand, and a value."""
        store = self.store
        await join(store)
        group = await add(store)
        (held,) = await take(store)
        await store.settle([with_children(held, new_job(parent=group), new_job(parent=group))])
        first, second = await take(store)
        return {
            "groups": lambda: store.groups([group]),
            "get": lambda: store.get([group]),
            "give": lambda: store.settle([_giving(first)]),
            "join": lambda: store.commit(Effects(jobs=(new_job(group_id=group),))),
            "die": lambda: store.settle([dying(second)]),
            "close": lambda: store.close_groups(limit=10),
            "cancel": lambda: store.cancel_groups([group], limit=10),
            "redrive": lambda: store.redrive([JobRedrive(id=second.id)]),
            "later": lambda: store.groups([group]),
        }

    async def limit_key(self) -> dict[str, Call]:
        """A limit with a job that runs and one that waits."""
        store = self.store
        await join(store)
        limit = LimitSpec(key="k", max_running=1)
        await store.commit(Effects(jobs=(new_job(limit=limit), new_job(limit=limit))))
        await store.admit(limit=10)
        return {
            "limits": lambda: store.limits(keys=["k"]),
            "holders": lambda: store.limit_holders(["k"]),
            "enqueue": lambda: store.commit(Effects(jobs=(new_job(limit=limit),))),
            "close": lambda: store.close_limit("k", seconds=60),
            "run": lambda: self._run(Succeeded()),
            "open": lambda: store.open_limit("k"),
            "admit": lambda: store.admit(limit=10, keys=["k"]),
            "held": lambda: store.count_held(limit=10),
        }

    async def queue_pause(self) -> dict[str, Call]:
        """A queue that is paused."""
        store = self.store
        await store.pause_queue("q")
        return {
            "queues": store.queues,
            "pause": lambda: store.pause_queue("q"),
            "resume": lambda: store.resume_queue("q"),
        }

    async def schedule(self) -> dict[str, Call]:
        """A schedule that is due."""
        store = self.store
        await schedule_builders.plan(store)
        known = await schedule_builders.known(store)
        firing = schedule_builders.firing(known)
        (missed,) = firing.occurrences
        by_hand = schedule_builders.by_hand(schedule_builders.at(7), 5)
        name = known.schedule.name
        return {
            "get": lambda: store.schedules([name]),
            "due": lambda: store.due_schedules(limit=10),
            "put": lambda: schedule_builders.plan(store),
            "change": lambda: store.put_schedule(known.schedule, next_at=missed.at),
            "pause": lambda: store.pause_schedule(name, paused=True),
            "trigger": lambda: store.trigger_schedule(name, new_job(id=by_hand.job), by_hand),
            "fire": lambda: store.fire(firing),
            "occurrences": lambda: store.occurrences(name),
            "delete": lambda: store.delete_schedule(name),
        }

    async def occurrence(self) -> dict[str, Call]:
        """An occurrence that was fired."""
        store = self.store
        await schedule_builders.plan(store)
        known = await schedule_builders.known(store)
        await store.fire(schedule_builders.firing(known))
        return {
            "occurrences": lambda: store.occurrences(known.schedule.name),
            "get": lambda: store.schedules([known.schedule.name]),
            "delete": lambda: store.delete_schedule(known.schedule.name),
        }

    async def message(self) -> dict[str, Call]:
        """A message of the inbox."""
        store = self.store
        new = message_builders.inbound("k")
        await message_builders.post(store, new)
        request = message_builders.request(box=Box.IN)
        return {
            "find": lambda: store.find_messages(MessageFilter(ids=(new.id,))),
            "repeat": lambda: message_builders.post(store, new),
            "same key": lambda: message_builders.post(store, message_builders.inbound("k")),
            "backlog": store.message_backlog,
            "lease": lambda: store.lease_messages(request),
            "revive": lambda: store.revive_messages([new.id]),
            "delete": lambda: store.delete_messages([new.id]),
        }

    async def endpoint(self) -> dict[str, Call]:
        """An endpoint of webhooks."""
        store = self.store
        one = Endpoint(name="e", url="https://example.com", secrets=("s" * 32,))
        await store.put_endpoint(one)
        note = EndpointNote(name="e", delivered=False)
        return {
            "list": store.endpoints,
            "note": lambda: store.note_endpoint(note),
            "set": lambda: store.set_endpoint("e", EndpointState.DISABLED, "x"),
            "put": lambda: store.put_endpoint(one),
            "delete": lambda: store.delete_endpoint("e"),
        }

    async def signal(self) -> dict[str, Call]:
        """A signal that nobody has taken."""
        store = self.store
        await join(store)
        new = signal()
        await store.send_signal(new)
        await add(store)
        (held,) = await take(store)
        return {
            "repeat": lambda: store.send_signal(new),
            "send": lambda: store.send_signal(signal()),
            "take": lambda: store.take_signal(held, target="order-1", event="paid", step="s"),
            "wait": lambda: store.settle([ending(held, waiting())]),
        }

    async def router(self) -> dict[str, Call]:
        """A router with a cursor, a route, an attempt and a letter."""
        store = self.store
        letter = await log_builders.open_letter(store)
        router = log_builders.ROUTER
        event = letter.event.id
        (event_row,) = await store.find_events([event])
        again = log_builders.attempt(event_row, AttemptStatus.SENT)
        await store.set_route(router, "one", enabled=True)
        await store.set_gate(router, opened=True)
        return {
            "routers": store.routers,
            "facts": lambda: store.router_facts(router),
            "lags": store.router_lags,
            "declare": lambda: log_builders.declare(store),
            "route": lambda: store.set_route(router, "one", dry_run=True),
            "gate": lambda: store.set_gate(router, opened=False),
            "gate of all": lambda: store.set_gate(None, opened=True),
            "attempts": lambda: store.attempts(router, event=event),
            "attempted": lambda: store.attempted(router, [event]),
            "redoable": lambda: store.redoable(router, list(AttemptStatus)),
            "letters": lambda: store.letters(router, unresolved=False),
            "read": store.read_events,
            "find": lambda: store.find_events([event]),
            "append": lambda: log_builders.append(store, log_builders.event()),
            "route events": lambda: self._route(letter),
            "redo": lambda: store.record_redo(again, None, Effects()),
            "replay": lambda: store.record_replay(letter, again, resolution="x", effects=Effects()),
            "resolve": lambda: store.resolve_letter(letter.id, "x"),
            "move": lambda: store.move_cursor(router, 0, 0),
        }

    async def worker(self) -> dict[str, Call]:
        """A worker that lives."""
        store = self.store
        await join(store)
        return {
            "list": store.workers,
            "extend": lambda: store.extend(worker_info(), lease_seconds=60, held=[]),
            "signals": lambda: store.signals("w1", []),
            "start": lambda: store.start(new_job(), "w1"),
            "deaths": store.deaths,
            "notice": store.notice_deaths,
            "register": lambda: store.register(worker_info(), lease_seconds=60),
            "deregister": lambda: store.deregister("w1"),
        }

    async def claim(self) -> dict[str, Call]:
        """A claim that somebody holds."""
        store = self.store
        await store.claim("c", "h")
        return {
            "claim": lambda: store.claim("c", "h2"),
            "mine": lambda: store.claim("c", "h"),
            "release": lambda: store.release_claim("c", "h"),
        }

    async def finding(self) -> dict[str, Call]:
        """A finding that stands."""
        store = self.store
        made = await store.record_finding("f", "text", new_id="1")
        return {
            "list": store.findings,
            "again": lambda: store.record_finding("f", "text", new_id="2"),
            "accept": lambda: store.accept_finding(made.id, "because"),
            "end": lambda: store.end_finding("f"),
        }

    async def action(self) -> dict[str, Call]:
        """An action that is carried out."""
        store = self.store
        made = await store.put_action(asked())
        return {
            "list": lambda: store.actions(ActionFilter()),
            "again": lambda: store.put_action(asked()),
            "step": lambda: store.step_action(progress(made)),
            "take": lambda: store.take_action("h2", verbs=[made.verb], lease=30),
            "stop": lambda: store.stop_action(made.id),
        }

    async def declaration(self) -> dict[str, Call]:
        """A declaration of code."""
        store = self.store
        await store.declare("schedule", {"n": "{}"})
        return {
            "list": lambda: store.declarations("schedule"),
            "again": lambda: store.declare("schedule", {"n": "{}"}),
        }

    async def _route(self, letter: Letter) -> None:
        cursor = await self.store.lease_cursor(letter.router, 0, "holder", lease_seconds=30)
        if cursor is not None:
            page = await self.store.read_log(letter.router, 0, after=0, limit=10)
            decisions = log_builders.decide_all(page.events, position=letter.event.position)
            await self.store.advance(cursor, decisions)
            await self.store.release_cursor(cursor)

    async def _run(self, outcome: Outcome) -> None:
        for held in await take(self.store):
            await self.store.settle([ending(held, outcome)])


def ending(held: LeasedJob, outcome: Outcome, effects: Effects = NOTHING) -> Settlement:
    """The end of a job."""
    return Settlement(job=held, outcome=outcome, effects=effects)


def dying(held: LeasedJob) -> Settlement:
    """The death of a job."""
    return ending(held, Dead(reason=DeadReason.EXHAUSTED, failure=failure()))


def with_children(held: LeasedJob, *children: NewJob) -> Settlement:
    """The success of a job that leaves others."""
    return ending(held, Succeeded(), Effects(jobs=children))


def _giving(held: LeasedJob) -> Settlement:
    return ending(held, Succeeded(contributes=False), gives('"x"'))


TABLES: Final = {
    "job": ("job", "ended", "running", "job_gate", "job_group"),
    "job_gate": ("job_gate",),
    "gate_watch": ("job_gate",),
    "job_group": ("job_group",),
    "limit_key": ("limit_key",),
    "queue_pause": ("queue_pause",),
    "schedule": ("schedule",),
    "occurrence": ("occurrence",),
    "message": ("message",),
    "endpoint": ("endpoint",),
    "signal": ("signal",),
    "failure": ("ended",),
    "step": ("running",),
    "router": ("router",),
    "route": ("router",),
    "gate": ("router",),
    "cursor": ("router",),
    "attempt": ("router",),
    "letter": ("router",),
    "log": ("router",),
    "worker": ("worker",),
    "claim": ("claim",),
    "finding": ("finding",),
    "action": ("action",),
    "declaration": ("declaration",),
}
