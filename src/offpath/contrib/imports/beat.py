"""Schedules of Celery's beat: from an app's ``beat_schedule``, or from django-celery-beat."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from offpath.contrib.celery.catalogue import BOTH_DAYS, EITHER
from offpath.contrib.celery.crontab import FIELDS, expression, joined
from offpath.contrib.imports.entries import ScheduleEntry
from offpath.contrib.imports.jobs import task_of
from offpath.contrib.imports.report import ImportCount, ImportReport
from offpath.contrib.imports.tables import SQL, TheirTables, require_table
from offpath.errors import Conflict, InvalidArgument, TaskError
from offpath.jobs.schedules.definition import defined
from offpath.model.json_text import decode_json

if TYPE_CHECKING:
    from offpath.app import App
    from offpath.store.sql import Row

_OPTIONS: Final = {
    "queue": "queue",
    "priority": "priority",
    "expires": "deadline",
    "time_limit": "timeout",
}
"""Options of an entry, and ours."""
_DISABLES: Final = {"postgres": "beat_disable_postgres", "sqlite": "beat_disable_sqlite"}
_CLEANUP: Final = "celery.backend_cleanup"


async def import_schedules(
    app: App,
    entries: Iterable[ScheduleEntry],
    *,
    source: str,
    names: Mapping[str, str] | None = None,
    dry_run: bool = False,
    imported: Callable[[Sequence[str]], None] | None = None,
) -> ImportReport:
    """Make schedules of an open app out of those of another program.

    One that is here already and equal is left as it is, so a repeat changes nothing; another one of
    its name is told. ``imported`` is called with the names of those that are here now: what made
    their jobs until now may stop.
    """
    count, done = ImportCount(), []
    for entry in entries:
        try:
            await _made(app, entry, names or {}, dry_run=dry_run)
        except (InvalidArgument, Conflict, TaskError) as error:
            count.left(entry.task, entry.name, str(error))
        else:
            count.moved(entry.name)
            done.append(entry.name)
    if done and imported is not None and not dry_run:
        imported(done)
    return count.report(source, dry_run=dry_run)


async def _made(app: App, entry: ScheduleEntry, names: Mapping[str, str], *, dry_run: bool) -> None:
    if entry.refused:
        raise InvalidArgument(entry.refused)
    task = task_of(app, names.get(entry.task, entry.task))
    job = task.options(**dict(entry.options)).job(*entry.args, **entry.kwargs)
    terms: Any = dict(entry.terms)
    if not dry_run:
        await app.schedules.create(entry.name, job, **terms)
        return
    made = defined(entry.name, job, terms, app.schedules.functions, origin="api")
    for record in await app.schedules.list():
        if record.schedule.name == made.name and record.schedule != made:
            raise Conflict(f"there is another schedule {made.name!r} already")


# -- an app of Celery's --------------------------------------------------------------------------


def celery_entries(celery: Any) -> Iterator[ScheduleEntry]:  # noqa: ANN401 - a Celery app
    """The entries of ``beat_schedule`` of a Celery app, ours or Celery's own."""
    zone = str(getattr(celery, "timezone", None) or celery.conf.get("timezone") or "UTC")
    for name, entry in celery.conf.beat_schedule.items():
        given = {"name": name, "task": str(entry.get("task"))}
        try:
            yield ScheduleEntry(
                **given,
                args=tuple(entry.get("args") or ()),
                kwargs=dict(entry.get("kwargs") or {}),
                options=_options(entry.get("options") or {}),
                terms=_terms(entry.get("schedule"), zone),
            )
        except InvalidArgument as error:
            yield ScheduleEntry(**given, refused=str(error))


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(given.keys() - _OPTIONS.keys()):
        raise InvalidArgument(f"it has the options {', '.join(unknown)}, which a job here has not")
    return {_OPTIONS[name]: value for name, value in given.items() if value is not None}


def _terms(schedule: Any, zone: str) -> dict[str, Any]:  # noqa: ANN401 - what Celery takes
    if isinstance(schedule, timedelta | int | float) and not isinstance(schedule, bool):
        return {"every": schedule}
    if hasattr(schedule, "_orig_minute"):
        return _cron({name: getattr(schedule, f"_orig_{name}") for name in FIELDS}, zone)
    if hasattr(schedule, "run_every"):
        return {"every": schedule.run_every}
    raise InvalidArgument(
        f"a schedule of the kind {type(schedule).__name__} is not here: when= takes a function"
    )


def _cron(fields: Mapping[str, object], zone: str) -> dict[str, Any]:
    try:
        texts = {name: joined(value) for name, value in fields.items()}
    except TypeError as error:
        raise InvalidArgument(str(error)) from None
    if all(texts[name] != "*" for name in EITHER):
        raise InvalidArgument(BOTH_DAYS.text)
    return {"cron": expression(texts), "zone": zone}


# -- django-celery-beat --------------------------------------------------------------------------


def django_celery_beat(tables: TheirTables) -> Iterator[ScheduleEntry]:
    """The periodic tasks of django-celery-beat."""
    require_table(tables, "django_celery_beat_periodictask", "django-celery-beat")
    for row in tables.rows(SQL["beat_entries"]()):
        try:
            yield _entry(row)
        except InvalidArgument as error:
            yield ScheduleEntry(name=row[0], task=row[1], refused=str(error))


def disable_in_beat(tables: TheirTables, names: Sequence[str]) -> None:
    """Disable periodic tasks of django-celery-beat, and let a beat that runs know it."""
    with tables.transaction():
        tables.rows(SQL[_DISABLES[tables.dialect]](names=json.dumps(list(names))))
        tables.rows(SQL["beat_changed"]())


def _entry(row: Row) -> ScheduleEntry:
    (name, task, args, kwargs, queue, priority, seconds, enabled, once, ends, begins_later,
     exchange, routing, headers, every, period, *cron, zone) = row  # fmt: skip
    _refuse(
        {
            "it is disabled there": not enabled,
            "workers here prune by themselves": task == _CLEANUP,
            "it runs once: enqueue a job with run_at=": once,
            "it has an end (expires), which a schedule here has not": ends,
            "it begins later (start_time): import it then": begins_later,
            "it has an exchange or a routing key: a queue here is a name": exchange or routing,
            "it has headers of AMQP": headers not in {None, "", "{}"},
        }
    )
    options = {"queue": queue or None, "priority": priority, "deadline": seconds}
    return ScheduleEntry(
        name=name,
        task=task,
        args=_listed(args or "[]"),
        kwargs=decode_json(kwargs or "{}", "its kwargs", type=dict[str, Any]),
        options={each: value for each, value in options.items() if value is not None},
        terms=_timing(every, period, cron, zone),
    )


def _listed(text: str) -> list[Any]:
    found = decode_json(text, "its args")
    if not isinstance(found, list):
        raise InvalidArgument("its args are not a JSON list")
    return found


def _refuse(faults: Mapping[str, object]) -> None:
    for reason, holds in faults.items():
        if holds:
            raise InvalidArgument(reason)


def _timing(every: int | None, period: str | None, cron: list[Any], zone: str) -> dict[str, Any]:
    if every is not None and period is not None:
        return {"every": timedelta(**{period: every})}
    if cron[0] is None:
        raise InvalidArgument("its times are those of the sun: when= takes a function")
    return _cron(dict(zip(FIELDS, cron, strict=True)), zone)
