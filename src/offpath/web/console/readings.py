"""Readings: the table of what may be read. A page and its JSON are made of one reading's document.

A route that is not in this table does not exist; the test of the doors goes through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from offpath.app import App
from offpath.errors import InvalidArgument, NotFound
from offpath.health.fleet import MOST_COUNTED, MOST_DUE, member
from offpath.model import checks
from offpath.model.action import ActionFilter, ActionState
from offpath.model.job import JobState
from offpath.model.lease import WorkerAsk, WorkerRequest
from offpath.model.limit import QueueRecord
from offpath.operating import actions, list_views, overview, views
from offpath.operating.documents import actions as action_documents
from offpath.operating.documents import flow, health, schedules, workers
from offpath.operating.documents.actions import ActionDocument, ActionPage
from offpath.operating.documents.faults import FaultsDocument
from offpath.operating.documents.flow import LimitDocument
from offpath.operating.documents.groups import GroupStanding
from offpath.operating.documents.health import HealthDocument
from offpath.operating.documents.jobs import JobDocument
from offpath.operating.documents.lists import BriefDocument, BriefList, CountsDocument
from offpath.operating.documents.pages import DocumentPage
from offpath.operating.documents.schedules import (
    OccurrenceDocument,
    ScheduleListed,
    ScheduleStanding,
)
from offpath.operating.documents.workers import WorkerDocument
from offpath.operating.overview import Overview
from offpath.operating.queue_service import QueueList, QueueStanding, describe_queues
from offpath.operating.reasons import JobShown, commands_of, reasons_of
from offpath.operating.stats_views import StatChoice, StatsDocument
from offpath.runtime.ids import parse_id
from offpath.web.console.document_row import Asking, DocumentReading
from offpath.web.console.event_readings import EVENT_READINGS
from offpath.web.console.queries import ACTION_NAMES, JOB_NAMES, STATS_NAMES
from offpath.web.console.service_readings import SERVICE_READINGS
from offpath.web.console.stats_readings import read_stats, stats_of
from offpath.web.console.work_readings import WORK_READINGS

_UPCOMING: Final = 5
_HISTORY: Final = 50
_NEXT: Final = 20
"""Jobs of a queue that are shown as the next ones."""
_MOST_WORKERS: Final = 200


class LimitPage(DocumentPage[LimitDocument], frozen=True, kw_only=True):
    """A page of limits; ``next`` is given back as ``after``."""


class ScheduleList(Struct, frozen=True, kw_only=True):
    """All schedules."""

    items: tuple[ScheduleListed, ...]


class ScheduleShown(ScheduleStanding, frozen=True, kw_only=True):
    """A schedule with its latest occurrences and the next ones."""

    upcoming: tuple[datetime, ...]
    uncertain: str | None
    """The reason why the next ones cannot be told here; None when they can."""


class OccurrenceList(Struct, frozen=True, kw_only=True):
    """The latest occurrences of a schedule, newest first."""

    items: tuple[OccurrenceDocument, ...]


class QueueShown(QueueStanding, frozen=True, kw_only=True):
    """A queue with the jobs that are handed out next."""

    cut: tuple[str, ...] = ()
    """The fields that were not read, for that took too long: they are empty here."""
    next_due: tuple[BriefDocument, ...]
    stats: StatsDocument
    """Its last hour, or the range that was asked for."""
    counted_to: int = MOST_COUNTED
    """The number at which each count stops: so many, or more."""
    due_counted_to: int = MOST_DUE
    """The same of due jobs of one task."""


class WorkerList(Struct, frozen=True, kw_only=True):
    """The workers, the newest first."""

    items: tuple[WorkerDocument, ...]
    more: bool
    """True if there are older ones, which are not listed."""


class HeldJob(Struct, frozen=True, kw_only=True):
    """A job in a worker's hand."""

    id: str
    task: str
    queue: str
    attempt: int
    deliveries: int


