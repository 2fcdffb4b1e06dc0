"""Docstrings begin with the thing that they describe, not with a clause about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture import sources

CLAUSES = frozenset(
    {
        *("what", "whether", "who", "whom", "whose", "how", "when", "where", "which"),
        *("those", "that", "these", "as"),
    }
)
"""First words of a docstring that leave the reader to find the noun."""
CEILING = 10
"""Docstrings of the package that may begin so. Lower it with each that is rewritten."""


def clauses(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The docstrings of modules, classes, functions and attributes that begin with a clause."""
    for node in nodes:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    first = re.match(r"\W*(\w+)", text)
                    if first is not None and first[1].lower() in CLAUSES:
                        yield text


def test_docstrings_begin_with_what_they_describe() -> None:
    found = [text for source in sources.package() for text in clauses(source.nodes)]
    told = f"{len(found)} docstrings begin with a clause; begin with the noun: {found[:3]}"
    assert len(found) <= CEILING, told


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ('"""Whether it runs."""', 1),
        ('class A:\n    """What it does."""\n    x: int = 1\n    """How many."""', 2),
        ('def f():\n    """The number of rows."""\n    return "who"', 0),
        ('"""Asks the store."""', 0),
    ],
)
def test_the_count_sees_each_kind_of_docstring(text: str, counted: int) -> None:
    assert len(list(clauses(ast.walk(ast.parse(text))))) == counted
