"""Readings of what jobs belong to and wait for: groups and their graphs, gates, signals, tasks."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.operating import code_views, job_waits, list_views
from offpath.operating.documents.fields import filled
from offpath.operating.documents.jobs import StepList
from offpath.operating.documents.lists import (
    BriefList,
    GateListing,
    GroupListing,
    SignalListing,
)
from offpath.operating.documents.tasks import TaskList, TaskShown
from offpath.operating.graph import GraphDocument
from offpath.operating.stats_views import StatChoice, StatsDocument
from offpath.runtime.ids import parse_id
from offpath.web.console.document_row import Asking, DocumentReading
from offpath.web.console.stats_readings import stats_of

_PAGE: Final = ("after", "limit")


class GroupChoice(StrEnum):
    """The groups of a list that are asked for; open ones, then the others where nothing is said."""

    OPEN = "open"
    ENDED = "ended"


GROUP_NAMES: Final = ("state", *_PAGE)


async def _groups(app: App, asking: Asking) -> GroupListing:
    query = asking.query
    state, limit, after = query.one("state"), query.limit(), query.one("after")
    if state is None:
        return await list_views.groups_open_first(app, limit=limit, after=after)
    if state not in set(GroupChoice):
        known = " or ".join(GroupChoice)
        raise InvalidArgument(f"state must be {known}, or left out for all, not {state!r:.60}")
    unended = state == GroupChoice.OPEN
    return await list_views.groups(app, unended=unended, limit=limit, after=after)


async def _graph(app: App, asking: Asking) -> GraphDocument:
    return await list_views.group_graph(app, asking.path["id"])


async def _steps(app: App, asking: Asking) -> StepList:
    return await job_waits.step_list(app, parse_id(asking.path["id"], "job id"), asking.seen)


async def _children(app: App, asking: Asking) -> BriefList:
    query = asking.query
    return await list_views.jobs(
        app,
        {"parent": asking.path["id"]},
        seen=asking.seen,
        limit=query.limit(),
        after=query.one("after"),
    )


async def _gates(app: App, asking: Asking) -> GateListing:
    query = asking.query
    return await list_views.gates(app, limit=query.limit(), after=query.one("after"))


async def _signals(app: App, asking: Asking) -> SignalListing:
    query = asking.query
    return await list_views.signals(app, asking.seen, limit=query.limit(), after=query.one("after"))


async def _tasks(app: App, _: Asking) -> TaskList:
    return await code_views.tasks(app)


class TaskStanding(TaskShown, frozen=True, kw_only=True):
    """A task with what became of its jobs lately."""

    stats: StatsDocument
    """Its last hour, or the range that was asked for."""


async def _task(app: App, asking: Asking) -> TaskStanding:
    name = asking.path["name"]
    shown, lately = await asyncio.gather(
        code_views.task(app, name, asking.panels), stats_of(app, asking, StatChoice(task=name))
    )
    return filled(TaskStanding, shown, stats=lately, cut=asking.panels.cut)


class TaskSchema(Struct, frozen=True, kw_only=True):
    """The JSON schemas of a task's arguments and result; None where its code is not here."""

    name: str
    arguments: dict[str, Any] | None
    result: dict[str, Any] | None


async def _schema(app: App, asking: Asking) -> TaskSchema:
    return filled(TaskSchema, await code_views.task(app, asking.path["name"]))


WORK_READINGS: Final[tuple[DocumentReading, ...]] = (
    DocumentReading(
        name="groups",
        path="/groups",
        summary="Groups: jobs that queued others. Open ones come first, then the newest.",
        document=GroupListing,
        read=_groups,
        names=GROUP_NAMES,
    ),
    DocumentReading(
        name="graph",
        path="/groups/{id}/graph",
        summary="The members of a group and what leads to each, thousands of them folded.",
        document=GraphDocument,
        read=_graph,
    ),
    DocumentReading(
        name="steps",
        path="/jobs/{id}/steps",
        summary="The steps that a job has recorded, with their times.",
        document=StepList,
        read=_steps,
    ),
    DocumentReading(
        name="children",
        path="/jobs/{id}/children",
        summary="The jobs that a job has enqueued, newest first.",
        document=BriefList,
        read=_children,
        names=_PAGE,
    ),
    DocumentReading(
        name="gates",
        path="/gates",
        summary="Gates that wait: their condition, and how many jobs each holds.",
        document=GateListing,
        read=_gates,
        names=_PAGE,
    ),
    DocumentReading(
        name="signals",
        path="/signals",
        summary="Signals that no job has taken.",
        document=SignalListing,
        read=_signals,
        names=_PAGE,
    ),
    DocumentReading(
        name="tasks",
        path="/tasks",
        summary="Tasks: who runs each, and how many of its jobs are due.",
        document=TaskList,
        read=_tasks,
        shared=True,
    ),
    DocumentReading(
        name="task_schema",
        path="/tasks/{name}/schema",
        summary="The JSON schemas of a task's arguments and of its result.",
        document=TaskSchema,
        read=_schema,
        paged=False,
    ),
    DocumentReading(
        name="task",
        path="/tasks/{name}",
        summary="One task, its options and the schema of its arguments.",
        document=TaskStanding,
        read=_task,
        names=("range", "compare"),
    ),
)
