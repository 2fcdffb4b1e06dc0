"""``offpath jobs``: list, show, cancel, retry, signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.frame import (
    NOT_FOUND,
    after_option,
    command,
    confirm,
    json_option,
    limit_option,
    options,
    url_option,
    with_app,
    yes_option,
)
from offpath.cli.loading import with_loaded_app
from offpath.cli.waiting import holder_problems, steps_of, wait_of, waited_for
from offpath.errors import InvalidArgument
from offpath.jobs.handle import progress_of
from offpath.model.job import JobRecord, JobState, Page
from offpath.model.json_text import decode_json
from offpath.model.redact import redact_text
from offpath.runtime.ids import parse_id
from offpath.store.changes import Changed

filters = options(
    click.option(
        "--state",
        multiple=True,
        type=click.Choice([str(one) for one in JobState]),
        help="In this state; may be repeated.",
    ),
    click.option("--task", multiple=True, help="Name of a task; may be repeated."),
    click.option("--queue", multiple=True, help="Name of a queue; may be repeated."),
    click.option("--tag", multiple=True, help="Only jobs that have all of these tags."),
    click.option("--group", help="Id of a group: a job and everything it queued."),
    click.option("--reason", multiple=True, help="Why it is dead: exhausted, deadline, …"),
    click.option("--error-type", multiple=True, help="Type of the last error: ValueError, …"),
)


def chosen(given: dict[str, Any]) -> dict[str, Any]:
    """The filter options of a command as the app's filters; those not given are left out."""
    names = {"tag": "tags", "group": "group_id"}
    return {names.get(name, name): value for name, value in given.items() if value}


@click.group()
def jobs() -> None:
    """List, show, cancel, retry and signal jobs."""


