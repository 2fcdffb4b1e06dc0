"""``offpath sweep``: the sweeps of an app, from a shell or a scheduler."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from offpath.app import App
from offpath.cli.action_log import noting
from offpath.cli.apps import given_app, settings_app
from offpath.cli.frame import app_option, framed, url_option, warnings_logged
from offpath.cli.values import EXITS, Listing, Part, Shown, Table
from offpath.config import load_settings
from offpath.model.tally import SweepResult, Verdict
from offpath.operating.worker_steps import moved


def _app(target: str | None, url: str | None) -> AbstractAsyncContextManager[App]:
    """The app that is named, or one that has the engine's sweeps only."""
    own = None if target or url else settings_app()
    return given_app(target or load_settings().app, url) if own is None else own


_command = framed(_app, app_option("The app whose sweeps they are."), url_option)


@click.group()
def sweep() -> None:
    """Sweeps: bounded passes over due rows."""


@sweep.command("run")
@click.argument("name")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    help="The most rows of the pass.  [default: the sweep's own]",
)
@click.option("--force", is_flag=True, help="Make the pass also when another worker leads it.")
@warnings_logged
@_command
async def run(app: App, *, name: str, limit: int | None, force: bool) -> Shown:
    r"""Make one pass of the sweep NAME.

    Exit code 0 when all rows moved or none was due, 3 when some went wrong (degraded), 1 when all
    of them did or the sweep itself failed, 2 when there is no such sweep.

    \b
    offpath sweep run stale_carts --app myservice.jobs:app
    offpath sweep run rescue --url sqlite:///work.db
    """
    given = {"limit": limit} if limit is not None else {}
    asked = {**given, **({"force": True} if force else {})}
    async with noting(app, "sweep.run", {"name": name}, asked) as told:
        done = (await app.worker().run_once(only=[name], limit=limit, force=force))[name]
        changed, left = moved(done)
        told.count(changed, **left)
    return Shown(_document(done), _parts(done), exit=EXITS[done.verdict])


@sweep.command("list")
@_command
async def show_all(app: App) -> Listing:
    r"""List the sweeps of an app, in their order.

    Without an app, the engine's own.

    \b
    offpath sweep list --app myservice.jobs:app
    """
    items = app.sweeps.list()
    rows = [
        (
            one.name,
            f"{one.every:g}",
            one.limit,
            f"{one.row_timeout:g}" if one.by_rows else "-",
            "all" if one.shared else "one",
            "offpath" if one.own else "app",
        )
        for one in items
    ]
    columns = ("sweep", "every", "limit", "row timeout", "workers", "of")
    return Listing(items, Table(columns, rows, "there are no sweeps"))


def _parts(result: SweepResult) -> list[Part]:
    tally = result.tally
    counts = ", ".join(f"{number} {name}" for name, number in tally.counts.items())
    why = result.error or tally.skipped or counts or "nothing was due"
    bad = [
        (row, bucket, tally.reasons.get(row, ""))
        for bucket, ids in tally.buckets.items()
        if bucket in tally.bad
        for row in ids
    ]
    line = f"{result.name}: {result.verdict.value} ({why})"
    return [line, Table(("row", "bucket", "reason"), bad)]


def _document(result: SweepResult) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(replace(result.tally, summary=None))
    del plain["bad"], plain["summary"]
    return {
        "ok": result.verdict in {Verdict.CLEAN, Verdict.EMPTY},
        "name": result.name,
        "verdict": result.verdict.value,
        "error": result.error,
        "retryable": result.retryable,
        "seconds": result.seconds,
        **plain,
        "counts": result.tally.counts,
    }
