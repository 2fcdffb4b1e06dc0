"""Printing of what commands return: tables and lines for people, one JSON document for programs.

Job data is foreign text: control characters are shown, never sent to the terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, Final, assert_never

import click
import msgspec

from offpath.cli.colours import coloured, state, verdict
from offpath.cli.tables import fitted, folded, whole
from offpath.cli.values import DONE, Failed, Fields, Part, Quote, Table, Value
from offpath.operating.redaction import decoded
from offpath.operating.times import ago, short, when

__all__ = [
    "ago", "clean", "clean_block", "decoded", "json_line", "json_text", "note", "print_json",
    "print_table", "short", "show", "when",
]  # fmt: skip
"""Times and texts in words are the operator's: other views have them too."""

_LEAST_ROOM: Final = 20
"""Characters of a value on a line, however narrow the terminal is."""


def show(value: Value, *, as_json: bool) -> None:
    """Print what a command returned."""
    if as_json:
        if value.document is not None:
            print_json(enveloped(value))
        return
    for part in value.parts:
        _print_part(part)
    if isinstance(value, Failed):
        told = f"{value.word}: {clean_block(value.message)} ({value.code})"
        click.echo(verdict(told) if coloured(sys.stderr) else told, err=True)
    for line in value.notes:
        note(line)


def enveloped(value: Value) -> dict[str, Any]:
    """The document of a command, of which all have ``ok``: true if the exit code is 0."""
    document: Any = value.document
    if isinstance(document, msgspec.Struct):
        document = msgspec.structs.asdict(document)
    rest = document if isinstance(document, Mapping) else {"value": document}
    return {"ok": value.exit == DONE, **rest}


def note(text: str) -> None:
    """Tell people a line beside the output."""
    click.echo(verdict(clean(text)) if coloured(sys.stderr) else clean(text), err=True)


def _print_part(part: Part) -> None:
    match part:
        case str():
            click.echo(verdict(clean(part)) if coloured(sys.stdout) else clean(part))
        case Table():
            if part.rows or part.empty:
                print_table(part)
        case Fields(values, width):
            width = max(width, *map(len, values))
            for name, value in values.items():
                told = _folded(clean(str(value)), width + 2)
                told = state(name, told) if coloured(sys.stdout) else told
                click.echo(f"{name:>{width}}  {told}")
        case Quote(heading, text):
            click.echo(f"{clean(heading)}\n  {clean_block(text).rstrip()}")
        case _:
            assert_never(part)


def _folded(text: str, indent: int) -> str:
    """A value in the room of a terminal behind its name: it goes on below, and no word breaks."""
    room = max(get_terminal_size().columns - indent, _LEAST_ROOM)
    if not sys.stdout.isatty() or len(text) <= room:
        return text
    lines = wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)


def print_json(document: Any) -> None:  # noqa: ANN401 - any JSON
    """Print one JSON document on one line."""
    click.echo(json_line(msgspec.json.encode(document)))


def json_line(encoded: bytes) -> str:
    """JSON with every unprintable character as its escape: the same to a program, and harmless on
    a terminal, which obeys C1 controls and direction marks that JSON allows.
    """
    text = encoded.decode()
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _json_escape(one) for one in text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def print_table(table: Table) -> None:
    """Print rows under their headings, or ``empty`` when there are none."""
    if not table.rows:
        click.echo(table.empty)
        return
    texts = [["" if cell is None else clean(str(cell)) for cell in row] for row in table.rows]
    width = get_terminal_size().columns
    columns, colours = table.columns, coloured(sys.stdout)
    if not sys.stdout.isatty():
        lines = whole(columns, texts)
    elif table.brief:
        lines = fitted(columns, texts, width, table.spare, single=table.single, coloured=colours)
    else:
        lines = folded(columns, texts, width, coloured=colours)
    click.echo("\n".join(lines))


def clean(text: str) -> str:
    """``text`` with control characters and other unprintable ones shown as escapes."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def clean_block(text: str) -> str:
    """Text of several lines, each cleaned by :func:`clean`: tracebacks and errors.

    Lines after the first are indented, so that none of them can be taken for a line of ours.
    """
    return "\n  ".join(clean(line) for line in text.splitlines())


def json_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    """A value as JSON in a line for people."""
    return msgspec.json.encode(value).decode()