@jobs.command("list")
@filters
@limit_option
@after_option
@url_option
@json_option
@command
def list_jobs(
    limit: int,
    after: str | None,
    url: str | None,
    *,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""List jobs, newest first.

    \b
    offpath jobs list --state dead --task send_mail
    offpath jobs list --state queued --queue mail --limit 10
    """

    async def work(app: App) -> None:
        page = await app.jobs.find(limit=limit, after=after, **chosen(where))
        print_page(page, as_json=as_json, empty="no jobs match")

    return with_app(url, work)


@jobs.command("show")
@click.argument("job_id")
@url_option
@json_option
@command
def show_job(job_id: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Show one job, and what it waits for.

    Its input, result, failures and recorded steps. Secrets (fields such as password or token) are
    hidden.

    \b
    offpath jobs show 0198c0de-…
    """

    async def work(app: App) -> None:
        job = await app.jobs.get(job_id)
        waits = {"waits_for": await wait_of(app, job), "waited_for": await waited_for(app, job)}
        steps = await steps_of(app, job)
        ill = await holder_problems(app, job)
        if as_json:
            more = {"steps": steps, "worker_problems": ill}
            output.print_json({**output.job_document(job), **waits, **more})
        else:
            print_job(job, waits=waits, steps=steps, ill=ill)

    return with_app(url, work)


@jobs.command("cancel")
@click.argument("job_ids", nargs=-1)
@filters
@yes_option
@url_option
@json_option
@command
def cancel_jobs(
    job_ids: tuple[str, ...],
    url: str | None,
    *,
    yes: bool,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""Cancel jobs, by id or by filter.

    Waiting ones end at once, running ones are told.

    \b
    offpath jobs cancel 0198c0de-…
    offpath jobs cancel --state queued --task send_mail --yes
    """
    ask_if_many(job_ids, where, "Cancel every job that matches?", yes=yes, as_json=as_json)

    async def work(app: App) -> int:
        changed = await app.jobs.cancel(*job_ids, **chosen(where))
        return print_changed(changed, job_ids, "cancelled", as_json=as_json)

    return with_app(url, work)


@jobs.command("retry")
@click.argument("job_ids", nargs=-1)
@filters
@yes_option
@url_option
@json_option
@command
def retry_jobs(
    job_ids: tuple[str, ...],
    url: str | None,
    *,
    yes: bool,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""Run jobs again, by id or by filter.

    Dead and cancelled ones start as fresh; waiting ones become due now.

    \b
    offpath jobs retry 0198c0de-…
    offpath jobs retry --state cancelled --task send_mail --yes
    """
    ask_if_many(job_ids, where, "Retry every job that matches?", yes=yes, as_json=as_json)

    async def work(app: App) -> int:
        changed = await app.jobs.retry(*job_ids, **chosen(where))
        return print_changed(changed, job_ids, "queued", as_json=as_json)

    return with_app(url, work)


@jobs.command("signal")
@click.argument("target")
@click.argument("event")
@click.option("--payload", metavar="JSON", help="What the waiting job is told; null by default.")
@click.option("--id", "signal_id", metavar="UUID", help="Sending the same id again does nothing.")
@click.option("--keep", type=float, metavar="SECONDS", help="How long it waits; 30 days.")
@click.option("--app", "module", metavar="MODULE:APP", help="Write it with this app's codec.")
@url_option
@json_option
@command
def signal_job(
    target: str,
    event: str,
    payload: str | None,
    signal_id: str | None,
    keep: float | None,
    module: str | None,
    url: str | None,
    *,
    as_json: bool,
) -> int | None:
    r"""Tell a job that waits for EVENT. TARGET is its id, or the key that it waits for.

    A signal that nobody waits for yet is kept.

    \b
    offpath jobs signal 0198c0de-… approved --payload '{"by": "Ada"}'
    offpath jobs signal order-7 paid
    """
    value = None if payload is None else _payload(payload)
    given = {} if keep is None else {"keep": keep}

    async def work(app: App) -> None:
        sent = await app.signal(target, event, value, id=signal_id, **given)
        if as_json:
            output.print_json({"sent": sent})
            return
        click.echo("sent" if sent else "it was sent before: nothing changed")
        if warning := await _nobody_takes(app, target):
            click.echo(f"warning: {warning}", err=True)

    return with_app(url, work) if module is None else with_loaded_app(module, url, work)


async def _nobody_takes(app: App, target: str) -> str | None:
    """Why a signal may wait in vain: its target has the form of a job's id, and cannot take it."""
    try:
        job_id = parse_id(target, "TARGET")
    except InvalidArgument:
        return None  # any other key is known to the handler alone
    found = await app.store().states((job_id,))
    if job_id not in found:
        return f"there is no job {job_id} (any more); the signal is kept"
    state = found[job_id]
    return f"job {job_id} is {state}: nobody takes the signal" if state.terminal else None


def _payload(text: str) -> Any:  # noqa: ANN401 - any JSON
    return decode_json(text, "--payload")


def ask_if_many(
    ids: tuple[str, ...], where: dict[str, Any], question: str, *, yes: bool, as_json: bool
) -> None:
    """A bulk action is confirmed; one without ids or a filter is refused."""
    if ids:
        return
    if not chosen(where):
        raise InvalidArgument("give job ids, or a filter such as --task or --queue")
    confirm(question, yes=yes, as_json=as_json)


def print_page(page: Page, *, as_json: bool, empty: str) -> None:
    """Print a page of jobs, and how to see the next one."""
    if as_json:
        items = [output.job_document(job) for job in page.items]
        output.print_json({"items": items, "next": page.next})
        return
    columns, rows = rows_of(page.items)
    output.print_table(columns, rows, empty=empty)
    if page.next:
        click.echo(f"more: add --after {page.next}", err=True)


def rows_of(jobs: Sequence[JobRecord]) -> tuple[Sequence[str], list[tuple[output.Cell, ...]]]:
    """The columns and rows of a table of jobs."""
    columns = ("id", "task", "queue", "state", "attempt", "due", "last error")
    return columns, [_row(job) for job in jobs]


def _row(job: JobRecord) -> tuple[output.Cell, ...]:
    failure = job.failure
    error = redact_text(f"{failure.type}: {failure.message}"[:100]) if failure else ""
    due = output.ago(job.run_at) if job.state is JobState.QUEUED else ""
    blocked = job.state is JobState.BLOCKED
    state = f"{job.state} ({job.reason})" if blocked else str(job.state)
    if job.unreadable:
        state += " (unreadable)"
    return job.id, job.task, job.queue, state, job.attempt, due, error


def print_job(
    job: JobRecord,
    *,
    waits: Mapping[str, dict[str, Any] | None] = MappingProxyType({}),
    steps: Sequence[str] = (),
    ill: Sequence[str] = (),
) -> None:
    """Print one job, name and value on each line, then its failures."""
    document = output.job_document(job)
    lines: dict[str, output.Cell] = {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": f"{job.state} ({job.reason})" if job.reason else str(job.state),
        **{name.replace("_", " "): one["text"] for name, one in waits.items() if one},
        **({"steps": ", ".join(steps)} if steps else {}),
        **({"unreadable": job.unreadable} if job.unreadable else {}),
        "attempt": job.attempt,
        "deliveries": job.deliveries,
        "priority": job.priority,
        "enqueued": output.when(job.enqueued_at),
        "due": output.when(job.run_at),
        "started": output.when(job.started_at),
        "finished": output.when(job.finished_at),
        "deadline": output.when(job.deadline),
        "kept until": output.when(job.expires_at),
        "worker": job.worker or "-",
        **({"worker says": "; ".join(ill)} if ill else {}),
        "unique key": job.unique_key or "-",
        "tags": ", ".join(job.tags) or "-",
        "group": job.group_id,
        "input": _json_text(document["input"]),
        "options": _json_text(document["options"]),
        "progress": output.percent(progress_of(job)) or "-",
        "result": _json_text(document["result"]),
    }
    for name, value in lines.items():
        click.echo(f"{name:>11}  {output.clean(str(value))}")
    for failure in job.failures:
        kind = output.clean(failure.kind)
        click.echo(f"\nattempt {failure.attempt} failed {output.when(failure.at)} ({kind})")
        shown = failure.traceback or f"{failure.type}: {failure.message}"
        click.echo(f"  {output.clean_block(redact_text(shown)).rstrip()}")


def _json_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    return msgspec.json.encode(value).decode()


def print_changed(
    changed: list[Changed],
    asked: tuple[str, ...],
    what: str,
    *,
    as_json: bool,
    say: Callable[[Changed], str] | None = None,
    why: str = "unknown, or in no state for this",
) -> int:
    """Print what was changed; not found when ids were given and none of them was.

    ``why`` is why one may have been left alone.
    """
    done = {one.id for one in changed}
    left = [one for one in asked if one not in done]
    if as_json:
        documents = [msgspec.to_builtins(one) for one in changed]
        output.print_json({"changed": documents, "unchanged": left})
    else:
        for one in changed:
            click.echo(f"{one.id}  {output.clean(one.task)}  {(say or _transition)(one)}")
        for job_id in left:
            click.echo(f"{output.clean(job_id)}  left alone: {why}")
        click.echo(f"{len(changed)} {what}")
    return NOT_FOUND if asked and not changed else 0


def _transition(one: Changed) -> str:
    if one.was is one.state:
        return f"{one.was}: its worker is told"
    return f"{one.was} → {one.state}"
