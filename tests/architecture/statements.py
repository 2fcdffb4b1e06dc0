"""The statements of both SQL databases, from their files: names, parameters, answer columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offpath.store.sql import parse, parts_of
from tests.architecture.sources import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

STORE = PACKAGE / "store"

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_WORD = re.compile(r"[a-z_][a-z0-9_]*|[(),]")
_VERBS = {"select", "insert", "update", "delete", "values"}


@dataclass(frozen=True, slots=True)
class Block:
    """One named statement of one database."""

    name: str
    file: str
    parameters: frozenset[str]
    columns: int
    """The columns of its answer; 0: none."""
    nothing: bool
    """Its database does not need it."""


def blocks(database: str) -> dict[str, Block]:
    """The statements of ``database`` by name."""
    found = {}
    paths = sorted((STORE / database).glob("*.sql"))
    parts = parts_of({path.name: path.read_text("utf-8") for path in paths})
    for path in paths:
        for each in parse(path.read_text("utf-8"), origin=path.name, parts=parts):
            found[each.name] = Block(
                each.name,
                path.stem,
                frozenset(each.parameters),
                columns(each.named),
                each.nothing,
            )
    return found


def columns(sql: str) -> int:
    """The number of columns that a statement answers: those of its SELECT, or of its RETURNING."""
    words = list(_words(sql))
    verb = next((n for n, (depth, word) in enumerate(words) if depth == 0 and word in _VERBS), None)
    if verb is None:
        return 0
    if words[verb][1] not in {"select", "values"}:
        after = [n for n, (depth, word) in enumerate(words) if depth == 0 and word == "returning"]
        return _listed(words[after[0] + 1 :]) if after else 0
    return _listed(words[verb + 1 :])


def _words(sql: str) -> Iterator[tuple[int, str]]:
    depth = 0
    for found in _WORD.finditer(_QUOTED.sub("''", sql).lower()):
        depth -= found[0] == ")"
        yield depth, found[0]
        depth += found[0] == "("


def _listed(words: list[tuple[int, str]]) -> int:
    count = 1
    for depth, word in words:
        if depth == 0 and word in {"from", "where", "union", "order", "limit"}:
            break
        count += depth == 0 and word == ","
    return count
