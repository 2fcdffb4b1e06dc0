"""``offpath schedules``: list, show, next, create, change, pause, resume, trigger, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.older_frame import (
    command,
    confirm,
    json_option,
    limit_option,
    options,
    url_option,
    with_app,
    with_loaded_app,
    yes_option,
)
from offpath.cli.values import Cell
from offpath.errors import InvalidArgument
from offpath.jobs.values.job import Job
from offpath.model.json_text import decode_json
from offpath.model.options import Options
from offpath.model.redact import redact
from offpath.model.schedule import Missed, Occurrence, Overlap, ScheduleRecord, Timing, TimingKind
from offpath.runtime.zones import zone_of

_term_options = options(
    click.option("--cron", metavar="EXPRESSION", help="'0 3 * * *', '30 8 * * MON-FRI', @daily."),
    click.option("--zone", metavar="ZONE", help="IANA zone that --cron is read in; else UTC."),
    click.option("--every", type=float, metavar="SECONDS", help="An interval, at least 1."),
    click.option("--anchor", metavar="TIME", help="ISO time that --every is counted from."),
    click.option("--when", metavar="NAME", help="A next-time function of the app (--app)."),
    click.option(
        "--overlap",
        type=click.Choice([one.value for one in Overlap]),
        help="While the job before has not ended.",
    ),
    click.option(
        "--missed",
        type=click.Choice([one.value for one in Missed]),
        help="What was due while no worker ran.",
    ),
    click.option("--missed-limit", type=int, metavar="N", help="Most that 'all' makes up for."),
    click.option("--grace", type=float, metavar="SECONDS", help="Later than this is missed."),
    click.option("--input", "document", metavar="JSON", help="Its arguments as a JSON object."),
    click.option("--queue", help="Queue to put its jobs in."),
    click.option("--priority", type=int, help="Higher runs first."),
    click.option("--tag", "tags", multiple=True, help="A tag of its jobs; may be repeated."),
)

app_option = click.option(
    "--app", "target", metavar="MODULE:APP", help="The app that has the task or the function."
)


@click.group()
def schedules() -> None:
    """Jobs that are made by themselves."""


@schedules.command("list")
@url_option
@json_option
@command
def list_schedules(url: str | None, *, as_json: bool) -> int | None:
    r"""List the schedules: what comes next, how the last went.

    \b
    offpath schedules list
    """

    async def work(app: App) -> None:
        found = await app.schedules.list()
        if as_json:
            output.print_json({"items": [_document(one) for one in found]})
            return
        columns = ("schedule", "when", "task", "state", "next", "last", "by")
        output.print_table(columns, [_row(one) for one in found], empty="there are no schedules")

    return with_app(url, work)


@schedules.command("show")
@click.argument("name")
@url_option
@json_option
@command
def show_schedule(name: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Show a schedule, its job and its latest occurrences.

    \b
    offpath schedules show nightly
    """

    async def work(app: App) -> None:
        record = await app.schedules.get(name)
        latest = await app.schedules.history(name, limit=5)
        if as_json:
            history = [_occurrence(one) for one in latest]
            output.print_json({**_document(record), "history": history})
        else:
            _print(record)
            _print_history(latest)

    return with_app(url, work)


@schedules.command("next")
@click.argument("name")
@click.option(
    "--count", type=click.IntRange(1, 10_000), default=10, show_default=True, help="How many times."
)
@app_option
@url_option
@json_option
@command
def next_occurrences(
    name: str, count: int, target: str | None, url: str | None, *, as_json: bool
) -> int | None:
    r"""Print when NAME comes next, in UTC and its zone.

    A paused one as if resumed now.

    \b
    offpath schedules next nightly --count 5
    """

    async def work(app: App) -> None:
        record = await app.schedules.get(name)
        times = await app.schedules.next(name, count=count)
        zone = record.schedule.timing.zone
        if as_json:
            output.print_json({"name": name, "zone": zone, "items": times})
            return
        rows = [(output.when(at), at.astimezone(zone_of(zone)).isoformat()) for at in times]
        output.print_table(("utc", zone), rows, empty="it does not come any more")

    return _with(target, url, work)


