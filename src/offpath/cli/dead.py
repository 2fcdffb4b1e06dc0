"""``offpath dead``: list, show, redrive, discard."""

from __future__ import annotations

import click

from offpath.app import App
from offpath.cli.frame import (
    Filters,
    after_option,
    filters,
    limit_option,
    store_command,
    yes_option,
)
from offpath.cli.job_views import changed_jobs, job_document, job_page, job_parts
from offpath.cli.selection import Rows, Selection, most_option
from offpath.cli.values import Changed, Listing, Shown

_filters = (
    click.option("--task", multiple=True, help="Only jobs of this task; may be repeated."),
    click.option("--queue", multiple=True, help="Only jobs of this queue; may be repeated."),
    click.option("--tag", "tags", multiple=True, help="Only jobs that have all of these tags."),
    click.option(
        "--reason", multiple=True, help="Why it died: exhausted, aborted, deadline, worker_lost, …"
    ),
    click.option("--error-type", multiple=True, help="Type of the last error: ValueError, …"),
)
_dead = Rows(
    many="dead jobs",
    every="dead job",
    missing="give job ids, a filter such as --task, or --all",
    ids=click.argument("ids", metavar="[JOB_IDS]...", nargs=-1),
    filters=_filters,
)
_ALL = "All dead jobs."


@click.group()
def dead() -> None:
    """Jobs that will not run again unaided."""


@dead.command("list")
@filters(*_filters)
@limit_option
@after_option()
@store_command
async def list_dead(app: App, *, limit: int, after: str | None, where: Filters) -> Listing:
    r"""List dead jobs with their last error, newest first.

    \b
    offpath dead list
    offpath dead list --task send_mail --reason exhausted
    """
    return job_page(await app.dead.list(limit=limit, after=after, **where), "no dead jobs")


@dead.command("show")
@click.argument("job_id")
@store_command
async def show_dead(app: App, *, job_id: str) -> Shown:
    r"""Show one dead job with every failed attempt.

    \b
    offpath dead show 0198c0de-…
    """
    job = await app.dead.show(job_id)
    return Shown(job_document(job), job_parts(job))


@dead.command("redrive")
@_dead.chosen("Redrive", all_of=_ALL)
@click.option("--per-second", type=float, help="The most of them to become due in a second.")
@most_option
@yes_option
@store_command
async def redrive_dead(
    app: App, *, which: Selection, per_second: float | None, limit: int | None
) -> Changed:
    r"""Put dead jobs back as fresh.

    Attempt 1, a fresh deadline, the errors kept.

    \b
    offpath dead redrive 0198c0de-…
    offpath dead redrive --task send_mail --per-second 5 --yes
    """
    ids, where, everything = which
    changed = await app.dead.redrive(
        *ids, per_second=per_second, limit=limit, everything=everything, **where
    )
    return changed_jobs(changed, which, "redriven")


@dead.command("discard")
@_dead.chosen("Delete", all_of=_ALL, lost=True)
@most_option
@yes_option
@store_command
async def discard_dead(app: App, *, which: Selection, limit: int | None) -> Changed:
    r"""Delete dead jobs for good, with their history.

    Those that are still to be undone are left, until a worker has done that.

    \b
    offpath dead discard 0198c0de-… --yes
    offpath dead discard --error-type ValueError --yes
    """
    ids, where, everything = which
    changed = await app.dead.discard(*ids, limit=limit, everything=everything, **where)
    why = "unknown, not dead, or still to be undone, which a worker does"
    return changed_jobs(changed, which, "discarded", say=lambda _: "deleted", why=why)
