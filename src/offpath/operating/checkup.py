"""The checkup of a store: the fleet's work, the settings and the database, check by check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from offpath.app import App
from offpath.errors import SchemaError
from offpath.health.fleet import (
    WorkerPresence,
    crowded,
    disputed,
    dying_in,
    member,
    orphans,
    pauses,
)
from offpath.health.thresholds import Thresholds
from offpath.jobs.schedules.ticker import KIND
from offpath.model.deaths import Whose
from offpath.model.job import JobState
from offpath.model.lease import WorkerRecord
from offpath.operating.further_checks import further_findings
from offpath.operating.schema_check import require_schema
from offpath.operating.times import short
from offpath.store.protocol import Backlog, Finding, Level

SKEW = timedelta(seconds=2)
"""Difference between the clocks of this machine and the store that is worth a warning."""
OLD = timedelta(minutes=5)
"""Work that has been due for longer is worth a warning."""
LANES = 5_000
"""Pairs of queue and task with due work, which are worth a warning when there are so many."""
MOST = 100_000
"""Dead letters of one kind that are counted."""
_WHERE = {
    Whose.TASK: "offpath dead list",
    Whose.STREAM: "offpath outbox list --state dead",
    Whose.SOURCE: "offpath inbox list --state dead",
    Whose.ROUTER: "offpath router list",
}
LONG = timedelta(hours=24)
"""A job that has been running for longer is worth a look."""


async def examine(app: App) -> list[Finding]:
    """Every check, each with its finding; problems first. Opens and closes the app.

    Without a schema that fits, that is the only finding: nothing else could be read.
    """
    schema = await _schema(app)
    if schema.level is Level.PROBLEM:
        return [schema]
    async with app:
        findings = [schema, *await look(app)]
    return sorted(findings, key=lambda one: _ORDER[one.level])


def ill(findings: Iterable[Finding]) -> bool:
    """True if one of them is a problem; warnings alone make nothing ill."""
    return any(one.level is Level.PROBLEM for one in findings)


async def _schema(app: App) -> Finding:
    try:
        await require_schema(app)
        async with app:
            steps = await app.store().migrations()
    except SchemaError as error:
        return _finding("schema", Level.PROBLEM, str(error))
    return _finding("schema", Level.FINE, f"at step {len(steps):04}, as this version needs it")


async def look(app: App) -> list[Finding]:
    """The checks of an app that is open, over a schema that fits."""
    store = app.store()
    now = await store.ping()
    workers = await app.workers()
    backlog = await app.backlog()
    return [
        _clock(now),
        _late(workers),
        _ill(workers),
        _untaken(backlog, workers),
        await _paused(app),
        _oldest(backlog, now),
        _lanes(backlog),
        await _waiting(app, backlog, now),
        await _dead(app),
        await _dying(app, workers, now),
        await _found(app),
        await _orphans(app, workers),
        _crowded(workers),
        await _long_running(app, now),
        await _secrets(app),
        *await further_findings(app),
        *await store.diagnose(),
    ]


_ORDER = {Level.PROBLEM: 0, Level.WARNING: 1, Level.FINE: 2}


def _finding(name: str, level: Level, message: str) -> Finding:
    return Finding(name=name, level=level, message=message)


def _clock(now: datetime) -> Finding:
    skew = abs(datetime.now(UTC) - now)
    level = Level.FINE if skew <= SKEW else Level.WARNING
    return _finding("clock", level, f"this machine and the store differ by {short(skew)}")


def _late(workers: list[WorkerRecord]) -> Finding:
    here = [one for one in workers if one.gone_at is None]
    late = [one for one in here if one.late]
    if not late:
        return _finding("workers", Level.FINE, f"{len(here)} registered, none late")
    names = ", ".join(f"{one.info.host}:{one.info.pid} ({one.running} jobs)" for one in late[:5])
    message = f"{len(late)} out of touch: {names}; another worker takes their jobs"
    return _finding("workers", Level.WARNING, message)


def _ill(workers: list[WorkerRecord]) -> Finding:
    live = [one for one in map(member, workers) if one.presence is WorkerPresence.LIVE]
    ill = [one for one in live if one.ill]
    if not ill:
        return _finding("loops", Level.FINE, f"those of {len(live)} live workers make progress")
    names = "; ".join(f"{one.record.info.host}:{one.record.info.pid} {one.ill}" for one in ill[:5])
    return _finding("loops", Level.PROBLEM, names)


def _crowded(workers: list[WorkerRecord]) -> Finding:
    """Names of others that workers' metrics count together, since there are too many."""
    found = crowded(map(member, workers))
    if not found:
        return _finding(
            "metrics", Level.FINE, "every task, queue and stream has metrics of its own"
        )
    return _finding("metrics", Level.WARNING, "; ".join(found))


def _untaken(backlog: list[Backlog], workers: list[WorkerRecord]) -> Finding:
    untaken = [one for one in backlog if not any(_takes(worker, one) for worker in workers)]
    if not untaken:
        return _finding("takers", Level.FINE, "every task with due work has a worker")
    names = ", ".join(f"{one.ready} of {one.task} in queue {one.queue}" for one in untaken[:5])
    message = f"due work that no worker takes: {names}; start a worker that knows it"
    return _finding("takers", Level.PROBLEM, message)