@schedules.command("create")
@click.argument("name")
@click.option("--task", required=True, help="The task to make jobs of.")
@_term_options
@app_option
@url_option
@json_option
@command
def create(
    name: str,
    task: str,
    target: str | None,
    url: str | None,
    *,
    as_json: bool,
    **given: Any,  # noqa: ANN401 - click passes the terms
) -> int | None:
    r"""Add the schedule NAME. Workers that run take it up; nothing is deployed.

    With --app, task and arguments are checked against that app.

    \b
    offpath schedules create nightly --cron '0 3 * * *' --zone Europe/Berlin --task report
    offpath schedules create poll --every 30 --task fetch --input '{"feed": "eu"}'
    """

    async def work(app: App) -> None:
        job = _job(app, task, given, registered=target is not None)
        record = await app.schedules.create(name, job, **_terms(given))
        _tell(record, "created", as_json=as_json)

    return _with(target, url, work)


@schedules.command("change")
@click.argument("name")
@click.option("--task", help="The task to make jobs of from now on, with --input.")
@_term_options
@app_option
@url_option
@json_option
@command
def change(
    name: str,
    task: str | None,
    target: str | None,
    url: str | None,
    *,
    as_json: bool,
    **given: Any,  # noqa: ANN401 - click passes the terms
) -> int | None:
    r"""Change what is given of the schedule NAME, and keep the rest.

    \b
    offpath schedules change nightly --cron '30 3 * * *'
    """
    if task is None and any(given[each] not in (None, ()) for each in _JOB_NAMES):
        raise InvalidArgument("--input, --queue, --priority and --tag go with --task")

    async def work(app: App) -> None:
        job = None if task is None else _job(app, task, given, registered=target is not None)
        record = await app.schedules.change(name, job, **_terms(given))
        _tell(record, "changed", as_json=as_json)

    return _with(target, url, work)


