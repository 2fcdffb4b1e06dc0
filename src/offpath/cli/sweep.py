"""``offpath sweep``: the sweeps of an app, from a shell or a scheduler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli.logs import configure
from offpath.cli.older_frame import (
    DONE,
    FAILED,
    command,
    json_option,
    url_option,
    with_app,
    with_loaded_app,
)
from offpath.cli.output import print_json, print_table
from offpath.config import load_settings
from offpath.model.tally import SweepResult, Verdict

DEGRADED = 3
_EXITS = {
    Verdict.CLEAN: DONE,
    Verdict.EMPTY: DONE,
    Verdict.DEGRADED: DEGRADED,
    Verdict.FAILED: FAILED,
}

app_option = click.option(
    "--app", "target", metavar="MODULE:APP", help="Whose sweeps.  [env: OFFPATH_APP]"
)


@click.group()
def sweep() -> None:
    """Sweeps: bounded passes over due rows."""


@sweep.command("run")
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 100_000), help="Most rows, instead of its own.")
@click.option("--force", is_flag=True, help="Also when another worker leads it.")
@app_option
@url_option
@json_option
@command
def run(
    name: str,
    limit: int | None,
    target: str | None,
    url: str | None,
    *,
    force: bool,
    as_json: bool,
) -> int | None:
    r"""Make one pass of the sweep NAME.

    Exit code 0 when all rows moved or none was due, 3 when some went wrong (degraded), 1 when all
    of them did or the sweep itself failed, 2 when there is no such sweep.

    \b
    offpath sweep run stale_carts --app myservice.jobs:app
    offpath sweep run rescue --url sqlite:///work.db
    """
    configure("warning", "text")

    async def work(app: App) -> int:
        done = await app.worker().run_once(only=[name], limit=limit, force=force)
        _show(done[name], as_json=as_json)
        return _EXITS[done[name].verdict]

    return _with(target, url, work)


@sweep.command("list")
@app_option
@url_option
@json_option
@command
def show_all(target: str | None, url: str | None, *, as_json: bool) -> int | None:
    r"""List the sweeps of an app, in their order.

    Without an app, the engine's own.

    \b
    offpath sweep list --app myservice.jobs:app
    """

    async def work(app: App) -> None:
        items = app.sweeps.list()
        if as_json:
            print_json({"items": items})
            return
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
        print_table(columns, rows, empty="there are no sweeps")

    return _with(target, url, work)


def _with(
    target: str | None, url: str | None, work: Callable[[App], Awaitable[int | None]]
) -> int | None:
    """Do the work with the app that is named, or with one that has the engine's sweeps only."""
    target = target or load_settings().app
    if target is None:
        return with_app(url, work)
    return with_loaded_app(target, url, work)


def _show(result: SweepResult, *, as_json: bool) -> None:
    if as_json:
        print_json(_document(result))
        return
    tally = result.tally
    counts = ", ".join(f"{number} {name}" for name, number in tally.counts.items())
    why = result.error or tally.skipped or counts or "nothing was due"
    click.echo(f"{result.name}: {result.verdict.value} ({why})")
    bad = [
        (row, bucket, tally.reasons.get(row, ""))
        for bucket, ids in tally.buckets.items()
        if bucket in tally.bad
        for row in ids
    ]
    if bad:
        print_table(("row", "bucket", "reason"), bad, empty="")


def _document(result: SweepResult) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(result.tally)
    plain.pop("bad")
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
