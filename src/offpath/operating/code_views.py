"""Views of what code and settings say: configuration, tasks, sweeps."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from offpath.app import App
from offpath.errors import NotFound
from offpath.health.fleet import MOST_DUE, FleetMember, WorkerPresence, member
from offpath.jobs.define.task_verbs import AnyTask
from offpath.model.brief import FaultTally
from offpath.model.fan_out import TASK as FAN_OUT
from offpath.model.health import LoopReport
from offpath.model.options import decode_run
from offpath.operating import list_views
from offpath.operating.documents import configuration, faults
from offpath.operating.documents.configuration import ConfigurationDocument
from offpath.operating.documents.fields import filled
from offpath.operating.documents.sweeps import SweepDocument, SweepList, SweepLoopDocument
from offpath.operating.documents.tasks import (
    RetryDocument,
    TaskDocument,
    TaskList,
    TaskOptionsDocument,
    TaskShown,
)
from offpath.operating.panels import Panels
from offpath.store.browse import MOST_LOOKED_AT
from offpath.store.protocol import Backlog
from offpath.sweeps.registry import SweepInfo

_MOST_FAULTS: Final = 20
_NO_FAULTS: Final = FaultTally(items=(), looked_at=0, more=False)
_SLOWEST: Final = 10
_PACKAGES: Final = (
    *("msgspec", "psycopg", "starlette", "jinja2", "uvicorn", "aiohttp", "cryptography"),
    *("django", "fastapi", "sqlalchemy", "prometheus-client", "nats-py", "aio-pika", "redis"),
)
"""Libraries by whose versions a fault may differ."""
_TERMS: Final = ("every", "limit", "row_timeout", "shared", "own")


async def config(app: App) -> ConfigurationDocument:
    """The settings in force, the schema's steps and the versions. It holds no secret."""
    store, settings = app.store(), app.settings
    return configuration.describe(
        version=version("offpath"),
        python=platform.python_version(),
        backend=store.capabilities.name,
        values=settings.shown(),
        sources=settings.sources(),
        steps=await store.migrations(),
        packages={name: _installed(name) for name in _PACKAGES},
    )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# -- tasks -----------------------------------------------------------------------------------------


async def tasks(app: App) -> TaskList:
    """The tasks that this app defines, that live workers run, or of which jobs are due."""
    live, due = await asyncio.gather(_live(app), app.store().backlog(limit=MOST_DUE))
    names = {*app.tasks, *(one.task for one in due)}
    names.update(task for one in live for task in one.record.info.tasks)
    return TaskList(
        items=tuple(_task(app, name, live, due) for name in sorted(names) if name != FAN_OUT)
    )


async def task(app: App, name: str, panels: Panels | None = None) -> TaskShown:
    """One task. Raises ``NotFound`` where nobody knows it and no job of it is due."""
    store, panels = app.store(), panels or Panels()
    tallied = store.faults(limit=_MOST_FAULTS, most=MOST_LOOKED_AT, task=name)
    live, due, tally, running = await asyncio.gather(
        _live(app),
        store.backlog(limit=MOST_DUE),
        panels.read(tallied, _NO_FAULTS, "faults"),
        panels.read(list_views.longest_running(app, name, limit=_SLOWEST), (), "running"),
    )
    found, known = _task(app, name, live, due), app.tasks.get(name)
    own = [one for one in due if one.task == name]
    queues = tuple(one.queue for one in own)
    seen = found.workers or queues or tally.items or running or panels.cut
    if known is None and not seen:
        raise NotFound(f"no live worker has a task {name!r:.80}, and no job of it is due or dead")
    doc = None if known is None else known.fn.__doc__
    return filled(
        TaskShown,
        found,
        options=None if known is None else _options(known),
        arguments=None if known is None else known.inputs.schema(),
        result=None if known is None else known.results.schema(),
        summary=doc.strip().splitlines()[0] if doc and doc.strip() else None,
        queues=queues,
        oldest_due_at=min((one.oldest_run_at for one in own), default=None),
        faults=faults.describe(tally).items,
        running=running,
        cut=panels.cut,
    )


def _task(app: App, name: str, live: Iterable[FleetMember], due: Sequence[Backlog]) -> TaskDocument:
    known = app.tasks.get(name)
    return TaskDocument(
        name=name,
        here=known is not None,
        queue=None if known is None else known.template.queue,
        workers=sum(one.record.info.knows(name) for one in live),
        ready=sum(one.ready for one in due if one.task == name),
    )


def _options(known: AnyTask) -> TaskOptionsDocument:
    template = known.template
    run = decode_run(template.options)
    return filled(
        TaskOptionsDocument,
        template,
        retry=filled(RetryDocument, run.retry),
        timeout=run.timeout,
        keep=run.keep,
        unique=None if template.unique is None else template.unique.policy.value,
        limit=None if template.limit is None else template.limit.key,
        concurrency=known.concurrency,
    )


async def _live(app: App) -> list[FleetMember]:
    told = (member(one) for one in await app.workers())
    return [one for one in told if one.presence is WorkerPresence.LIVE]


# -- sweeps ----------------------------------------------------------------------------------------


async def sweeps(app: App, home: App | None = None) -> SweepList:
    """The sweeps of this app, and those that live workers drive for others.

    ``home`` is the app whose code is here, where that is another one than the one that reads.
    """
    live = await _live(app)
    known = (home or app).sweeps.list()
    own = {one.name for one in known}
    others = sorted({name for one in live for name in _driven(one)} - own)
    told = [_sweep(one.name, one, live) for one in known]
    return SweepList(items=(*told, *(_sweep(name, None, live) for name in others)))


_PREFIX: Final = "sweep:"
"""The names of loops that drive registered sweeps begin so."""


def _driven(one: FleetMember) -> Iterator[str]:
    for loop in _loops(one):
        if loop.name.startswith(_PREFIX):
            yield loop.name.removeprefix(_PREFIX)


def _sweep(name: str, info: SweepInfo | None, live: Sequence[FleetMember]) -> SweepDocument:
    found = [
        (one, loop) for one in live for loop in _loops(one) if loop.name in {name, _PREFIX + name}
    ]
    loops = tuple(_driving(one, loop) for one, loop in found)
    passing = [one for one in loops if one.iterations and one.skipped is None]
    last = min(passing, key=lambda one: _age(one.last_success_age), default=None)
    one_at_a_time = any(one.skipped for one in loops) if info is None else not info.shared
    return SweepDocument(
        name=name,
        here=info is not None,
        loops=loops,
        leader=last.worker if last is not None and one_at_a_time else None,
        next_at=min((one.next_at for one in passing if one.next_at is not None), default=None),
        reported_at=max((one.record.seen_at for one, _ in found), default=None),
        **{term: None if info is None else getattr(info, term) for term in _TERMS},
    )


def _driving(one: FleetMember, loop: LoopReport) -> SweepLoopDocument:
    later = loop.next_in
    return filled(
        SweepLoopDocument,
        loop,
        worker=one.record.info.id,
        next_at=None if later is None else one.record.seen_at + timedelta(seconds=later),
    )


def _age(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _loops(one: FleetMember) -> Sequence[LoopReport]:
    return () if one.report is None else one.report.loops
