"""The program: its help is light, and says of each command what the command says of itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from offpath.cli.main import LATER, REGISTERED, cli
from offpath.cli.program import Program

LIGHT = {
    "offpath",
    "offpath.cli",
    "offpath.cli.main",
    "offpath.cli.program",
    "offpath.runtime",
    "offpath.runtime.added_loops",
}
"""Modules of ours that a help text may load: the rest takes ten times as long as click."""


def test_the_help_loads_no_command() -> None:
    script = (
        "import sys; from offpath.cli.main import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: print(*(n for n in sys.modules if n.startswith('offpath')), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = {line for line in done.stdout.splitlines() if line.startswith("offpath")}
    assert "offpath.cli.program" in loaded
    assert loaded - LIGHT == set()


@pytest.mark.parametrize("name", sorted({*LATER, *REGISTERED}))
def test_a_summary_is_what_the_command_says_of_itself(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    known = LATER[name].summary if name in LATER else REGISTERED[name]
    assert known == command.get_short_help_str(200)


def test_the_help_fits_a_terminal_and_names_every_command() -> None:
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=80).output
    listed = {line.split()[0] for line in shown.partition("Commands:\n")[2].splitlines()}
    assert {*LATER, *REGISTERED} <= listed
    assert max(map(len, shown.splitlines())) <= 80
    assert "..." not in shown.partition("Commands:")[2]


def test_a_command_that_has_no_summary_is_loaded_for_the_help() -> None:
    @click.group(cls=Program)
    def program() -> None:
        """Hold the command."""

    @program.command("give")
    def give() -> None:
        """Give it."""

    shown = CliRunner().invoke(program, ["--help"]).output
    assert ["give", "Give", "it."] in [line.split() for line in shown.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    made = CliRunner().invoke(cli, ["completion", shell])
    assert (made.exit_code, "_OFFPATH_COMPLETE" in made.stdout) == (0, True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("words", "offered"),
    [("offpath sch", {"schedules"}), ("offpath jobs sh", {"show"}),
     ("offpath worker --until", {"--until-idle"})],
)  # fmt: skip
def test_bash_itself_completes(words: str, offered: set[str], tmp_path: Path) -> None:
    made = CliRunner().invoke(cli, ["completion", "bash"]).stdout
    (tmp_path / "completion.bash").write_text(made)
    script = (
        "source completion.bash; "
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        "_offpath_completion offpath; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    (tmp_path / "offpath").write_text(f'#!/bin/sh\nexec {sys.executable} -m offpath "$@"\n')
    (tmp_path / "offpath").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(done.stdout.split()) == offered, done.stderr