@schedules.command("pause")
@click.argument("name")
@url_option
@json_option
@command
def pause(name: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Make no jobs of NAME until it is resumed.

    \b
    offpath schedules pause nightly
    """

    async def work(app: App) -> None:
        await app.schedules.pause(name)
        _tell(await app.schedules.get(name), "paused", as_json=as_json)

    return with_app(url, work)


@schedules.command("resume")
@click.argument("name")
@app_option
@url_option
@json_option
@command
def resume(name: str, target: str | None, url: str | None, *, as_json: bool) -> int | None:
    r"""Go on with NAME from now.

    What was due during the pause is not made up for.

    \b
    offpath schedules resume nightly
    """

    async def work(app: App) -> None:
        await app.schedules.resume(name)
        _tell(await app.schedules.get(name), "resumed", as_json=as_json)

    return _with(target, url, work)


@schedules.command("trigger")
@click.argument("name")
@url_option
@json_option
@command
def trigger(name: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Make the job of NAME now, out of turn, and print the job's id.

    \b
    offpath schedules trigger nightly
    """

    async def work(app: App) -> None:
        job = await app.schedules.trigger(name)
        if as_json:
            output.print_json({"ok": True, "name": name, "job": job})
        else:
            click.echo(job)

    return with_app(url, work)


@schedules.command("delete")
@click.argument("name")
@yes_option
@url_option
@json_option
@command
def delete(name: str, url: str | None, *, yes: bool, as_json: bool) -> int | None:
    r"""Remove NAME with its history; jobs that it made stay.

    \b
    offpath schedules delete nightly --yes
    """
    confirm(f"Delete the schedule {name}?", yes=yes, as_json=as_json)

    async def work(app: App) -> None:
        await app.schedules.delete(name)
        if as_json:
            output.print_json({"ok": True, "name": name})
        else:
            click.echo(f"{output.clean(name)} deleted")

    return with_app(url, work)


@schedules.command("history")
@click.argument("name")
@limit_option
@click.option("--before", metavar="TIME", help="Only occurrences before this ISO time.")
@url_option
@json_option
@command
def history(
    name: str, limit: int, before: str | None, url: str | None, *, as_json: bool
) -> int | None:
    r"""List what became of the occurrences of NAME, the latest first.

    \b
    offpath schedules history nightly --limit 10
    """
    until = None if before is None else _time(before, "--before")

    async def work(app: App) -> None:
        found = await app.schedules.history(name, limit=limit, before=until)
        if as_json:
            output.print_json({"items": [_occurrence(one) for one in found]})
        else:
            _print_history(found)

    return with_app(url, work)


# -- what was given --------------------------------------------------------------------------------

_JOB_NAMES = ("document", "queue", "priority", "tags")


def _with(
    target: str | None, url: str | None, work: Callable[[App], Awaitable[int | None]]
) -> int | None:
    return with_app(url, work) if target is None else with_loaded_app(target, url, work)


def _job(app: App, task: str, given: dict[str, Any], *, registered: bool) -> Job[Any, Any]:
    chosen = {each: given[each] for each in ("queue", "priority", "tags")}
    options = {name: value for name, value in chosen.items() if value not in (None, ())}
    document = given["document"] or "{}"
    arguments = decode_json(document, "--input", type=dict[str, Any])
    return app.by_name(task, Options(**options), registered=registered).job(**arguments)


def _terms(given: dict[str, Any]) -> Any:  # noqa: ANN401 - Terms, which are checked
    terms = {
        name: value for name, value in given.items() if name not in _JOB_NAMES and value is not None
    }
    if "anchor" in terms:
        terms["anchor"] = _time(terms["anchor"], "--anchor")
    return terms


def _time(text: str, option: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"{option} is no ISO time with a zone: write 2026-01-31T08:00Z, not {text!r}"
        ) from None


# -- what is shown ---------------------------------------------------------------------------------


def _in_words(timing: Timing) -> str:
    if timing.kind is TimingKind.CRON:
        return f"{timing.expression} {timing.zone}"
    if timing.kind is TimingKind.EVERY:
        return f"every {timing.seconds:g} s"
    return f"{timing.function}()"


def _state(record: ScheduleRecord) -> str:
    if record.paused:
        return "paused"
    return "ended" if record.next_at is None else "on"


def _row(record: ScheduleRecord) -> tuple[Cell, ...]:
    schedule = record.schedule
    return (
        schedule.name,
        _in_words(schedule.timing),
        schedule.template.task,
        _state(record),
        output.when(None if record.paused else record.next_at),
        output.when(record.last_at),
        schedule.origin,
    )


def _document(record: ScheduleRecord) -> dict[str, Any]:
    schedule = record.schedule
    template = schedule.template
    return {
        "name": schedule.name,
        "state": _state(record),
        "timing": msgspec.to_builtins(schedule.timing),
        "overlap": schedule.overlap,
        "missed": schedule.missed,
        "missed_limit": schedule.missed_limit,
        "grace": schedule.grace,
        "origin": schedule.origin,
        "task": template.task,
        "input": redact(output.decoded(template.input)),
        "queue": template.queue,
        "priority": template.priority,
        "tags": template.tags,
        "next_at": None if record.paused else record.next_at,
        "last_at": record.last_at,
        "last_job": record.last_job,
        "last_open": record.last_open,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "version": record.version,
    }


def _occurrence(one: Occurrence) -> dict[str, Any]:
    return {"at": one.at, "outcome": one.outcome, "job": one.job, "made_at": one.made_at}


def _print(record: ScheduleRecord) -> None:
    for name, value in _document(record).items():
        if name == "timing":
            text = _in_words(record.schedule.timing)
        elif isinstance(value, datetime):
            text = output.when(value)
        else:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        click.echo(f"{name:13}{output.clean(text)}")


def _print_history(found: list[Occurrence]) -> None:
    columns = ("at", "outcome", "job", "made")
    rows = [(output.when(o.at), o.outcome.value, o.job, output.when(o.made_at)) for o in found]
    output.print_table(columns, rows, empty="no occurrences yet")


def _tell(record: ScheduleRecord, what: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"ok": True, **_document(record)})
        return
    following = "" if record.paused else f"; next {output.when(record.next_at)}"
    click.echo(f"{output.clean(record.schedule.name)} {what}{following}")
