"""``offpath dead``: list, show, redrive, discard."""

from __future__ import annotations

from typing import Any

import click

from offpath.app import App
from offpath.cli import output
from offpath.cli.frame import (
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
from offpath.cli.jobs import chosen, print_changed, print_job, print_page
from offpath.errors import InvalidArgument

_filters = options(
    click.option("--task", multiple=True, help="Name of a task; may be repeated."),
    click.option("--queue", multiple=True, help="Name of a queue; may be repeated."),
    click.option("--tag", multiple=True, help="Only jobs that have all of these tags."),
    click.option("--reason", multiple=True, help="exhausted, aborted, deadline, worker_lost, …"),
    click.option("--error-type", multiple=True, help="Type of the last error: ValueError, …"),
)


@click.group()
def dead() -> None:
    """Jobs that will not run again unaided."""


@dead.command("list")
@_filters
@limit_option
@after_option
@url_option
@json_option
@command
def list_dead(
    limit: int,
    after: str | None,
    url: str | None,
    *,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""List dead jobs with their last error, newest first.

    \b
    offpath dead list
    offpath dead list --task send_mail --reason exhausted
    """

    async def work(app: App) -> None:
        page = await app.dead.list(limit=limit, after=after, **chosen(where))
        print_page(page, as_json=as_json, empty="no dead jobs")

    return with_app(url, work)


@dead.command("show")
@click.argument("job_id")
@url_option
@json_option
@command
def show_dead(job_id: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Show one dead job with every failed attempt.

    \b
    offpath dead show 0198c0de-…
    """

    async def work(app: App) -> None:
        job = await app.dead.show(job_id)
        if as_json:
            output.print_json(output.job_document(job))
        else:
            print_job(job)

    return with_app(url, work)


@dead.command("redrive")
@click.argument("job_ids", nargs=-1)
@_filters
@click.option("--all", "everything", is_flag=True, help="All dead jobs.")
@click.option("--per-second", type=float, help="Let at most this many become due a second.")
@click.option("--limit", type=click.IntRange(min=1), help="At most this many, oldest first.")
@yes_option
@url_option
@json_option
@command
def redrive_dead(
    job_ids: tuple[str, ...],
    per_second: float | None,
    limit: int | None,
    url: str | None,
    *,
    everything: bool,
    yes: bool,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""Put dead jobs back as fresh.

    Attempt 1, a fresh deadline, the errors kept.

    \b
    offpath dead redrive 0198c0de-…
    offpath dead redrive --task send_mail --per-second 5 --yes
    """
    _ask(job_ids, where, "Redrive", everything=everything, yes=yes, as_json=as_json)

    async def work(app: App) -> int:
        changed = await app.dead.redrive(
            *job_ids, per_second=per_second, limit=limit, everything=everything, **chosen(where)
        )
        return print_changed(changed, job_ids, "redriven", as_json=as_json)

    return with_app(url, work)


@dead.command("discard")
@click.argument("job_ids", nargs=-1)
@_filters
@click.option("--all", "everything", is_flag=True, help="All dead jobs.")
@click.option("--limit", type=click.IntRange(min=1), help="At most this many, oldest first.")
@yes_option
@url_option
@json_option
@command
def discard_dead(
    job_ids: tuple[str, ...],
    limit: int | None,
    url: str | None,
    *,
    everything: bool,
    yes: bool,
    as_json: bool,
    **where: Any,  # noqa: ANN401 - click passes the filters
) -> int | None:
    r"""Delete dead jobs for good, with their history.

    Those that are still to be undone are left, until a worker has done that.

    \b
    offpath dead discard 0198c0de-… --yes
    offpath dead discard --error-type ValueError --yes
    """
    _ask(job_ids, where, "Delete", everything=everything, yes=yes, as_json=as_json, always=True)

    async def work(app: App) -> int:
        changed = await app.dead.discard(
            *job_ids, limit=limit, everything=everything, **chosen(where)
        )
        return print_changed(
            changed,
            job_ids,
            "discarded",
            as_json=as_json,
            say=lambda _: "deleted",
            why="unknown, not dead, or still to be undone, which a worker does",
        )

    return with_app(url, work)


def _ask(
    ids: tuple[str, ...],
    where: dict[str, Any],
    verb: str,
    *,
    everything: bool,
    yes: bool,
    as_json: bool,
    always: bool = False,
) -> None:
    """A bulk action is confirmed, and so is what loses something."""
    if not (ids or everything or chosen(where)):
        raise InvalidArgument("give job ids, a filter such as --task, or --all")
    if always or not ids:
        what = "these dead jobs" if ids else "every dead job that matches"
        confirm(f"{verb} {'all dead jobs' if everything else what}?", yes=yes, as_json=as_json)
