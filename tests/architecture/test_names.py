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

ONE_DATABASE = {
    "connection": "SQLite's settings of a connection",
    "contradictions": "jobs that SQLite's rules of a row refuse to change",
    "door": "the SQL function that enqueues: SQLite has no functions",
    "roles": "roles and rights of a server",
    "session": "transactions and settings of a server's session",
    "unseen": "transactions that do not see each other: SQLite has one writer",
}
"""Files of statements that one database has alone, each with the reason."""

LIFE = {
    "log": "each database says for itself how far the log is settled",
    "parts": "text that statements of several files share",
    "presence": "each database sees deaths in its own way",
    "schema": "each database is migrated in its own way",
}
"""Nouns of statements that no program speaks, each with the reason."""

NOUNS = {"finding", "funding", "keyring", "posting", "standing", "testing", "wing"}
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


def _stems(folder: str, kind: str) -> set[str]:
    return {path.stem for path in (sources.PACKAGE / "store" / folder).glob(f"*.{kind}")}


def test_a_noun_of_the_store_has_the_same_files_in_both_databases() -> None:
    postgres, sqlite = (_stems(database, "sql") for database in ("postgres", "sqlite"))
    assert postgres ^ sqlite == set(ONE_DATABASE)
    shared = _stems("programs", "py")
    own = _stems("postgres", "py") & _stems("sqlite", "py")
    assert (postgres & sqlite) - shared - own == set(LIFE)


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
