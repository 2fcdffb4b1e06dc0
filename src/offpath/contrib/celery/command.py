"""The command ``offpath celery``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from offpath.cli.frame import plain_command
from offpath.cli.values import DEGRADED, DONE, Cell, Part, Shown, Table
from offpath.contrib.celery.catalogue import Meaning
from offpath.contrib.celery.scan import ScannedPlace, ScanReport, scan

_TITLES: Final = {
    Meaning.ABSENT: "not supported: do this instead",
    Meaning.CHANGED: "works, and means something else",
    Meaning.SAME: "works as it is; natively it is written so",
}
_WIDTH: Final = 80


@click.group("celery")
def celery() -> None:
    """Move a code base from Celery to offpath."""


@celery.command("scan")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="List what works as it is, too.")
@plain_command
def scan_tree(path: Path, *, everything: bool) -> Shown:
    r"""Tell what becomes of the code below PATH.

    Each task, option, call, canvas, beat entry, setting and signal has its file and line.
    It reads the source and imports nothing. The exit code is 3 when something is not supported,
    or a file could not be read.

    \b
    offpath celery scan .
    offpath celery scan shop --json
    """
    report = scan(path)
    left = bool(report.count(Meaning.ABSENT) or report.unread)
    parts: list[Part] = [_summary(report)]
    for meaning, title in _TITLES.items():
        if meaning is not Meaning.SAME or everything:
            parts += _lines([one for one in report.places if one.meaning is meaning], title)
    parts += [f"not read: {one.file}: {one.reason}" for one in report.unread]
    return Shown(_document(report), parts, exit=DEGRADED if left else DONE)


def _document(report: ScanReport) -> dict[str, object]:
    counts = {each.value: report.count(each) for each in Meaning}
    return {
        "files": report.files,
        "counts": counts,
        "items": msgspec.to_builtins(report.places),
        "unread": msgspec.to_builtins(report.unread),
    }


def _summary(report: ScanReport) -> Table:
    kinds = sorted({one.kind for one in report.places})
    rows: list[list[Cell]] = [[kind, *_counts(report, kind)] for kind in kinds]
    empty = f"nothing of Celery in {report.files} Python files"
    return Table(("kind", "as it is", "changed", "not supported"), rows, empty=empty)


def _counts(report: ScanReport, kind: str) -> list[int]:
    found = [one.meaning for one in report.places if one.kind == kind]
    return [found.count(each) for each in Meaning]


def _lines(places: list[ScannedPlace], title: str) -> Iterator[Part]:
    if places:
        yield ""
        yield f"{title} ({len(places)})"
    for one in places:
        yield from _wrapped(f"{one.file}:{one.line}  {one.kind}  {one.name}", "  ")
        yield from _wrapped(one.text, "      ")


def _wrapped(text: str, indent: str) -> list[str]:
    """Lines of at most 80 columns; a longer word, such as a path, is not cut."""
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
