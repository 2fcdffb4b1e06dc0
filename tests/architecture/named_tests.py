"""Tests that pages name, as ``tests/unit/test_x.py::test_y``, or with the test's class between."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from tests.architecture.sources import ROOT


def is_test(name: str) -> bool:
    """True if the file is there and has a test of that name.

    The source is read, not collected: that would import half of the project once more.
    """
    file, _, test = name.partition("::")
    return test in _tests_of(file)


@cache
def _tests_of(file: str) -> frozenset[str]:
    path = ROOT / file
    body = ast.parse(path.read_text("utf-8")).body if path.is_file() else []
    return frozenset(_names(body, ""))


def _names(body: list[ast.stmt], inside: str) -> Iterator[str]:
    for one in body:
        if isinstance(one, ast.ClassDef) and one.name.startswith("Test"):
            yield from _names(one.body, f"{inside}{one.name}::")
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and _is_test(one.name):
            yield f"{inside}{one.name}"


def _is_test(name: str) -> bool:
    return name.startswith("test_")
