"""The table of edge cases is complete, and every test that a page names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.named_tests import is_test
from tests.architecture.page import ROOT

_ROW = re.compile(r"^\| (?P<first>\d+)(?:–(?P<last>\d+))? \| (?P<rest>.*) \|$")
_NAMED_ROW = re.compile(r"^\| (?P<name>[A-Z]?\d+) \| (?P<rest>.*) \|$", re.MULTILINE)
_CASE = re.compile(r"^\| (?P<case>[A-Q]\d+) \| (?P<rest>.*) \|$", re.MULTILINE)
_SECOND = re.compile(r"^\| (?P<case>T2-\d+) \| (?P<rest>.*) \|$", re.MULTILINE)
_FOUND_HERE = re.compile(r"^\| T3-(?P<number>\d+) \| (?P<rest>.*) \|$", re.MULTILINE)
_REQUIREMENT = re.compile(r"^\| (?P<number>\d+\.\d+) \| (?P<rest>.*) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py::\w+)`")

TABLE = ROOT / "docs" / "edge-cases.md"
CASES = ROOT / "docs" / "cases.md"
HEALTH = ROOT / "docs" / "acceptance-health.md"
THREATS = ROOT / "docs" / "threat-model.md"
GUARANTEES = sorted((ROOT / "docs" / "guarantees").glob("*.md"))
_CASES_OF_CLASS = (8, 10, 8, 4, 5, 6, 5, 6, 5, 3, 6, 2, 5, 8, 2, 4, 3)
"""The number of cases that each class has, A to Q."""
_SECOND_CASES = (2, 3, 5, 6, 7, 8, 9, 10, 11, 14, 16, 17, 18, 19, 20, 22, 23, 26, 27, 28, 31)
"""The numbers of the second collection's cases."""
_REQUIREMENTS = (5, 4, 4, 6, 5, 5, 9, 5, 6, 9)
"""The number of requirements of each section of health: five of the document, its criteria,
false green, false red, settlement runs, sweeps."""


def _rows(section: str) -> list[tuple[range, str]]:
    lines = _section(section).splitlines()
    found = [match for line in lines if (match := _ROW.match(line))]
    return [
        (range(int(row["first"]), int(row["last"] or row["first"]) + 1), row["rest"])
        for row in found
    ]


def _section(name: str) -> str:
    return TABLE.read_text("utf-8").split(f"\n## {name}\n")[1].split("\n## ")[0]


def _named(page: Path) -> list[str]:
    return [f"tests/{name}" for name in _TEST.findall(page.read_text("utf-8"))]


@pytest.mark.parametrize(("section", "last"), [("B.6", 30), ("A.28", 204)])
def test_every_number_has_one_row(section: str, last: int) -> None:
    numbers = [number for numbers, _ in _rows(section) for number in numbers]
    assert numbers == list(range(1, last + 1))


@pytest.mark.parametrize("section", ["B.6", "A.28"])
def test_a_row_has_a_test(section: str) -> None:
    """Also one that does not apply: of what holds instead."""
    assert [row for _, row in _rows(section) if not _TEST.search(row)] == []


_WEAKNESSES = [*(f"W{n}" for n in range(1, 19)), *(f"S{n}" for n in range(1, 24))]
_DUTIES = [str(n) for n in range(1, 17)]


@pytest.mark.parametrize(("section", "names"), [("A.29", _WEAKNESSES), ("D", _DUTIES)])
def test_every_weakness_and_every_duty_has_one_row_with_a_test(
    section: str, names: list[str]
) -> None:
    rows = _NAMED_ROW.findall(_section(section))
    assert [name for name, _ in rows] == names
    assert [name for name, row in rows if not _TEST.search(row)] == []


def test_every_case_has_one_row_with_a_test_or_what_it_waits_for() -> None:
    rows = _CASE.findall(CASES.read_text("utf-8"))
    sizes = zip("ABCDEFGHIJKLMNOPQ", _CASES_OF_CLASS, strict=True)
    every = [f"{letter}{number}" for letter, size in sizes for number in range(1, size + 1)]
    assert [case for case, _ in rows] == every
    assert [case for case, row in rows if not _TEST.search(row) and "later: " not in row] == []


def test_the_cases_of_the_second_collection_have_a_test_each() -> None:
    rows = _SECOND.findall(CASES.read_text("utf-8"))
    names = [case for case, _ in rows]
    assert sorted(names) == sorted(f"T2-{number}" for number in _SECOND_CASES)
    assert [case for case, row in rows if not _TEST.search(row)] == []


def test_what_was_found_here_is_numbered_and_has_a_test_each() -> None:
    rows = _FOUND_HERE.findall(CASES.read_text("utf-8"))
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert [number for number, row in rows if not _TEST.search(row)] == []


def test_every_requirement_of_health_has_one_row_with_a_test() -> None:
    rows = _REQUIREMENT.findall(HEALTH.read_text("utf-8"))
    sections = enumerate(_REQUIREMENTS, 1)
    every = [f"{section}.{n}" for section, size in sections for n in range(1, size + 1)]
    assert [number for number, _ in rows] == every
    assert [number for number, row in rows if not _TEST.search(row)] == []


@pytest.mark.parametrize(
    "page", [TABLE, CASES, HEALTH, THREATS, *GUARANTEES], ids=lambda page: page.stem
)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = _named(page)
    assert named != []
    assert [name for name in named if not is_test(name)] == []


def test_a_name_that_is_no_test_is_seen() -> None:
    name = "tests/unit/edge_cases/test_b6.py::test_b6_12_end_to_end"
    assert is_test(name)
    assert not is_test(f"{name}_")
