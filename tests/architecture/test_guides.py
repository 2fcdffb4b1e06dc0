"""Guides have one form: the normal case first, how-to, reference, one table of exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.page import ROOT, blocks, prose

FIRST_SCREEN = 40
"""Lines of a guide within which the first block that runs, or the first command, begins."""
PURPOSE = 45
"""Words before that block: what the guide is for, and no more."""
WIDEST = 88
"""Characters of a line of the first block: the site shows so many without scrolling."""
LONGEST = 30
"""Words of the longest sentence of a guide."""
EXCEPTIONS, TESTS = "Exceptions", "Tests"
_SHOWN = frozenset({"python", "py", "console", "sh", "bash", "sql", "ini", "yaml", "toml", "http"})

GUIDES = sorted(
    [*ROOT.glob("docs/guides/*.md"), *ROOT.glob("docs/integrations/*.md")],
    key=lambda page: page.as_posix(),
)
READ = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("quickstart", "concepts", "operations", "comparison")
    ),
    *sorted(ROOT.glob("docs/guarantees/*.md")),
    *sorted(ROOT.glob("docs/runbooks/*.md")),
    *sorted(ROOT.glob("examples/**/*.md")),
]
"""Other pages whose sentences are short."""


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


def sections(text: str) -> list[str]:
    """The headings of a page's sections, in order."""
    return re.findall(r"^## (.+?)\s*$", prose(text), flags=re.MULTILINE)


def first_shown(text: str) -> int | None:
    """The line on which the first block begins that a reader can run."""
    return next((block.line - 1 for block in blocks(text) if block.kind in _SHOWN), None)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page: of paragraphs, points of lists and cells of tables."""
    for piece in _pieces(text):
        plain = re.sub(r"`[^`]*`", "code", piece)
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
        yield from re.split(r"(?<=[.!?:])[)\"*]*\s+(?=[A-Z`*(\[\"]|code\b)", plain)


def _pieces(text: str) -> Iterator[str]:
    plain = re.sub(r"<!--.*?-->", "", prose(text), flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |\||#))", plain):
        piece = " ".join(paragraph.split())
        if piece.startswith("|"):
            yield from (cell.strip() for cell in piece.replace(r"\|", "/").strip("|").split("|"))
        elif not piece.startswith("#"):
            yield piece.removeprefix("- ")


def words(sentence: str) -> int:
    """The number of words; a mark of punctuation by itself is none."""
    return len(re.findall(r"[\w][\w'’./-]*", sentence))


def too_long(text: str) -> list[str]:
    """The sentences of a page that are longer than a reader holds in mind."""
    return [one for one in sentences(text) if words(one) > LONGEST]


@pytest.mark.parametrize("page", GUIDES, ids=_name)
def test_the_first_screen_shows_something_that_runs(page: Path) -> None:
    line = first_shown(page.read_text("utf-8"))
    assert line is not None
    assert line <= FIRST_SCREEN


@pytest.mark.parametrize("page", GUIDES, ids=_name)
def test_a_guide_says_what_it_is_for_and_shows_it(page: Path) -> None:
    text = page.read_text("utf-8")
    before = text.splitlines()[1 : (first_shown(text) or 1) - 1]
    assert len(" ".join(before).split()) <= PURPOSE


@pytest.mark.parametrize("page", GUIDES, ids=_name)
def test_the_first_block_is_read_without_scrolling(page: Path) -> None:
    shown = next(block for block in blocks(page.read_text("utf-8")) if block.kind in _SHOWN)
    assert [line for line in shown.text.splitlines() if len(line) > WIDEST] == []


@pytest.mark.parametrize("page", GUIDES, ids=_name)
def test_exceptions_stand_in_one_table_at_the_end(page: Path) -> None:
    found = sections(page.read_text("utf-8"))
    last = found[:-1] if found[-1] == TESTS else found
    assert found.count(EXCEPTIONS) == 1
    assert last[-1] == EXCEPTIONS


@pytest.mark.parametrize("page", [*GUIDES, *READ], ids=_name)
def test_sentences_are_short(page: Path) -> None:
    assert too_long(page.read_text("utf-8")) == []


def test_a_long_sentence_is_seen() -> None:
    long = f"It {'is very ' * 15}long."
    assert too_long(f"Short one. {long}\n\n- A point.\n- {long}") == [long, long]
    assert too_long(f"| a | {long} |\n|---|---|\n| b | `{long}` |") == [long]
    assert too_long(f"```text\n{long}\n```\n<!-- {long} -->\n# {long}\n") == []


def test_two_short_sentences_are_not_one_long_one() -> None:
    half = "word " * 16
    assert too_long(f"A {half}end. B {half}end.") == []
    assert too_long(f"A {half}end, b {half}end.") != []


def test_the_first_block_of_a_page_is_found() -> None:
    assert first_shown("# A\n\n```text\nx\n```\n\n```console\n$ ls\n```\n") == 7
    assert first_shown("# A\n\nNothing.\n") is None
