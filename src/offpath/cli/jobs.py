"""``offpath jobs`` and ``offpath dead``: all jobs, and those that will not run again unaided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

import click
from msgspec.structs import asdict

from offpath.app import App
from offpath.cli.action_log import recorded, rows, with_group
from offpath.cli.apps import known_app
from offpath.cli.former import former
from offpath.cli.frame import (
    Filters,
    after_option,
    app_option,
    filters,
    framed,
    limit_option,
    only,
    option_group,
    store_command,
    url_option,
    yes_option,
)
from offpath.cli.job_views import changed_jobs, job_page, job_parts
from offpath.cli.left_alone import left_alone
from offpath.cli.option_values import Duration, iso_time, json_value, read_by
from offpath.cli.selection import Rows, Selection, most_option
from offpath.cli.values import Changed, Listing, Said, Shown
from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.amendment import Amendment
from offpath.model.brief import Kind
from offpath.model.changes import ChangedJob
from offpath.model.job import DeadReason, JobRecord, JobState
from offpath.operating import views
from offpath.operating.job_steps import REDRIVABLE
from offpath.operating.job_waits import nobody_takes
from offpath.operating.short_ids import job_or_key, page_start, whole

_state = only("--state", "jobs in this state", type=click.Choice([str(s) for s in JobState]))
_task = only("--task", "jobs of this task")
_queue = only("--queue", "jobs of this queue")
_tag = only("--tag", "jobs that have all of these tags", "tags")
_group = click.option("--group", "group_id", help="Only this group: a job and what it queued.")
_reason = only("--reason", "jobs that died so (exhausted, aborted, deadline, worker_lost, …)")
_error_type = only("--error-type", "jobs whose last error is of this type (ValueError, …)")
_fault = only("--fault", "dead jobs of this fault (`Boom: connection <…> closed`)")
_ids = click.argument("ids", metavar="[JOB_IDS]...", nargs=-1)

_jobs = Rows(
    noun="job",
    missing="give job ids, or a filter such as --task or --queue",
    ids=_ids,
    filters=(_state, _task, _queue, _tag, _group, _reason, _error_type, _fault),
)
_dead = Rows(
    noun="dead job",
    missing="give job ids, a filter such as --task, or --all",
    ids=_ids,
    filters=(_task, _queue, _tag, _reason, _error_type, _fault),
)
_ALL = "All dead jobs."


def _amendment(
    set_priority: int | None,
    set_queue: str | None,
    set_run_at: datetime | None,
    set_deadline: datetime | None,
) -> Amendment:
    to = Amendment(priority=set_priority, queue=set_queue, run_at=set_run_at, deadline=set_deadline)
    if to == Amendment():
        raise InvalidArgument(
            "nothing is changed: give --set-priority, --set-queue, --set-run-at or --set-deadline"
        )
    return to


@click.group()
def jobs() -> None:
    """List, show, cancel, redrive and signal jobs."""


@jobs.command("list")
@filters(*_jobs.filters)
@limit_option
@after_option()
@store_command
async def list_jobs(app: App, *, limit: int, after: str | None, where: Filters) -> Listing:
    r"""List jobs, newest first.

    \b
    offpath jobs list --state dead --task send_mail
    offpath jobs list --state queued --queue mail --limit 10
    """
    where, after = await with_group(app, where), await page_start(app, Kind.JOB, after)
    return job_page(await app.jobs.find(limit=limit, after=after, **where), "no jobs match")


@jobs.command("show")
@click.argument("job_id")
@store_command
async def show_job(app: App, *, job_id: str) -> Shown:
    r"""Show one job, and what it waits for.

    Its input, result, failures and recorded steps. Secrets (fields such as password or token) are
    hidden.

    \b
    offpath jobs show 0198c0de
    """
    return await _shown(app, await app.jobs.get(await whole(app, Kind.JOB, job_id)))


async def _shown(app: App, job: JobRecord) -> Shown:
    standing = await views.standing_of(app, job)
    waits = {"waits_for": standing.waits_for, "waited_for": standing.waited_for}
    parts = job_parts(job, waits=waits, steps=standing.steps, ill=standing.worker_problems)
    again = job.state in REDRIVABLE and standing.waited_for is None
    return Shown(standing, parts, [f"again: offpath jobs redrive {job.id}"] if again else ())


@jobs.command("cancel")
@_jobs.chosen("Cancel")
@yes_option
@store_command
@recorded("job.cancel", rows)
async def cancel_jobs(app: App, *, which: Selection) -> Changed:
    r"""Cancel jobs, by id or by filter.

    Waiting ones end at once, running ones are told.

    \b
    offpath jobs cancel 0198c0de-…
    offpath jobs cancel --state queued --task send_mail --yes
    """
    changed = await app.jobs.cancel(*which.ids, **which.where)
    whys = await left_alone(app, changed, which)
    return changed_jobs(changed, which, "cancelled", whys=whys)


@jobs.command("redrive")
@_jobs.chosen("Redrive")
@yes_option
@store_command
@recorded("job.redrive", rows)
async def redrive_jobs(app: App, *, which: Selection) -> Changed:
    r"""Put dead or cancelled jobs back as fresh, by id or by filter.

    Attempt 1, a fresh deadline, the errors kept.

    \b
    offpath jobs redrive 0198c0de-…
    offpath jobs redrive --state cancelled --task send_mail --yes
    """
    return await _redriven(app, await app.jobs.redrive(*which.ids, **which.where), which)


@jobs.command("run-now")
@_jobs.chosen("Run now")
@yes_option
@store_command
@recorded("job.run_now", rows)
async def run_jobs_now(app: App, *, which: Selection) -> Changed:
    r"""Make queued jobs due now, by id or by filter.

    Those that wait for their time: delayed, retrying, snoozed. Their attempts stay counted.

    \b
    offpath jobs run-now 0198c0de-…
    offpath jobs run-now --task send_mail --yes
    """
    changed = await app.jobs.run_now(*which.ids, **which.where)
    whys = await left_alone(app, changed, which)
    return changed_jobs(changed, which, "due now", whys=whys)


@jobs.command("amend")
@_jobs.chosen("Change")
@option_group(
    "to",
    _amendment,
    click.option(
        "--set-priority",
        type=click.IntRange(-checks.MAX_PRIORITY, checks.MAX_PRIORITY),
        metavar="NUMBER",
        help="The priority; higher ones run first.",
    ),
    click.option(
        "--set-queue",
        callback=read_by(checks.name),
        metavar="QUEUE",
        help="The queue in which they wait from now on.",
    ),
    click.option("--set-run-at", callback=iso_time, metavar="TIME", help="The time to run."),
    click.option(
        "--set-deadline",
        callback=iso_time,
        metavar="TIME",
        help="The time at which they are given up. Times are ISO with a zone.",
    ),
)
@yes_option
@store_command
@recorded("job.amend", rows, "to")
async def amend_jobs(app: App, *, which: Selection, to: Amendment) -> Changed:
    r"""Give waiting jobs another priority, queue, time or deadline.

    By id or by filter. Blocked jobs take a priority and a deadline only, those that wait for a
    signal a priority.

    \b
    offpath jobs amend 0198c0de-… --set-priority 10
    offpath jobs amend --task export --set-queue slow --yes
    """
    given = {f"set_{name}": value for name, value in asdict(to).items()}
    changed = await app.jobs.amend(*which.ids, **given, **which.where)
    whys = await left_alone(app, changed, which, to=to)
    return changed_jobs(changed, which, "changed", say=_moved, whys=whys)


def _moved(one: ChangedJob) -> str:
    return str(one.state) if one.was_in is None else f"{one.was_in} → {one.queue}"


@click.command("retry")
@_jobs.chosen("Retry")
@yes_option
@store_command
@recorded("job.redrive", rows)
async def _retry_jobs(app: App, *, which: Selection) -> Changed:
    """Redrive dead and cancelled jobs, and make queued ones due now."""
    ended = await app.jobs.redrive(*which.ids, **which.where)
    again = [one for one in which.ids if one not in {each.id for each in ended}]
    waiting = await app.jobs.run_now(*again, **which.where) if again or not which.ids else []
    return changed_jobs([*ended, *waiting], which, "queued")


former(
    jobs,
    "retry",
    _retry_jobs,
    advice="offpath jobs redrive, or offpath jobs run-now",
)


def _coding_app(module: str | None, url: str | None) -> AbstractAsyncContextManager[App]:
    return known_app(module, url)  # TARGET is another thing here


@jobs.command("signal")
@click.argument("target")
@click.argument("event")
@click.option(
    "--payload", callback=json_value, metavar="JSON", help="The signal's payload.  [default: null]"
)
@click.option(
    "--id",
    "signal_id",
    metavar="UUID",
    help="The signal's id, which is taken once.",
)
@click.option(
    "--keep",
    type=Duration(),
    metavar="DURATION",
    help="How long the signal is kept while no job waits for it.  [default: 30 days]",
)
@app_option("The app whose codec is used.", "module")
@framed(_coding_app, url_option)
@recorded("job.signal", lambda given: {k: given[k] for k in ("target", "event")})
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
    target = await job_or_key(app, target)
    sent = await app.signal(target, event, payload, id=signal_id, **given)
    warning = await nobody_takes(app, target)
    text = "sent" if sent else "it was sent before: nothing changed"
    return Said({"sent": sent}, text, [f"warning: {warning}"] if warning else ())


def _dead_rows(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target of a command on dead jobs: a filter of theirs is one of jobs that are dead."""
    target = rows(given)
    if "where" not in target:
        return target
    return {"where": {**target["where"], "state": (JobState.DEAD,)}}


