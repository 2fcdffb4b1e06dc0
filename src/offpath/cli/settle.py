"""``offpath settle``: settlement runs from a shell or a scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from offpath.app import App
from offpath.cli.apps import load_app, target_of
from offpath.cli.logs import configure
from offpath.cli.older_frame import DONE, FAILED, command, explain, json_option
from offpath.cli.output import print_json, print_table
from offpath.errors import SettlementFailed
from offpath.model.settlement_counts import SettlementCounts, SettlementOutcome

DEGRADED = 3

R = TypeVar("R")

app_option = click.option(
    "--app", "target", metavar="MODULE:APP", help="Whose settlement runs.  [env: OFFPATH_APP]"
)


@click.group()
def settle() -> None:
    """Settlement runs: credit a period, each record once."""


@settle.command("run")
@click.argument("kind")
@click.option(
    "--period",
    required=True,
    help="2026-11, 2026-W48, 2026-11-27 or START/END (the end excluded), in the kind's zone.",
)
@click.option("--concurrency", type=click.IntRange(1, 1_000), help="Credits at once.")
@app_option
@json_option
@command
def run(
    kind: str, period: str, concurrency: int | None, target: str | None, *, as_json: bool
) -> int:
    r"""Credit what is not credited yet of a period.

    Every eligible record of KIND. Safe to repeat: only what is missing is credited. Exit code 0
    when the run was clean, 3 when some credits failed (degraded), 1 when all of them failed or the
    records could not be read.

    \b
    offpath settle run rebate --period 2026-11 --app myservice.jobs:app
    """
    configure("warning", "text")
    app = _loaded(target)

    async def work() -> SettlementCounts:
        return await app.settlements.run(kind, period, concurrency=concurrency)

    try:
        summary = _within(app, work)
    except SettlementFailed as error:
        return _failed(error, as_json=as_json)
    _show(summary, as_json=as_json)
    return DONE if summary.outcome is SettlementOutcome.CLEAN else DEGRADED


@settle.command("list")
@app_option
@json_option
@command
def show_kinds(target: str | None, *, as_json: bool) -> None:
    r"""List the kinds of settlement runs of an app.

    \b
    offpath settle list --app myservice.jobs:app
    """
    kinds = _loaded(target).settlements.kinds()
    if as_json:
        print_json({"items": kinds})
        return
    rows = [(one.kind, one.zone, one.unit or "any", one.concurrency, one.timeout) for one in kinds]
    columns = ("kind", "zone", "period", "concurrency", "timeout")
    print_table(columns, rows, empty="the app defines no settlement runs")


def _loaded(target: str | None) -> App:
    return load_app(target_of(target))


def _within(app: App, work: Callable[[], Awaitable[R]]) -> R:
    """Do the work, and close the app if it used its store: a port that needs it opens it."""

    async def both() -> R:
        try:
            return await work()
        finally:
            await app.close()

    return asyncio.run(both())


def _failed(error: SettlementFailed, *, as_json: bool) -> int:
    if not as_json:
        _show(error.summary, as_json=False)
        return explain(error, error.code, as_json=False)
    told = {"code": error.code, "message": str(error)}
    print_json({"ok": False, "error": told, **_document(error.summary)})
    return FAILED


def _show(summary: SettlementCounts, *, as_json: bool) -> None:
    if as_json:
        print_json({"ok": summary.outcome is SettlementOutcome.CLEAN, **_document(summary)})
        return
    counts = ", ".join(f"{number} {name}" for name, number in summary.counts().items())
    click.echo(f"{summary.kind} {summary.period}: {summary.outcome.value} ({counts})")
    if summary.failures:
        rows = [(one.record, one.error) for one in summary.failures]
        print_table(("record", "error"), rows, empty="")


def _document(summary: SettlementCounts) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(summary)
    return {**plain, **summary.counts(), "outcome": summary.outcome.value}
