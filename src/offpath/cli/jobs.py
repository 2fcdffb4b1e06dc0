"""``offpath jobs``: list, show, cancel, retry, signal."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import click

from offpath.app import App
from offpath.cli.apps import given_app
from offpath.cli.frame import (
    Filters,
    after_option,
    filters,
    framed,
    limit_option,
    store_command,
    url_option,
    yes_option,
)
from offpath.cli.job_views import changed_jobs, job_document, job_page, job_parts
from offpath.cli.option_values import json_value
from offpath.cli.selection import Rows, Selection
from offpath.cli.values import Changed, Listing, Said, Shown
from offpath.cli.waits import holder_problems, steps_of, wait_of, waited_for
from offpath.errors import InvalidArgument
from offpath.model.job import JobState
from offpath.runtime.ids import parse_id

_filters = (
    click.option(
        "--state",
        multiple=True,
        type=click.Choice([str(one) for one in JobState]),
        help="Only jobs in this state; may be repeated.",
    ),
    click.option("--task", multiple=True, help="Only jobs of this task; may be repeated."),
    click.option("--queue", multiple=True, help="Only jobs of this queue; may be repeated."),
    click.option("--tag", "tags", multiple=True, help="Only jobs that have all of these tags."),
    click.option("--group", "group_id", help="Only this group: a job and everything it queued."),
    click.option("--reason", multiple=True, help="Why it is dead: exhausted, deadline, …"),
    click.option("--error-type", multiple=True, help="Type of the last error: ValueError, …"),
)
_jobs = Rows(
    many="jobs",
    every="job",
    missing="give job ids, or a filter such as --task or --queue",
    ids=click.argument("ids", metavar="[JOB_IDS]...", nargs=-1),
    filters=_filters,
)


@click.group()
def jobs() -> None:
    """List, show, cancel, retry and signal jobs."""


@jobs.command("list")
@filters(*_filters)
@limit_option
@after_option()
@store_command
async def list_jobs(app: App, *, limit: int, after: str | None, where: Filters) -> Listing:
    r"""List jobs, newest first.

    \b
    offpath jobs list --state dead --task send_mail
    offpath jobs list --state queued --queue mail --limit 10
    """
    return job_page(await app.jobs.find(limit=limit, after=after, **where), "no jobs match")


@jobs.command("show")
@click.argument("job_id")
@store_command
async def show_job(app: App, *, job_id: str) -> Shown:
    r"""Show one job, and what it waits for.

    Its input, result, failures and recorded steps. Secrets (fields such as password or token) are
    hidden.

    \b
    offpath jobs show 0198c0de-…
    """
    job = await app.jobs.get(job_id)
    waits = {"waits_for": await wait_of(app, job), "waited_for": await waited_for(app, job)}
    steps = await steps_of(app, job)
    ill = await holder_problems(app, job)
    document = {**job_document(job), **waits, "steps": steps, "worker_problems": ill}
    return Shown(document, job_parts(job, waits=waits, steps=steps, ill=ill))


@jobs.command("cancel")
@_jobs.chosen("Cancel")
@yes_option
@store_command
async def cancel_jobs(app: App, *, which: Selection) -> Changed:
    r"""Cancel jobs, by id or by filter.

    Waiting ones end at once, running ones are told.

    \b
    offpath jobs cancel 0198c0de-…
    offpath jobs cancel --state queued --task send_mail --yes
    """
    return changed_jobs(await app.jobs.cancel(*which.ids, **which.where), which, "cancelled")


@jobs.command("retry")
@_jobs.chosen("Retry")
@yes_option
@store_command
async def retry_jobs(app: App, *, which: Selection) -> Changed:
    r"""Run jobs again, by id or by filter.

    Dead and cancelled ones start as fresh; waiting ones become due now.

    \b
    offpath jobs retry 0198c0de-…
    offpath jobs retry --state cancelled --task send_mail --yes
    """
    return changed_jobs(await app.jobs.retry(*which.ids, **which.where), which, "queued")


def _coding_app(module: str | None, url: str | None) -> AbstractAsyncContextManager[App]:
    return given_app(module, url)  # TARGET is another thing here


@jobs.command("signal")
@click.argument("target")
@click.argument("event")
@click.option(
    "--payload", callback=json_value, metavar="JSON", help="The signal's payload.  [default: null]"
)
@click.option(
    "--id", "signal_id", metavar="UUID", help="Its id: a second signal of the same id does nothing."
)
@click.option(
    "--keep",
    type=float,
    metavar="SECONDS",
    help="How long it is kept while no job waits for it.  [default: 30 days]",
)
@click.option("--app", "module", metavar="MODULE:APP", help="The app whose codec writes it.")
@framed(_coding_app, url_option)
async def signal_job(
    app: App,
    *,
    target: str,
    event: str,
    payload: Any,  # noqa: ANN401 - any JSON
    signal_id: str | None,
    keep: float | None,
) -> Said:
    r"""Tell a job that waits for EVENT. TARGET is its id, or the key that it waits for.

    A signal that nobody waits for yet is kept.

    \b
    offpath jobs signal 0198c0de-… approved --payload '{"by": "Ada"}'
    offpath jobs signal order-7 paid
    """
    given: Any = {} if keep is None else {"keep": keep}
    sent = await app.signal(target, event, payload, id=signal_id, **given)
    warning = await _nobody_takes(app, target)
    text = "sent" if sent else "it was sent before: nothing changed"
    return Said({"sent": sent}, text, [f"warning: {warning}"] if warning else ())


async def _nobody_takes(app: App, target: str) -> str | None:
    """The reason why nobody will take a signal, where its target has the form of a job's id."""
    try:
        job_id = parse_id(target, "TARGET")
    except InvalidArgument:
        return None  # any other key is known to the handler alone
    found = await app.store().states((job_id,))
    if job_id not in found:
        return f"there is no job {job_id} (any more); the signal is kept"
    state = found[job_id]
    return f"job {job_id} is {state}: nobody takes the signal" if state.terminal else None
