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
    return sorted(folder for folder in folders if folder.name != "migrations")


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
    assert names - _strings(folder) == set()


def test_migrations_are_numbered_without_a_gap() -> None:
    folders = [path for path in PACKAGE.rglob("migrations") if path.is_dir()]
    for folder in folders:
        names = sorted(path.name for path in folder.glob("*.sql"))
        numbers = [int(name.partition("_")[0]) for name in names]
        assert numbers == list(range(1, len(numbers) + 1)), folder.relative_to(ROOT)
        assert all(re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", name) for name in names), names
