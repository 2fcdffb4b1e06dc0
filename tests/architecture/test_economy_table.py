"""The table of money's edge cases is complete, and every test that it names exists."""

from __future__ import annotations

import re

import pytest

from tests.architecture.named_tests import is_test
from tests.architecture.page import ROOT

TABLE = ROOT / "docs" / "economy-edge-cases.md"
_ROW = re.compile(r"^\| (?P<name>M?\d+) \| (?P<rest>.*) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py(?:::\w+)+)`")
_MARK = re.compile(r"§(1[67]\.\d+)")
_SECTIONS = {
    "§16": [str(number) for number in range(1, 121)],
    "§17": [str(number) for number in range(1, 15)],
    "Cases M": [f"M{number}" for number in range(1, 6)],
}


def _rows(section: str) -> list[tuple[str, str]]:
    text = TABLE.read_text("utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [(row["name"], row["rest"]) for row in _ROW.finditer(text)]


def _named() -> list[str]:
    return [f"tests/{name}" for name in _TEST.findall(TABLE.read_text("utf-8"))]


@pytest.mark.parametrize("section", _SECTIONS)
def test_every_number_has_one_row(section: str) -> None:
    assert [name for name, _ in _rows(section)] == _SECTIONS[section]


@pytest.mark.parametrize("section", _SECTIONS)
def test_a_row_has_a_test(section: str) -> None:
    """Also one that does not apply: of what holds instead."""
    assert [name for name, rest in _rows(section) if not _TEST.search(rest)] == []


def test_every_test_that_is_named_exists() -> None:
    assert [name for name in _named() if not is_test(name)] == []


def test_a_name_that_is_no_test_is_seen() -> None:
    name = _named()[0]
    assert is_test(name)
    assert not is_test(f"{name}_")


def test_whoever_marks_a_test_with_a_number_means_one_that_there_is() -> None:
    known = {f"{section[1:]}.{name}" for section in ("§16", "§17") for name, _ in _rows(section)}
    unknown = {
        f"{file.relative_to(ROOT).as_posix()}: §{number}"
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        for number in _MARK.findall(file.read_text("utf-8"))
        if number not in known
    }
    assert unknown == set()
