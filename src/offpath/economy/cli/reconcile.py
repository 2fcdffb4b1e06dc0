"""``offpath reconcile``: compare what a processor settled with what the ledger has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from offpath.cli.frame import option_group
from offpath.cli.option_values import iso_time
from offpath.cli.values import DONE, FAILED, Part, Shown, Table
from offpath.economy.cli.economy import economy_command

if TYPE_CHECKING:
    from offpath.economy import Economy
    from offpath.economy.ledger.reconciliation import (
        Discrepancy,
        ReconcileRecord,
        ReconcileReport,
        Window,
    )


def _window(since: datetime, until: datetime) -> Window:
    from offpath.economy.ledger.reconciliation import Window

    return Window(since=since, until=until)


def _records(
    file: Path,
    column: tuple[tuple[str, str], ...],
    kinds: tuple[tuple[str, str], ...],
    **form: Any,  # noqa: ANN401 - the options of a format
) -> Iterator[ReconcileRecord]:
    from offpath.economy.record_format import RecordFormat

    given = {name: value for name, value in form.items() if value is not None}
    return RecordFormat(columns=dict(column), kinds=dict(kinds), **given).read(file)


def _pairs(_: click.Context, param: click.Parameter, values: tuple[str, ...]) -> object:
    """Texts such as ``key=Payment ID`` as pairs."""
    parted = [one.partition("=") for one in values]
    if wrong := [one[0] for one in parted if not (one[0] and one[2])]:
        raise click.BadParameter(f"give NAME=NAME, not {wrong[0]!r}", param=param)
    return tuple((name, to) for name, _, to in parted)


@click.command("reconcile")
@option_group(
    "processor",
    _records,
    click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path)),
    click.option(
        "--column",
        multiple=True,
        callback=_pairs,
        metavar="OURS=THEIRS",
        help="The file's name of a column of ours; may be repeated.",
    ),
    click.option(
        "--kinds",
        multiple=True,
        callback=_pairs,
        metavar="WORD=KIND",
        help="What a word of the file is: buy, payout, reversal, dispute, or - to pass it over.",
    ),
    click.option("--kind", help="The kind of every line, for a file without such a column."),
    click.option("--delimiter", help="The sign between columns; a comma unless given."),
    click.option("--encoding", help="The encoding of the file; UTF-8 unless given."),
    click.option(
        "--minor-units", is_flag=True, default=None, help="Amounts are whole cents: 1234 is 12.34."
    ),
    click.option("--decimal", help="The sign before the cents, a dot unless given."),
    click.option("--time-format", help="The form of times, as %d.%m.%Y; ISO 8601 unless given."),
    click.option("--zone", help="The IANA zone of times that name none."),
)
@option_group(
    "window",
    _window,
    click.option(
        "--since",
        required=True,
        callback=iso_time,
        metavar="TIME",
        help="The window's begin; an ISO time with a zone.",
    ),
    click.option(
        "--until",
        required=True,
        callback=iso_time,
        metavar="TIME",
        help="The window's end, which is not included.",
    ),
)
@economy_command
async def reconcile(
    economy: Economy, *, processor: Iterator[ReconcileRecord], window: Window
) -> Shown:
    r"""Compare a processor's file with the ledger.

    Its settled records with ours, in a window of time.

    FILE has one JSON object a line, or is CSV with these columns: kind (buy or payout), key (what
    both sides call it), amount (USD:5.00), ref, at (ISO time with a zone). Options say how another
    file differs from that. A purchase's key is its `ref`, or the operation's key without `whk:`, a
    payout's the provider's reference. Exit code 1 when the two sides differ.

    \b
    offpath reconcile november.csv --since 2026-11-01T00:00Z --until 2026-12-01T00:00Z
    offpath reconcile day.csv --since 2026-11-01T00:00Z --until 2026-11-02T00:00Z --column key=Id
    """
    from offpath.economy.ledger.reconciliation import Pulled
    from offpath.economy.ledger.settled_records import compared

    await economy.app.open()
    report = await compared(economy.app.store(), window, Pulled(processor=processor))
    return Shown(_document(report), _parts(report), exit=DONE if report.reconciled else FAILED)


def _document(report: ReconcileReport) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(report)
    found = [_discrepancy(one) for one in report.discrepancies]
    return {
        "reconciled": report.reconciled,
        "differing": report.differing,
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


def _parts(report: ReconcileReport) -> list[Part]:
    unlisted = report.differing - len(report.discrepancies)
    line = (
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
    kinds = [
        (one.kind.value, str(one.processor_count), str(one.ledger_count), str(one.matched))
        for one in report.kinds
    ]
    more = [f"{unlisted} more differences are counted and not listed"] if unlisted else []
    return [
        line,
        Table(("kind", "processor", "ledger", "matched"), kinds, ""),
        Table(("difference", "kind", "key", "processor", "ledger"), rows),
        *more,
    ]
