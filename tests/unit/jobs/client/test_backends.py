"""From a URL to a store."""

from __future__ import annotations

import pytest

from offpath.errors import ConfigurationError
from offpath.store.backends import Backend, make_store, scheme_of, sqlite_path


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("memory://", "memory"),
        ("sqlite:///a.db", "sqlite"),
        ("sqlite+aiosqlite:///a.db", "sqlite"),
        ("postgres://h/d", "postgresql"),
        ("postgresql+asyncpg://h/d", "postgresql"),
        ("host=localhost dbname=d", "postgresql"),
    ],
)
def test_the_usual_forms_are_understood(url: str, scheme: str) -> None:
    assert scheme_of(url) == scheme


def test_a_sqlite_url_names_a_file() -> None:
    assert sqlite_path("sqlite:///work.db") == "work.db"
    assert sqlite_path("sqlite:////var/lib/a%20b.db") == "/var/lib/a b.db"
    for unusable in ("sqlite://work.db", "sqlite:///", "sqlite:///:memory:", "sqlite:///a?b=1"):
        with pytest.raises(ConfigurationError):
            sqlite_path(unusable)


def test_a_store_in_memory_outlives_its_closing() -> None:
    memory, given = Backend("memory://"), make_store("memory://")
    assert memory.make() is memory.make()
    assert Backend("memory://", store=given).make() is given
