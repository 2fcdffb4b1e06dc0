"""Steps on workers, and what only the code of an app can do: sweeps, routers, new jobs."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offpath.app import App
from offpath.errors import InvalidArgument, JobNotFound, SettlementFailed
from offpath.model import checks
from offpath.model.effects import Effects
from offpath.model.job import JobRecord, NewJob
from offpath.model.lease import WorkerAsk, WorkerRequest
from offpath.model.options import Options
from offpath.model.settlement_counts import SettlementCounts
from offpath.model.tally import SweepResult, Verdict
from offpath.operating.steps import ELSEWHERE, ActionWork, Step, Stepped, once
from offpath.operating.targets import (
    IdsTarget,
    IdTarget,
    LettersTarget,
    NamedTarget,
    SettlementTarget,
    TaskTarget,
)
from offpath.runtime.ids import derive_id, parse_id


class SweepOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a pass of a sweep."""

    limit: int | None = None
    """The most rows of it; None: the sweep's own limit."""
    force: bool = False
    """True to make it also while another worker leads the sweep."""


class EnqueueOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a new job."""

    input: dict[str, Any] = {}
    """Its arguments by name."""
    copy_of: str | None = None
    """A job whose input, options, queue, priority, tags and headers it gets, instead of these."""
    queue: str | None = None
    priority: int | None = None
    delay: float | None = None
    """Seconds until it is due."""


def ask_worker(request: WorkerRequest) -> Step:
    """The step that asks this of a worker, which does it with its next heartbeat or look."""

    async def step(app: App, work: ActionWork) -> Stepped:
        target: IdTarget = work.target
        # the action's own id: a repeat of the step asks nothing twice
        ask = WorkerAsk(id=work.record.id, request=request)
        return once(changed=await app.store().ask_worker(target.id, ask), why="gone_or_busy")

    return step


async def drop_signals(app: App, work: ActionWork) -> Stepped:
    """End signals that nobody has taken."""
    target: IdsTarget = work.target
    ids = sorted({parse_id(each, "id") for each in target.ids})
    done = await app.store().drop_signals(ids)
    left = len(ids) - len(done)
    return Stepped(changed=len(done), left={"taken_or_unknown": left} if left else {})


async def run_sweep(app: App, work: ActionWork) -> Stepped:
    """Make one pass of a sweep, where its code is."""
    target: NamedTarget = work.target
    options: SweepOptions = work.options
    if target.name not in app.sweeps:
        return ELSEWHERE
    done = await app.worker().run_once(only=[target.name], limit=options.limit, force=options.force)
    result = done[target.name]
    if result.error is not None:
        raise InvalidArgument(f"the sweep {target.name} failed: {result.error}")
    changed, left = moved(result)
    return Stepped(changed=changed, left=left)


def moved(result: SweepResult) -> tuple[int, dict[str, int]]:
    """The number of rows that a pass has moved, and of those that it left, by the reason."""
    if result.tally.skipped is not None:
        return 0, {"led_elsewhere": 1}
    bad = sum(len(ids) for name, ids in result.tally.buckets.items() if name in result.tally.bad)
    changed = 0 if result.verdict is Verdict.EMPTY else result.tally.total - bad
    return changed, {"went_wrong": bad} if bad else {}


async def run_settlement(app: App, work: ActionWork) -> Stepped:
    """Credit what is missing of a period, where the kind is defined."""
    target: SettlementTarget = work.target
    if target.kind not in app.settlements:
        return ELSEWHERE
    done: SettlementCounts
    try:
        done = await app.settlements.run(target.kind, target.period)
    except SettlementFailed as error:
        # The counts say which: a run whose records could not be read has credited some before.
        done = error.summary
        if done.stopped_by is not None:
            raise InvalidArgument(str(error)) from error
    left = {"credited_before": done.skipped, "failed": done.failed}
    return Stepped(
        changed=done.credited, left={name: count for name, count in left.items() if count}
    )


async def verify_router(app: App, work: ActionWork) -> Stepped:
    """Make the checks of a router; those that do not hold are the reasons."""
    target: NamedTarget = work.target
    found = await app.routers.stored(target.name).verify()
    fails = {f"check {one.number}: {one.name}": 1 for one in found if one.fine is False}
    return Stepped(changed=sum(one.fine is True for one in found), left=fails)


async def redrive_letters(app: App, work: ActionWork) -> Stepped:
    """Deliver dead letters again, where the router's code is."""
    target: LettersTarget = work.target
    router = next((one for one in app.routers.all() if one.name == target.router), None)
    if router is None:
        return ELSEWHERE
    ids = tuple(dict.fromkeys(target.ids))
    tally = await router.redrive(ids, limit=max(len(ids), 1))
    failed = tally.counts.get("failed", 0)
    seen = {one for several in tally.buckets.values() for one in several}
    left = {"failed_again": failed, "unknown_or_resolved": len(set(ids) - seen)}
    return Stepped(
        changed=tally.total - failed, left={name: count for name, count in left.items() if count}
    )


async def enqueue(app: App, work: ActionWork) -> Stepped:
    """Make a job of a task. Its id is derived from the action's, so that a repeat makes none."""
    target: TaskTarget = work.target
    options: EnqueueOptions = work.options
    job_id = derive_id(work.record.id, 0)
    if options.copy_of is not None:
        known = await _known(app, parse_id(options.copy_of, "copy_of"), target.task)
        (made,) = await app.store().commit(Effects(jobs=(_copy(known, job_id, options),)))
        return once(changed=made.created, why="made_before")
    given = Options(id=job_id, queue=options.queue, priority=options.priority, delay=options.delay)
    sending = app.by_name(target.task, given, registered=target.task in app.tasks)
    handle = await sending.enqueue(**options.input)
    return once(changed=handle.created, why="made_before")


async def _known(app: App, job_id: str, task: str) -> JobRecord:
    found = await app.store().get((job_id,))
    if not found:
        raise JobNotFound(f"there is no job {job_id} (any more), so it cannot be copied")
    if found[0].task != task:
        raise InvalidArgument(f"{job_id} is a job of {found[0].task}, and not of {task}")
    return found[0]


def _copy(known: JobRecord, job_id: str, options: EnqueueOptions) -> NewJob:
    """A job as another one was when it was enqueued: alone, and without its unique key."""
    made = NewJob(
        id=job_id,
        task=known.task,
        input=known.input,
        fingerprint=known.fingerprint,
        queue=known.queue,
        priority=known.priority,
        options=known.options,
        tags=known.tags,
        headers=known.headers,
        fair_key=known.fair_key,
        delay=options.delay or 0.0,
    )
    if options.queue is not None:
        made = replace(made, queue=checks.name(options.queue, "queue"))
    return made if options.priority is None else replace(made, priority=options.priority)