class WorkerShown(WorkerDocument, frozen=True, kw_only=True):
    """A worker with the jobs that it holds."""

    cut: tuple[str, ...] = ()
    """The fields that were not read, for that took too long: they are empty here."""
    held: tuple[HeldJob, ...]
    asked: tuple[WorkerAsk, ...]
    """Requests of operators that it has not answered, the oldest first."""
    answered: WorkerRequest | None
    """The last request that it has carried out."""
    answered_at: datetime | None
    dump: str | None
    """The text of its answer: where its tasks stand. It is shown to whoever may see payloads."""


async def _overview(app: App, asking: Asking) -> Overview:
    query = asking.query
    return await overview.read(
        app,
        asking.seen,
        within=query.one("range"),
        compared=query.one("compare"),
        panels=asking.panels,
    )


async def _jobs(app: App, asking: Asking) -> BriefList:
    query = asking.query
    return await list_views.jobs(
        app,
        query.where(),
        text=query.one("text"),
        seen=asking.seen,
        limit=query.limit(),
        after=query.one("after"),
        newest=query.newest(),
    )


async def _counts(app: App, _: Asking) -> CountsDocument:
    return await list_views.counts(app)


async def _job(app: App, asking: Asking) -> JobShown:
    panels = asking.panels
    standing = await views.job(app, asking.path["id"], asking.seen, panels)
    waits_in = _queue_of(app, standing.queue) if _waits(standing) else _nothing()
    queue, past = await asyncio.gather(
        panels.read(waits_in, None, "why"),
        panels.read(actions.history(app, standing.id), [], "history"),
    )
    fields = {name: getattr(standing, name) for name in standing.__struct_fields__}
    return JobShown(
        **fields,
        why=reasons_of(standing, queue),
        commands=commands_of(standing),
        history=tuple(action_documents.describe(one, asking.seen) for one in past),
        cut=panels.cut,
    )


async def _nothing() -> None:
    """Nothing, where another job has something to wait for."""


def _waits(job: JobDocument) -> bool:
    return job.state in {JobState.QUEUED, JobState.BLOCKED}


async def _dead(app: App, asking: Asking) -> BriefList:
    query = asking.query
    return await list_views.jobs(
        app,
        {**query.where("state"), "state": JobState.DEAD.value},
        text=query.one("text"),
        seen=asking.seen,
        limit=query.limit(),
        after=query.one("after"),
        newest=query.newest(),
    )


async def _faults(app: App, _: Asking) -> FaultsDocument:
    return await overview.dead_faults(app)


async def _group(app: App, asking: Asking) -> GroupStanding:
    return await views.group(app, asking.path["id"], asking.seen, limit=asking.query.limit())


async def _queues(app: App, _: Asking) -> QueueList:
    store = app.store()
    workers, found, backlog = await asyncio.gather(
        store.workers(), store.queues(most=MOST_COUNTED), store.backlog(limit=MOST_DUE)
    )
    return describe_queues(found, backlog, [member(one) for one in workers])


async def _queue(app: App, asking: Asking) -> QueueShown:
    name = checks.name(asking.path["name"], "queue")
    standing, following, lately = await asyncio.gather(
        _queue_of(app, name),
        asking.panels.read(list_views.next_due(app, name, limit=_NEXT), (), "next_due"),
        stats_of(app, asking, StatChoice(queue=name)),
    )
    fields = {field: getattr(standing, field) for field in standing.__struct_fields__}
    return QueueShown(**fields, next_due=following, stats=lately, cut=asking.panels.cut)


async def _queue_of(app: App, name: str) -> QueueStanding:
    """One queue. The store knows those with unended jobs or a pause; any other one is idle."""
    store = app.store()
    idle = QueueRecord(name=name, blocked=0, scheduled=0, ready=0, running=0)
    found, workers, backlog = await asyncio.gather(
        store.queues(most=MOST_COUNTED), store.workers(), store.backlog(limit=MOST_DUE)
    )
    record = next((one for one in found if one.name == name), idle)
    return describe_queues([record], backlog, [member(one) for one in workers]).items[0]


