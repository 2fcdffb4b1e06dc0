"""Every named SQL statement is run by somebody, and only text files hold SQL."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.architecture import sources
from tests.architecture.sources import PACKAGE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"^--[ \t]*name:[ \t]*(\S+)", re.MULTILINE)


def _catalogues() -> list[Path]:
    folders = {path.parent for path in PACKAGE.rglob("*.sql")}
    return sorted(folder for folder in folders if folder.name not in {"migrations", "baseline"})


def _strings(folder: Path) -> set[str]:
    files = [source for source in sources.package() if source.path.is_relative_to(folder)]
    return {
        node.value
        for source in files
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize("folder", _catalogues(), ids=lambda path: path.name)
def test_each_named_statement_is_used(folder: Path) -> None:
    texts = [path.read_text("utf-8") for path in folder.glob("*.sql")]
    names = {name for text in texts for name in _NAME.findall(text)}
    assert names
    assert names - _strings(folder) - _strings(folder.parent / "programs") == set()


def test_migrations_are_numbered_without_a_gap() -> None:
    folders = [path for path in PACKAGE.rglob("migrations") if path.is_dir()]
    for folder in folders:
        names = sorted(path.name for path in folder.glob("*.sql"))
        numbers = [int(name.partition("_")[0]) for name in names]
        assert numbers == list(range(1, len(numbers) + 1)), folder.relative_to(ROOT)
        assert all(re.fullmatch(r"\d{4}_[a-z0-9_]+(\.online)?\.sql", name) for name in names), names


_REPEATS = re.compile(r"on\s+conflict(?P<target>.*?)\bdo\s+nothing", re.DOTALL)
_OF_TWO_KINDS = {"enqueue", "enqueue_alike", "enqueue_one", "add_messages"}
"""Inserts on Postgres that two unique indexes may rightly refuse, of which only one can be named:
who asks looks up whom each row that is missing has met."""


@pytest.mark.parametrize("folder", _catalogues(), ids=lambda path: path.name)
def test_an_insert_says_which_conflict_is_a_repeat(folder: Path) -> None:
    """Else a row is left out, and told to be a repeat, whatever was in its way."""
    blocks = dict[str, str]()
    for path in folder.glob("*.sql"):
        _, *rest = _NAME.split(path.read_text("utf-8"))
        blocks |= dict(zip(rest[::2], rest[1::2], strict=True))
    unnamed = {
        name
        for name, text in blocks.items()
        if any(not found["target"].strip().startswith("(") for found in _REPEATS.finditer(text))
    }
    assert unnamed == (_OF_TWO_KINDS if folder.name == "postgres" else set())


_LOCKED = re.compile(r"\blimit\b[^()]*\bfor (?:no key )?update\b", re.IGNORECASE)
_CHANGES = re.compile(
    r"^\s*(?:delete from|update|insert into)\b|\(\s*delete from\b", re.MULTILINE | re.IGNORECASE
)
_ONCE = ("materialized", "array", "lateral")


def _opened_by(text: str, place: int) -> str | None:
    """The word before the bracket around ``place``; None: there is no bracket."""
    depth = 0
    for at in range(place - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if depth < 0:
            return text[:at].replace("(", " ").split()[-1].casefold()
    return None


def test_as_many_rows_as_a_limit_says_are_picked_for_a_change() -> None:
    """A plan may look into a bare subquery anew for each row beside it, and the rows that the last
    look locked and deleted are passed over: more go than its limit says.
    """
    again: dict[str, str | None] = {}
    for path in (PACKAGE / "store" / "postgres").glob("*.sql"):
        _, *rest = _NAME.split(path.read_text("utf-8"))
        for name, block in zip(rest[::2], rest[1::2], strict=True):
            text = re.sub(r"--.*", "", block)
            words = {_opened_by(text, found.start()) for found in _LOCKED.finditer(text)}
            if _CHANGES.search(text) and (loose := words - {None, *_ONCE}):
                again[name] = str(loose)
    assert again == {}
