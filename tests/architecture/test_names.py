"""One class name means one thing, and a module is named by a noun."""

from __future__ import annotations

import ast

import pytest

from tests.architecture import sources
from tools import house

SHARED = {
    "Command": "the name that Django wants of each command of manage.py",
    "Duplicate": "public in offpath.events and in offpath.economy: done before",
    "Migration": "an applied step of the schema, and the name that Django wants of each of its own",
    "Offer": "public in offpath.economy, and what a worker's public `accept` is given",
    "Rate": "public in offpath, of starts, and in offpath.economy, of dollars",
    "Rejected": "public in offpath.events and in offpath.economy: refused",
    "Retry": "Celery's exception in its shim, and the outcome of an attempt",
    "Session": "public in offpath.web.auth, of a login, and a connection of SQLite",
    "Share": "public in offpath.settlements and in offpath.economy",
    "TimeLimitExceeded": "Celery's exception in its shim, and that of a dispatcher's call",
}
"""Class names that several classes have, each with the reason."""

NOUNS = {"finding", "funding", "keyring", "posting", "standing", "testing"}
"""Words that end like a gerund and name a thing here."""


def gerunds(names: list[str]) -> list[str]:
    """The paths of modules whose last word is a gerund."""
    words = ((name, name.rpartition("/")[2].removesuffix(".py").split("_")[-1]) for name in names)
    return [name for name, word in words if word.endswith("ing") and word not in NOUNS]


def test_one_class_name_means_one_thing() -> None:
    trees = [source.tree for source in sources.package()]
    assert house.repeated_classes(trees) == sorted(SHARED)
    assert len(SHARED) <= 10


def test_modules_are_named_by_nouns() -> None:
    found = gerunds([source.name for source in sources.package()])
    assert found == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("src/offpath/events/moving.py", True),
        ("src/offpath/store/ledger_posting.py", False),
        ("src/offpath/store/ledger_reading.py", True),
        ("src/offpath/events/mover.py", False),
    ],
)
def test_a_gerund_is_seen(name: str, found: bool) -> None:
    assert bool(gerunds([name])) is found


def test_a_class_that_is_named_twice_is_seen() -> None:
    trees = [ast.parse("class A: ..."), ast.parse("def f():\n    class A: ...\nclass B: ...")]
    assert house.repeated_classes(trees) == ["A"]
