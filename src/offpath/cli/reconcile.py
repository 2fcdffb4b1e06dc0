"""``offpath reconcile``: compare what a processor settled with what the ledger has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from offpath.cli import output
from offpath.cli.economy import app_option, moment, with_economy
from offpath.cli.older_frame import FAILED, command, json_option

if TYPE_CHECKING:
    from offpath.economy import Economy
    from offpath.ledger.reconciling import (
        Discrepancy,
        ReconcileRecord,
        ReconcileReport,
        Window,
    )


@click.command("reconcile")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--since", required=True, metavar="TIME", help="The window's begin, with a zone.")
@click.option("--until", required=True, metavar="TIME", help="Its end, not included.")
@app_option
@json_option
@command
def reconcile(
    file: Path, since: str, until: str, target: str | None, *, as_json: bool
) -> int | None:
    r"""Compare a processor's file with the ledger.

    Its settled records with ours, in a window of time.

    FILE has one JSON object a line, or is CSV with these columns: kind (buy or payout), key (what
    both sides call it), amount (USD:5.00), ref, at (ISO time with a zone). A purchase's key is the
    operation's key without `whk:`, a payout's the provider's reference. Exit code 1 when the two
    sides differ.

    \b
    offpath reconcile november.csv --since 2026-11-01T00:00Z --until 2026-12-01T00:00Z
    """
    from offpath.economy.records import read_records, recorded
    from offpath.ledger.reconciling import Pulled
    from offpath.ledger.reconciling import reconcile as compared

    window = _window(since, until)
    processor = read_records(file)

    async def work(found: Economy) -> int | None:
        ours = await recorded(found, window)
        report = compared(window, Pulled(processor=processor, ledger=ours))
        if as_json:
            output.print_json(_document(report))
        else:
            _print(report)
        return None if report.reconciled else FAILED

    return with_economy(target, work)


def _window(since: str, until: str) -> Window:
    from offpath.ledger.reconciling import Window

    return Window(since=moment(since, "--since"), until=moment(until, "--until"))


def _document(report: ReconcileReport) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(report)
    found = [_discrepancy(one) for one in report.discrepancies]
    return {
        "reconciled": report.reconciled,
        "processor_orphans": report.processor_orphans,
        "ledger_orphans": report.ledger_orphans,
        "amount_drifts": report.amount_drifts,
        **document,
        "discrepancies": found,
    }


def _discrepancy(one: Discrepancy) -> dict[str, Any]:
    sides = {"processor": _record(one.processor), "ledger": _record(one.ledger)}
    return {**msgspec.to_builtins(one), **sides}


def _record(record: ReconcileRecord | None) -> dict[str, Any] | None:
    """A record with its amount as text: as in the file, and everywhere else."""
    if record is None:
        return None
    return {**msgspec.to_builtins(record), "amount": str(record.amount)}


def _print(report: ReconcileReport) -> None:
    click.echo(
        f"{report.window}: {report.matched} matched of {report.processor_count} at the processor "
        f"and {report.ledger_count} in the ledger"
    )
    rows = [
        (
            one.difference.value,
            one.kind.value,
            one.key,
            "" if one.processor is None else str(one.processor.amount),
            "" if one.ledger is None else str(one.ledger.amount),
        )
        for one in report.discrepancies
    ]
    if rows:
        output.print_table(("difference", "kind", "key", "processor", "ledger"), rows, empty="")
