"""The table of what the five documents have is complete, and all that it names exists."""

from __future__ import annotations

import importlib
import re
from functools import cache

from offpath import App, Context, Handle, Task
from offpath.economy import Economy
from offpath.jobs.worker.app_worker import AppWorker
from tests.architecture.commands import every
from tests.architecture.page import ROOT

TABLE = ROOT / "docs" / "seeds.md"
_ROW = re.compile(
    r"^\| (?P<number>\d\.\d+) \| [^|]+ \| (?P<state>[^|]+) \| (?P<here>[^|]*)\|"
    r" (?P<tests>[^|]*)\|$",
    re.MULTILINE,
)
_TEST = re.compile(r"`(?P<file>[\w/]+\.py)(?:::(?P<name>\w+))?`")
_CODE = re.compile(r"`([^`]+)`")
_SIZES = (39, 9, 20, 63, 13, 35)
"""The number of rows of each document, and of what people look for beyond them."""
_STATES = ("works", "**differs**", "**not**", "**not yet**")
_OBJECTS = {
    "app": App,
    "ctx": Context,
    "task": Task,
    "handle": Handle,
    "worker": AppWorker,
    "economy": Economy,
}
_OF_AN_INSTANCE = frozenset({"app.metrics", "app.jobs"})
"""Names that are made when the object is."""


def _rows() -> list[re.Match[str]]:
    return list(_ROW.finditer(TABLE.read_text("utf-8")))


def _tests() -> list[tuple[str, str | None]]:
    found = (one for row in _rows() for one in _TEST.finditer(row["tests"]))
    return [(f"tests/{one['file']}", one["name"]) for one in found]


@cache
def _defined(file: str) -> frozenset[str]:
    """The functions of a test file. It is read and not collected, which would take a minute."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    return frozenset(re.findall(r"^(?:async )?def (\w+)\(", path.read_text("utf-8"), re.MULTILINE))


def exists(name: str) -> bool:
    """True if a name in code is one of ours; also for code that claims to be no such name."""
    head, _, rest = name.partition(".")
    if name.startswith("offpath "):
        return name.removeprefix("offpath ") in dict(every())
    if name in _OF_AN_INSTANCE:
        return hasattr(App("memory://", auto_start=False), rest)
    if head in _OBJECTS and rest:
        return hasattr(_OBJECTS[head], rest)
    return head != "offpath" or not rest or "(" in rest or _imported(name)


def _imported(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute) or bool(
            importlib.import_module(name)
        )
    except ImportError:
        return False


def test_every_number_has_one_row() -> None:
    every_number = [f"{part}.{n}" for part, size in enumerate(_SIZES) for n in range(1, size + 1)]
    assert [row["number"] for row in _rows()] == every_number


def test_a_row_says_one_of_four_words() -> None:
    assert {row["number"]: row["state"] for row in _rows() if row["state"] not in _STATES} == {}


def test_what_is_here_has_a_test_and_what_is_absent_a_reason() -> None:
    here = [row for row in _rows() if not row["state"].startswith("**not")]
    assert [row["number"] for row in here if not _TEST.search(row["tests"])] == []
    absent = {row["number"]: row["here"] for row in _rows() if row["state"] == "**not**"}
    assert {number: why for number, why in absent.items() if len(why.split()) < 12} == {}


def test_a_difference_says_why() -> None:
    rows = {row["number"]: row["here"] for row in _rows() if row["state"] == "**differs**"}
    assert {number: why for number, why in rows.items() if len(why.split()) < 7} == {}


def test_every_test_that_is_named_exists() -> None:
    missing = [
        f"{file}::{name}"
        for file, name in _tests()
        if not (name in _defined(file) if name else (ROOT / file).is_file())
    ]
    assert missing == []


def test_every_name_in_code_exists() -> None:
    names = {name for row in _rows() for name in _CODE.findall(row["here"])}
    assert sorted(name for name in names if not exists(name)) == []


def test_a_name_that_is_none_is_seen() -> None:
    assert not exists("app.no_such_verb")
    assert not exists("offpath.NoSuchName")
    assert not exists("offpath no such command")
    assert "test_no_such_test" not in _defined("tests/architecture/test_seeds.py")
