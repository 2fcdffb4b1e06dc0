"""``offpath router redo``: decisions that were only logged, made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from offpath.app import App
from offpath.cli.logs import configure
from offpath.cli.messages import moment
from offpath.cli.older_frame import DONE, FAILED, command, confirm, yes_option
from offpath.cli.routed import print_redone
from offpath.cli.router import DEGRADED, declared, shared, with_routes

if TYPE_CHECKING:
    from datetime import datetime


@click.command("redo")
@click.argument("name")
@click.option(
    "--status",
    "statuses",
    type=click.Choice(["dry_run", "skipped", "disabled"]),
    multiple=True,
    default=("dry_run", "skipped", "disabled"),
    help="Events that ended so; several may be given.  [default: all three]",
)
@click.option(
    "--since", metavar="TIME", help="Decided since 2026-11-27T09:00Z, or so long ago: 90s, 2h, 3d."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="Most events that are decided otherwise.",
)
@yes_option
@shared
@command
def redo(
    name: str,
    statuses: tuple[str, ...],
    since: str | None,
    limit: int,
    target: str | None,
    url: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> int | None:
    r"""Decide again about events that were only logged.

    The first in the log first. What is decided otherwise now is carried out; what is not stays as
    it is. Exit code 0 also when a gate is closed; 3 when some events became dead letters, 1 when
    all did.

    \b
    offpath router redo iu --status dry_run --since 2h --app myservice.jobs:app
    """
    configure("warning", "text")
    begun: datetime | None = None if since is None else moment(since, "--since")
    confirm(f"Decide again about what {name} only logged?", yes=yes, as_json=as_json)

    async def work(app: App) -> int:
        tally = await declared(app, name).redo(statuses, since=begun, limit=limit)
        print_redone(name, tally, as_json=as_json)
        failed = tally.counts.get("failed", 0)
        return DONE if not failed else FAILED if failed == tally.total else DEGRADED

    return with_routes(target, url, work)