async def _paused(app: App) -> Finding:
    found = list(pauses(await app.queues.list(), await app.limits.list()))
    if not found:
        return _finding("pauses", Level.FINE, "no queue and no limit is paused")
    message = "; ".join(found[:5]) + "; see: offpath queues list, offpath limits list"
    return _finding("pauses", Level.WARNING, message)


def _takes(worker: WorkerRecord, due: Backlog) -> bool:
    serves = not worker.info.queues or due.queue in worker.info.queues
    return worker.gone_at is None and not worker.late and serves and worker.info.knows(due.task)


def _oldest(backlog: list[Backlog], now: datetime) -> Finding:
    if not backlog:
        return _finding("backlog", Level.FINE, "nothing is due")
    first = min(backlog, key=lambda one: one.oldest_run_at)
    age = now - first.oldest_run_at
    level = Level.FINE if age <= OLD else Level.WARNING
    ready = sum(one.ready for one in backlog)
    message = f"{ready} due; the oldest ({first.task}) for {short(age)}"
    return _finding("backlog", level, message)


def _lanes(backlog: list[Backlog]) -> Finding:
    """Names that somebody makes up, as a queue for each customer: who serves all walks over all."""
    if len(backlog) < LANES:
        message = f"{len(backlog)} pairs of queue and task have due work"
        return _finding("lanes", Level.FINE, message)
    ((task, queues),) = Counter(one.task for one in backlog).most_common(1)
    message = (
        f"{len(backlog)} pairs of queue and task have due work, {queues} of them {task}: give the "
        "task a fair_key in place of a queue for each customer"
    )
    return _finding("lanes", Level.WARNING, message)


async def _waiting(app: App, backlog: list[Backlog], now: datetime) -> Finding:
    """Work of every kind that has waited for longer than the settings let it."""
    gauges = await Thresholds(app.store(), app.settings)(backlog, now)
    over = [one.reason for one in gauges if one.reason is not None]
    if not over:
        return _finding("waiting", Level.FINE, "nothing has waited for longer than it may")
    return _finding("waiting", Level.PROBLEM, "; ".join(over[:5]))


async def _dead(app: App) -> Finding:
    """Dead letters of all kinds: jobs, events, inbound messages, and those of routers."""
    dead = await app.store().deaths(limit=MOST)
    if not dead:
        return _finding("dead letters", Level.FINE, "none")
    count = sum(one.count for one in dead)
    most = sorted(dead, key=lambda one: -one.count)[:5]
    names = ", ".join(f"{one.count} of {one.whose} {one.name}" for one in most)
    see = ", ".join(sorted({_WHERE[one.whose] for one in dead}))
    return _finding("dead letters", Level.WARNING, f"{count}: {names}; see: {see}")


async def _dying(app: App, workers: list[WorkerRecord], now: datetime) -> Finding:
    store = app.store()
    members = [member(one) for one in workers]
    dying = await dying_in(store, Thresholds(store, app.settings), members, now)
    if not dying:
        return _finding("deaths", Level.FINE, "none in the last 15 minutes")
    bad = [one.text for one in dying if one.reason is not None]
    few = [one.text for one in dying if one.reason is None]
    level = Level.PROBLEM if bad else Level.WARNING
    return _finding("deaths", level, "; ".join([*bad, *few][:5]))


async def _orphans(app: App, workers: list[WorkerRecord]) -> Finding:
    """Schedules that outlived the code that can run their jobs, or that live workers' code
    defines otherwise.
    """
    schedules = await app.store().schedules()
    found = list(orphans(schedules, [member(one) for one in workers]))
    found += disputed(schedules, await app.store().declarations(KIND))
    if not found:
        text = "the task of each has a worker, and live workers agree on its times"
        return _finding("schedules", Level.FINE, text)
    return _finding("schedules", Level.WARNING, "; ".join(found[:5]))


async def _found(app: App) -> Finding:
    """Findings that passes of workers have kept."""
    found = await app.store().findings()
    open_ones = [one.line for one in found if one.hinders]
    if not found:
        return _finding("findings", Level.FINE, "no finding of a worker waits to be accepted")
    if not open_ones:
        return _finding("findings", Level.FINE, "; ".join(one.line for one in found[:5]))
    level = Level.PROBLEM if app.settings.findings == "red" else Level.WARNING
    return _finding("findings", level, "; ".join(open_ones[:5]))


async def _long_running(app: App, now: datetime) -> Finding:
    page = await app.jobs.find(state=JobState.RUNNING, limit=1_000, newest=False)
    old = [one for one in page.items if one.started_at and now - one.started_at > LONG]
    if not old:
        return _finding("running", Level.FINE, f"no job runs for more than {short(LONG)}")
    names = ", ".join(f"{one.id} ({one.task})" for one in old[:5])
    return _finding("running", Level.WARNING, f"running for more than {short(LONG)}: {names}")


async def _secrets(app: App) -> Finding:
    sealing = await app.webhooks.sealing()
    if sealing.shut:
        names = ", ".join(sealing.shut[:5])
        message = f"no key of OFFPATH_SECRET_KEY opens those of {names}: nothing is posted there"
        return _finding("webhook secrets", Level.PROBLEM, message)
    if sealing.plain:
        message = (
            f"{len(sealing.plain)} endpoints have theirs in plain text: set OFFPATH_SECRET_KEY "
            "(`offpath endpoints new-key` makes one), then run `offpath endpoints reseal`"
        )
        return _finding("webhook secrets", Level.WARNING, message)
    return _finding("webhook secrets", Level.FINE, "none in plain text")
