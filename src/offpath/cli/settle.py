"""``offpath settle``: settlement runs from a shell or a scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli.action_log import noting
from offpath.cli.apps import load_app, target_of
from offpath.cli.errors import failure
from offpath.cli.frame import app_option, framed, warnings_logged
from offpath.cli.values import DEGRADED, DONE, Failed, Listing, Part, Shown, Table
from offpath.errors import SettlementFailed
from offpath.model.settlement_counts import SettlementCounts, SettlementOutcome
from offpath.operating.noted import NotedOutcome


@asynccontextmanager
async def _used(app: App) -> AsyncIterator[App]:
    """The app, closed if it used its store: a port that needs it opens it."""
    try:
        yield app
    finally:
        await app.close()


_command = framed(
    lambda target: _used(load_app(target_of(target))),
    app_option("The app whose settlement runs they are."),
)


@click.group()
def settle() -> None:
    """Settlement runs: credit a period, each record once."""


@settle.command("run")
@click.argument("kind")
@click.option(
    "--period",
    required=True,
    help="The period in the kind's zone: 2026-11, 2026-W48, 2026-11-27 or START/END (END excluded)",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1_000),
    help="The most credits at once.  [default: the kind's own]",
)
@warnings_logged
@_command
async def run(app: App, *, kind: str, period: str, concurrency: int | None) -> Shown | Failed:
    r"""Credit what is not credited yet of a period.

    Every eligible record of KIND. Safe to repeat: only what is missing is credited. Exit code 0
    when the run was clean, 3 when some credits failed (degraded), 1 when all of them failed or the
    records could not be read.

    \b
    offpath settle run rebate --period 2026-11 --app myservice.jobs:app
    """
    try:
        async with noting(
            app, "settlement.run", {"kind": kind, "period": period}, if_possible=True
        ) as told:
            summary = await _credited(app, kind, period, concurrency, told)
    except SettlementFailed as error:
        return failure(error, parts=_parts(error.summary), **_document(error.summary))
    clean = summary.outcome is SettlementOutcome.CLEAN
    document = {"ok": clean, **_document(summary)}
    return Shown(document, _parts(summary), exit=DONE if clean else DEGRADED)


async def _credited(
    app: App, kind: str, period: str, concurrency: int | None, told: NotedOutcome
) -> SettlementCounts:
    """The counts of a run, also for the note of it where it failed."""
    try:
        summary = await app.settlements.run(kind, period, concurrency=concurrency)
    except SettlementFailed as error:
        _count(told, error.summary)
        raise
    _count(told, summary)
    return summary


def _count(told: NotedOutcome, done: SettlementCounts) -> None:
    told.count(done.credited, credited_before=done.skipped, failed=done.failed)


@settle.command("list")
@_command
async def show_kinds(app: App) -> Listing:
    r"""List the kinds of settlement runs of an app.

    \b
    offpath settle list --app myservice.jobs:app
    """
    kinds = app.settlements.kinds()
    rows = [(one.kind, one.zone, one.unit or "any", one.concurrency, one.timeout) for one in kinds]
    columns = ("kind", "zone", "period", "concurrency", "timeout")
    return Listing(kinds, Table(columns, rows, "the app defines no settlement runs"))


def _parts(summary: SettlementCounts) -> list[Part]:
    counts = ", ".join(f"{number} {name}" for name, number in summary.counts().items())
    line = f"{summary.kind} {summary.period}: {summary.outcome.value} ({counts})"
    rows = [(one.record, one.error) for one in summary.failures]
    return [line, Table(("record", "error"), rows)]


def _document(summary: SettlementCounts) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(summary)
    return {**plain, **summary.counts(), "outcome": summary.outcome.value}
