"""The page of errors: every code once, with its classes and a remedy, where `--json` says it is."""

from __future__ import annotations

import importlib
import pkgutil
import re

import offpath
from offpath.cli.errors import failure
from offpath.errors import IdConflict, OffpathError
from tests.architecture.page import ROOT

_ROW = re.compile(
    r'^\| <a id="(?P<anchor>[^"]+)"></a>`(?P<code>[^`]+)` \| (?P<classes>[^|]*) \|'
    r" (?P<means>[^|]+) \| (?P<remedy>[^|]+) \|$",
    re.MULTILINE,
)
_OWN = {"timeout", "unexpected", "usage"}
"""Codes that the command line has beside those of errors."""
_WITHOUT = ("offpath.contrib", "offpath.web.economy")


def _rows() -> list[dict[str, str]]:
    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    return [match.groupdict() for match in _ROW.finditer(text)]


def _kinds(root: type[OffpathError]) -> set[type[OffpathError]]:
    below = root.__subclasses__()
    return {root, *(kind for child in below for kind in _kinds(child))}


def _classes() -> dict[str, set[str]]:
    """The names of all error classes by their codes."""
    for module in pkgutil.walk_packages(offpath.__path__, "offpath."):
        if not module.name.startswith(_WITHOUT) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    importlib.import_module("offpath.contrib.celery.exceptions")
    found: dict[str, set[str]] = {}
    for kind in _kinds(OffpathError):
        if kind.__module__.startswith("offpath."):
            found.setdefault(kind.code, set()).add(kind.__name__)
    return found


def test_each_code_is_on_the_page_with_its_classes() -> None:
    told = {
        row["code"]: set(re.findall(r"`(\w+)`", row["classes"]))
        for row in _rows()
        if row["code"] not in _OWN
    }
    assert told == _classes()


def test_each_row_has_an_address_and_a_remedy() -> None:
    rows = _rows()
    assert [row["code"] for row in rows if row["anchor"] != row["code"]] == []
    assert [row["code"] for row in rows if len(row["remedy"].split()) < 3] == []
    codes = [row["code"] for row in rows]
    assert sorted(codes) == sorted(set(codes))
    assert set(codes) >= _OWN


def test_an_error_as_json_names_its_place_on_the_page() -> None:
    document = failure(IdConflict("taken")).document
    assert document["error"] == {
        "code": "id_conflict",
        "message": "taken",
        "see": "docs/errors.md#id_conflict",
    }
    assert failure(ValueError("x")).document["error"]["see"] == "docs/errors.md#unexpected"
