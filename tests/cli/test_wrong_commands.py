"""Commands that cannot be meant are answered by one line that says what to write instead."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from offpath.cli.main import cli
from tests.cli.conftest import Run
from tests.sqlite_files import migrated_url

_ROW = re.compile(r"^(?P<command>\S.*)\n    (?P<code>\d): (?P<words>.*)$", re.MULTILINE)
ROWS = [
    (row["command"], int(row["code"]), row["words"])
    for row in _ROW.finditer(Path(__file__).with_name("wrong_commands.txt").read_text("utf-8"))
]


def _takes_a_store(words: list[str]) -> bool:
    """True if the command has --url, and is not given one."""
    command: click.Command | None = cli
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
    if command is None or isinstance(command, click.Group) or "--url" in words:
        return False
    return any("--url" in option.opts for option in command.params)


def test_there_are_many() -> None:
    assert len(ROWS) >= 70
    assert len({command for command, _, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("command", "code", "words"), ROWS, ids=[row[0] for row in ROWS])
def test_a_wrong_command_is_told_what_is_meant(
    run: Run, here: Path, command: str, code: int, words: str
) -> None:
    given = shlex.split(command)
    url = migrated_url(here / "work.db")
    told = run(*given, *(("--url", url) if _takes_a_store(given) else ()))
    assert told.exit_code == code
    assert words in " ".join(told.output.split())
    assert "Traceback" not in told.output