# -- dead jobs -------------------------------------------------------------------------------------


@click.group()
def dead() -> None:
    """Jobs that will not run again unaided."""


@dead.command("list")
@filters(*_dead.filters)
@limit_option
@after_option()
@store_command
async def list_dead(app: App, *, limit: int, after: str | None, where: Filters) -> Listing:
    r"""List dead jobs with their last error, newest first.

    \b
    offpath dead list
    offpath dead list --task send_mail --reason exhausted
    """
    after = await page_start(app, Kind.JOB, after)
    return job_page(
        await app.dead.list(limit=limit, after=after, **where),
        "no dead jobs match" if where else "no dead jobs",
        spare=("state",),  # all are dead
    )


@dead.command("show")
@click.argument("job_id")
@store_command
async def show_dead(app: App, *, job_id: str) -> Shown:
    r"""Show one dead job, its failed attempts and what it waited for.

    \b
    offpath dead show 0198c0de-…
    """
    return await _shown(app, await app.dead.show(await whole(app, Kind.JOB, job_id)))


@dead.command("redrive")
@_dead.chosen("Redrive", all_of=_ALL)
@click.option("--per-second", type=float, help="The most jobs to become due in a second.")
@most_option
@yes_option
@store_command
@recorded("job.redrive", _dead_rows, "per_second", "limit")
async def redrive_dead(
    app: App, *, which: Selection, per_second: float | None, limit: int | None
) -> Changed:
    r"""Put dead jobs back as fresh.

    Attempt 1, a fresh deadline, the errors kept.

    \b
    offpath dead redrive 0198c0de-…
    offpath dead redrive --task send_mail --per-second 5 --yes
    """
    ids, where, everything, _ = which
    changed = await app.dead.redrive(
        *ids, per_second=per_second, limit=limit, everything=everything, **where
    )
    return await _redriven(app, changed, which)