async def _limits(app: App, asking: Asking) -> LimitPage:
    size = asking.query.limit()
    found = await app.limits.list(limit=size, after=asking.query.one("after"))
    following = found[-1].key if len(found) >= size else None
    return LimitPage(items=tuple(flow.describe_limit(one) for one in found), next=following)


async def _schedules(app: App, asking: Asking) -> ScheduleList:
    found = await app.schedules.list()
    return ScheduleList(items=await list_views.schedules(app, found, asking.seen))


async def _schedule(app: App, asking: Asking) -> ScheduleShown:
    name = asking.path["name"]
    record, history = await asyncio.gather(
        app.schedules.get(name), app.schedules.history(name, limit=_HISTORY)
    )
    told = schedules.describe_standing(record, history, asking.seen)
    fields = {field: getattr(told, field) for field in told.__struct_fields__}
    try:
        times = tuple(await app.schedules.next(name, count=_UPCOMING))
    except InvalidArgument as error:  # a next-time function that only its app has
        return ScheduleShown(**fields, upcoming=(), uncertain=str(error))
    return ScheduleShown(**fields, upcoming=times, uncertain=None)


async def _occurrences(app: App, asking: Asking) -> OccurrenceList:
    history = await app.schedules.history(asking.path["name"], limit=asking.query.limit())
    return OccurrenceList(items=tuple(schedules.describe_occurrence(one) for one in history))


async def _workers(app: App, _: Asking) -> WorkerList:
    found = (await app.workers())[::-1]
    told = tuple(workers.describe(member(one)) for one in found[:_MOST_WORKERS])
    return WorkerList(items=told, more=len(found) > _MOST_WORKERS)


async def _worker(app: App, asking: Asking) -> WorkerShown:
    worker_id = asking.path["id"]
    store = app.store()
    panels, answers = asking.panels, ("asked", "answered", "answered_at", "dump")
    known, held, desk = await asyncio.gather(
        app.workers(),
        panels.read(store.held(worker_id), [], "held"),
        panels.read(store.worker_desk(worker_id), None, *answers),
    )
    found = next((one for one in known if one.info.id == worker_id), None)
    if found is None:
        raise NotFound(f"there is no worker {worker_id} (any more): they are kept for an hour")
    told = asdict(workers.describe(member(found)))
    mine = ({name: getattr(one, name) for name in HeldJob.__struct_fields__} for one in held)
    answer = None if desk is None else desk.answer
    return WorkerShown(
        **told,
        asked=() if desk is None else desk.asked,
        held=tuple(HeldJob(**one) for one in mine),
        answered=None if answer is None else answer.request,
        answered_at=None if answer is None else answer.at,
        dump=None if answer is None else asking.seen.traceback(answer.text),
        cut=panels.cut,
    )


async def _actions(app: App, asking: Asking) -> ActionPage:
    query = asking.query
    where = ActionFilter(
        states=_action_states(query.many("state")),
        verbs=query.many("verb"),
        actors=query.many("actor"),
    )
    after = query.one("after")
    if after is not None:
        parse_id(after, "after")
    found = await app.store().actions(where, limit=query.limit(), after=after)
    return action_documents.describe_page(found, query.limit(), asking.seen)


def _action_states(given: Sequence[str]) -> tuple[ActionState, ...]:
    try:
        return tuple(ActionState(one) for one in given)
    except ValueError as error:
        raise InvalidArgument(f"state: {error}; the states are {', '.join(ActionState)}") from error


async def _action(app: App, asking: Asking) -> ActionDocument:
    found = await actions.action(app, asking.path["id"])
    return action_documents.describe(found, asking.seen)


async def _health(app: App, _: Asking) -> HealthDocument:
    return health.describe(await views.fleet_of(app))


