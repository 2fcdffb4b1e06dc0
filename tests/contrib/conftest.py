"""Databases of both kinds for the integrations: with our schema, or empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers import migrate
from tests.sqlite_files import migrated_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind that has our schema."""
    if request.param == "sqlite":
        return migrated_url(tmp_path / "shop.db")
    copy: Callable[[str, Callable[[str], None]], str]
    copy = request.getfixturevalue("database_from_template")
    return copy("schema", migrate)


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found