async def _redriven(app: App, changed: Sequence[ChangedJob], which: Selection) -> Changed:
    """The outcome of a redrive; by a filter, also how many are left behind their gates."""
    behind = 0 if which.ids else await _behind(app, which.where)
    told = f"{behind} left behind failed jobs: redrive those, and they wait for them again"
    return changed_jobs(
        changed,
        which,
        "redriven",
        why="unknown, in no state for this, or behind failed jobs: redrive those first",
        notes=[told] if behind else (),
        more={} if which.ids else {"left_behind": behind},
        whys=await left_alone(app, changed, which, redrive=True),
    )


async def _behind(app: App, where: Mapping[str, Any]) -> int:
    """The number of matching jobs that are still dead, since their gate could not fire."""
    fixed = {"state": JobState.DEAD.value, "reason": DeadReason.UNSATISFIABLE.value}
    if any(where.get(name) and value not in where[name] for name, value in fixed.items()):
        return 0
    return await app.jobs.count(**{**where, **fixed})


@dead.command("discard")
@_dead.chosen("Delete", all_of=_ALL, lost=True)
@most_option
@yes_option
@store_command
@recorded("job.delete", _dead_rows, "limit")
async def discard_dead(app: App, *, which: Selection, limit: int | None) -> Changed:
    r"""Delete dead jobs for good, with their history.

    Those that are still to be undone are left, until a worker has done that.

    \b
    offpath dead discard 0198c0de-… --yes
    offpath dead discard --error-type ValueError --yes
    """
    ids, where, everything, _ = which
    changed = await app.dead.discard(*ids, limit=limit, everything=everything, **where)
    undo = "still to be undone, which a worker does"
    whys = await left_alone(app, changed, which, dead=undo)
    return changed_jobs(changed, which, "discarded", say=lambda _: "deleted", whys=whys)