READINGS: Final[tuple[DocumentReading, ...]] = (
    DocumentReading(
        name="overview",
        path="/overview",
        page="/",
        summary="The verdict, what hinders, and what waits.",
        document=Overview,
        read=_overview,
        names=("range", "compare"),
    ),
    DocumentReading(
        name="stats",
        path="/stats",
        summary="What happened in a range of time, of all or of one queue, task, stream or router.",
        document=StatsDocument,
        read=read_stats,
        names=STATS_NAMES,
        shared=True,
    ),
    DocumentReading(
        name="jobs",
        path="/jobs",
        summary="Jobs, newest first, among the next 20,000; and how far that came.",
        document=BriefList,
        read=_jobs,
        names=JOB_NAMES,
    ),
    DocumentReading(
        name="counts",
        path="/counts",
        summary="How many jobs wait, run and are dead, each counted up to a limit.",
        document=CountsDocument,
        read=_counts,
        shared=True,
    ),
    DocumentReading(
        name="job",
        path="/jobs/{id}",
        summary="One job, its attempts, and why it is where it is.",
        document=JobShown,
        read=_job,
        parts=("input", "result", "progress"),
    ),
    DocumentReading(
        name="faults",
        path="/faults",
        summary="Dead letters by fault, of the newest ones.",
        document=FaultsDocument,
        read=_faults,
        shared=True,
    ),
    DocumentReading(
        name="dead",
        path="/dead",
        summary="Dead jobs, newest first, among the next 20,000; and how far that came.",
        document=BriefList,
        read=_dead,
        names=tuple(one for one in JOB_NAMES if one != "state"),
    ),
    DocumentReading(
        name="group",
        path="/groups/{id}",
        summary="A job and everything that it queued.",
        document=GroupStanding,
        read=_group,
        names=("limit",),
        parts=("value",),
    ),
    DocumentReading(
        name="queues",
        path="/queues",
        summary="Queues: what waits in each, and who serves it.",
        document=QueueList,
        read=_queues,
        shared=True,
    ),
    DocumentReading(
        name="queue",
        path="/queues/{name}",
        summary="One queue.",
        document=QueueShown,
        read=_queue,
        names=("range", "compare"),
    ),
    DocumentReading(
        name="schedules",
        path="/schedules",
        summary="Schedules: what comes next, how the last went.",
        document=ScheduleList,
        read=_schedules,
    ),
    DocumentReading(
        name="occurrences",
        path="/schedules/{name}/occurrences",
        summary="The latest occurrences of a schedule, newest first.",
        document=OccurrenceList,
        read=_occurrences,
        paged=False,
        names=("limit",),
    ),
    DocumentReading(
        name="schedule",
        path="/schedules/{name}",
        summary="One schedule, its next and latest occurrences.",
        document=ScheduleShown,
        read=_schedule,
    ),
    DocumentReading(
        name="limits",
        path="/limits",
        summary="Limits by key: what runs, what is held.",
        document=LimitPage,
        read=_limits,
        names=("after", "limit"),
    ),
    DocumentReading(
        name="workers",
        path="/workers",
        summary="Workers: how their loops go, and what they run.",
        document=WorkerList,
        read=_workers,
        shared=True,
    ),
    DocumentReading(
        name="worker",
        path="/workers/{id}",
        summary="One worker, its loops and the jobs that it holds.",
        document=WorkerShown,
        read=_worker,
    ),
    DocumentReading(
        name="health",
        path="/health",
        summary="Healthy, or each reason why not.",
        document=HealthDocument,
        read=_health,
        shared=True,
    ),
    DocumentReading(
        name="actions",
        path="/actions",
        summary="Actions: who did what, newest first.",
        document=ActionPage,
        read=_actions,
        names=ACTION_NAMES,
    ),
    DocumentReading(
        name="action",
        path="/actions/{id}",
        summary="One action, and how it went.",
        document=ActionDocument,
        read=_action,
    ),
    *WORK_READINGS,
    *EVENT_READINGS,
    *SERVICE_READINGS,
)


def reading(name: str) -> DocumentReading:
    """The reading of a name."""
    return next(one for one in READINGS if one.name == name)
