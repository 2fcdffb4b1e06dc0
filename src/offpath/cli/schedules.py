"""``offpath schedules``: list, show, next, create, change, pause, resume, trigger, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.action_log import named, recorded
from offpath.cli.frame import app_command, confirmed, limit_option, option_group, store_command
from offpath.cli.option_values import Duration, given_only, iso_time
from offpath.cli.values import Cell, Fields, Listing, Said, Shown, Table
from offpath.errors import InvalidArgument
from offpath.jobs.values.job import Job
from offpath.model.json_text import decode_json
from offpath.model.options import Options
from offpath.model.schedule import Missed, Occurrence, Overlap, ScheduleRecord
from offpath.operating.documents.schedules import (
    describe,
    describe_occurrence,
    describe_standing,
    in_words,
    schedule_state,
)
from offpath.operating.task_names import unknown_task
from offpath.runtime.zones import zone_of

_terms = (
    click.option("--cron", metavar="EXPRESSION", help="When, as '30 8 * * MON-FRI' or @daily."),
    click.option(
        "--zone", metavar="ZONE", help="The IANA zone that --cron is read in.  [default: UTC]"
    ),
    click.option("--every", type=Duration(), metavar="DURATION", help="The interval; 1 s or more."),
    click.option(
        "--anchor", callback=iso_time, metavar="TIME", help="The ISO time that --every counts from."
    ),
    click.option("--when", metavar="NAME", help="A next-time function of the app at --app."),
    click.option(
        "--overlap",
        type=click.Choice([one.value for one in Overlap]),
        help="What to do while the job before has not ended.",
    ),
    click.option(
        "--missed",
        type=click.Choice([one.value for one in Missed]),
        help="What to do about times at which no worker ran.",
    ),
    click.option(
        "--missed-limit",
        type=int,
        metavar="N",
        help="The most missed times that `--missed all` makes up for.",
    ),
    click.option(
        "--grace",
        type=Duration(),
        metavar="DURATION",
        help="How late an occurrence may be made before it is missed.",
    ),
    click.option(
        "--input", "document", metavar="JSON", help="The job's arguments as a JSON object."
    ),
    click.option("--queue", help="The queue of its jobs."),
    click.option("--priority", type=int, help="The priority of its jobs; higher ones run first."),
    click.option("--tag", "tags", multiple=True, help="A tag of its jobs; may be repeated."),
)

_JOB_NAMES = ("document", "queue", "priority", "tags")


def _given(**given: Any) -> dict[str, Any]:  # noqa: ANN401 - any term
    """The terms that were given; those of the job apart from the others. Raises ``InvalidArgument``
    when the job's are given without a task.
    """
    terms = given_only(**given)
    job = {name: terms.pop(name) for name in _JOB_NAMES if name in terms}
    if job and given["task"] is None:
        raise InvalidArgument("--input, --queue, --priority and --tag go with --task")
    return {"task": terms.pop("task", None), "job": job, "terms": terms}


_command = app_command("The app that has the task or the function.")
_name = click.argument("name")


@click.group()
def schedules() -> None:
    """Jobs that are made by themselves."""


@schedules.command("list")
@store_command
async def list_schedules(app: App) -> Listing:
    r"""List the schedules: what comes next, how the last went.

    \b
    offpath schedules list
    """
    found = await app.schedules.list()
    columns = ("schedule", "when", "task", "state", "next", "last", "by")
    table = Table(columns, [_row(one) for one in found], "there are no schedules", brief=True)
    return Listing([describe(one) for one in found], table)


@schedules.command("show")
@_name
@store_command
async def show_schedule(app: App, *, name: str) -> Shown:
    r"""Show a schedule, its job and its latest occurrences.

    \b
    offpath schedules show nightly
    """
    record = await app.schedules.get(name)
    latest = await app.schedules.history(name, limit=5)
    return Shown(describe_standing(record, latest), [_fields(record), _history(latest)])


@schedules.command("next")
@_name
@click.option(
    "--count",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="How many times to print.",
)
@_command
async def next_occurrences(app: App, *, name: str, count: int) -> Listing:
    r"""Print when NAME comes next, in UTC and its zone.

    A paused one as if resumed now.

    \b
    offpath schedules next nightly --count 5
    """
    record = await app.schedules.get(name)
    times = await app.schedules.next(name, count=count)
    zone = record.schedule.timing.zone
    read: dict[str, Callable[[datetime], str]] = {"utc": output.when}
    if zone != "UTC":  # otherwise both are the same
        read[zone] = lambda at: at.astimezone(zone_of(zone)).isoformat()
    rows = [[tell(at) for tell in read.values()] for at in times]
    table = Table(tuple(read), rows, "it does not come any more")
    return Listing(times, table, about={"name": name, "zone": zone})


@schedules.command("create")
@_name
@option_group(
    "given",
    _given,
    click.option("--task", required=True, help="The task to make jobs of."),
    *_terms,
)
@_command
@recorded("schedule.create", named())
async def create(app: App, *, name: str, given: dict[str, Any], target: str | None) -> Said:
    r"""Add the schedule NAME. Workers that run take it up; nothing is deployed.

    With --app, task and arguments are checked against that app.

    \b
    offpath schedules create nightly --cron '0 3 * * *' --zone Europe/Berlin --task report
    offpath schedules create poll --every 30 --task fetch --input '{"feed": "eu"}'
    """
    job = _job(app, given["task"], given["job"], registered=_known(app, target))
    unknown = await _unknown(app, given["task"], target)
    return _now(await app.schedules.create(name, job, **given["terms"]), "created", unknown)


@schedules.command("change")
@_name
@option_group(
    "given",
    _given,
    click.option("--task", help="The task to make jobs of from now on, with --input."),
    *_terms,
)
@_command
@recorded("schedule.change", named())
async def change(app: App, *, name: str, given: dict[str, Any], target: str | None) -> Said:
    r"""Change what is given of the schedule NAME, and keep the rest.

    \b
    offpath schedules change nightly --cron '30 3 * * *'
    """
    task = given["task"]
    job = task and _job(app, task, given["job"], registered=_known(app, target))
    unknown = await _unknown(app, task, target)
    return _now(await app.schedules.change(name, job, **given["terms"]), "changed", unknown)


@schedules.command("pause")
@_name
@store_command
@recorded("schedule.pause", named())
async def pause(app: App, *, name: str) -> Said:
    r"""Make no jobs of NAME until it is resumed.

    \b
    offpath schedules pause nightly
    """
    await app.schedules.pause(name)
    return _now(await app.schedules.get(name), "paused")


@schedules.command("resume")
@_name
@_command
@recorded("schedule.resume", named())
async def resume(app: App, *, name: str) -> Said:
    r"""Go on with NAME from now.

    What was due during the pause is not made up for.

    \b
    offpath schedules resume nightly
    """
    await app.schedules.resume(name)
    return _now(await app.schedules.get(name), "resumed")


@schedules.command("trigger")
@_name
@store_command
@recorded("schedule.trigger", named())
async def trigger(app: App, *, name: str) -> Said:
    r"""Make the job of NAME now, out of turn, and print the job's id.

    \b
    offpath schedules trigger nightly
    """
    job = await app.schedules.trigger(name)
    return Said({"ok": True, "name": name, "job": job}, job)


@schedules.command("delete")
@_name
@confirmed("Delete the schedule {name}?")
@store_command
@recorded("schedule.delete", named())
async def delete(app: App, *, name: str) -> Said:
    r"""Remove NAME with its history; jobs that it made stay.

    \b
    offpath schedules delete nightly --yes
    """
    await app.schedules.delete(name)
    return Said({"ok": True, "name": name}, f"{name} deleted")


@schedules.command("history")
@_name
@limit_option
@click.option(
    "--before", callback=iso_time, metavar="TIME", help="Only occurrences before this ISO time."
)
@store_command
async def history(app: App, *, name: str, limit: int, before: datetime | None) -> Listing:
    r"""List what became of the occurrences of NAME, the latest first.

    \b
    offpath schedules history nightly --limit 10
    """
    found = await app.schedules.history(name, limit=limit, before=before)
    return Listing([describe_occurrence(one) for one in found], _history(found))


def _job(app: App, task: str, given: dict[str, Any], *, registered: bool) -> Job[Any, Any]:
    options = {name: value for name, value in given.items() if name != "document"}
    document = given.get("document") or "{}"
    arguments = decode_json(document, "--input", type=dict[str, Any])
    return app.by_name(task, Options(**options), registered=registered).job(**arguments)


# -- what is shown ---------------------------------------------------------------------------------


def _row(record: ScheduleRecord) -> tuple[Cell, ...]:
    schedule = record.schedule
    return (
        schedule.name,
        in_words(schedule.timing),
        schedule.template.task,
        schedule_state(record),
        output.ago(None if record.paused else record.next_at) or "-",
        output.ago(record.last_at) or "-",
        schedule.origin,
    )


def _fields(record: ScheduleRecord) -> Fields:
    told = {**msgspec.structs.asdict(describe(record)), "timing": in_words(record.schedule.timing)}
    return Fields({name.replace("_", " "): _in_words(value) for name, value in told.items()})


def _in_words(value: Any) -> str:  # noqa: ANN401 - any field's
    match value:
        case None:
            return "-"
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case datetime():
            return output.when(value)
        case list() | tuple() | set() | frozenset():
            return ", ".join(sorted(value)) or "-"
    return output.json_text(value)


def _history(found: list[Occurrence]) -> Table:
    columns = ("at", "outcome", "job", "made")
    rows = [(_moment(o.at), o.outcome.value, o.job, output.ago(o.made_at) or "-") for o in found]
    return Table(columns, rows, "no occurrences yet", brief=True)


def _moment(at: datetime) -> str:
    """A time in UTC, as short as ``--before`` takes it: a job's id has room beside it."""
    return output.when(at).replace("+00:00", "Z")


def _known(app: App, target: str | None) -> bool:
    """True if an app was named, here or by the settings: its tasks are all that there are."""
    return target is not None or bool(app.tasks)


async def _unknown(app: App, task: str | None, target: str | None) -> Sequence[str]:
    """The warning of a task that may be mistyped, where no app was given to look it up in."""
    told = await unknown_task(app, task) if task and not _known(app, target) else None
    return [f"warning: {told}"] if told else ()


def _now(record: ScheduleRecord, what: str, notes: Sequence[str] = ()) -> Said:
    """A schedule after it was changed."""
    following = "" if record.paused else f"; next {output.when(record.next_at)}"
    text = f"{record.schedule.name} {what}{following}"
    return Said({"ok": True, **msgspec.structs.asdict(describe(record))}, text, notes)
