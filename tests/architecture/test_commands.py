"""Help is complete: each command has a summary that fits, examples that can be typed, and says what
each of its options is for; and the page of the command line names it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.architecture.commands import every, parse
from tests.architecture.page import ROOT

EVERY = dict(every())
COMMANDS = {name: one for name, one in EVERY.items() if not isinstance(one, click.Group)}
by_name = pytest.mark.parametrize("name", COMMANDS)
PAGE = (ROOT / "docs" / "guides" / "cli.md").read_text("utf-8")


def examples(name: str) -> list[list[str]]:
    """The words behind `offpath` of each example in a command's help, without what a shell adds."""
    text = COMMANDS[name].get_help(click.Context(COMMANDS[name]))
    lines = re.findall(r"^ *(?:[A-Z_]+=\S+ )?offpath (.+)$", text, re.MULTILINE)
    return [shlex.split(re.split(r" [|>] ", line)[0], comments=True) for line in lines]


@by_name
def test_a_command_shows_examples_of_itself_that_can_be_typed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = examples(name)
    assert any(words[: len(name.split())] == name.split() for words in shown)
    for words in shown:
        for file in (word for word in words if word.endswith((".csv", ".json", ".jsonl", ".gz"))):
            Path(file).touch()
        parse(words)


@by_name
def test_each_option_says_what_it_is_for(name: str) -> None:
    options = [one for one in COMMANDS[name].params if isinstance(one, click.Option)]
    assert [one.name for one in options if not (one.help or one.hidden)] == []


@by_name
def test_the_help_of_an_option_is_a_phrase_and_no_telegram(name: str) -> None:
    options = [one for one in COMMANDS[name].params if isinstance(one, click.Option)]
    said = {one.name: one.help or "" for one in options if not one.hidden}
    assert {each: text for each, text in said.items() if len(text.split()) < 3} == {}


def test_no_summary_is_cut_off_in_a_list_of_commands() -> None:
    groups = [one for one in EVERY.values() if isinstance(one, click.Group)]
    listed = [one.get_help(click.Context(one, terminal_width=80)) for one in groups]
    cut = [line.strip() for text in listed for line in text.splitlines() if line.endswith("...")]
    assert [line for line in cut if not line.startswith("Usage")] == []


@by_name
def test_the_page_of_the_command_line_names_it(name: str) -> None:
    group, *own = name.split()
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| `{group}")]
    assert any(re.search(rf"[` ]{re.escape(own[-1] if own else group)}[` ]", row) for row in rows)
