"""The test servers themselves: databases are separate, templates are copied, clusters restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from offpath.store.sqlite import SqliteStore
from tests.conformance.backends import Backend
from tests.servers import CONNECTIONS, migrate, refused, with_database
from tests.sqlite_files import migrated_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers import PostgresCluster


def _tables(url: str) -> list[str]:
    question = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    with psycopg.connect(url) as connection:
        return [str(row[0]) for row in connection.execute(question)]


def _make_table(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept (id int)")


def test_a_fresh_database_is_empty_whatever_another_test_left(postgres_url: str) -> None:
    assert _tables(postgres_url) == []
    _make_table(postgres_url)
    assert _tables(postgres_url) == ["kept"]


def test_a_template_is_built_once_and_each_copy_is_its_own(
    database_from_template: Callable[[str, Callable[[str], None]], str],
) -> None:
    built: list[str] = []

    def build(url: str) -> None:
        built.append(url)
        _make_table(url)

    first = database_from_template("with-a-table", build)
    second = database_from_template("with-a-table", build)

    with psycopg.connect(first) as connection:
        connection.execute("DROP TABLE kept")
    assert (_tables(first), _tables(second), len(built)) == ([], ["kept"], 1)


def test_a_database_with_the_schema_is_what_the_shipped_steps_make(
    database_from_template: Callable[[str, Callable[[str], None]], str], postgres_url: str
) -> None:
    copied = database_from_template("schema", migrate)
    migrate(postgres_url)
    assert Backend("postgres", copied).schema() == Backend("postgres", postgres_url).schema()


async def test_a_migrated_file_is_what_a_store_makes(tmp_path: Path) -> None:
    copied, made = migrated_file(tmp_path / "copied.db"), tmp_path / "made.db"
    store = SqliteStore(made)
    await store.migrate()
    await store.close()
    assert Backend("sqlite", str(copied)).schema() == Backend("sqlite", str(made)).schema()
    assert copied.stat().st_mode == made.stat().st_mode


def test_a_migrated_file_replaces_none(tmp_path: Path) -> None:
    first, second = migrated_file(tmp_path / "1.db"), migrated_file(tmp_path / "2.db")
    Backend("sqlite", str(first)).execute("delete from offpath_migration")
    assert Backend("sqlite", str(second)).execute("select count(*) from offpath_migration") != [
        (0,)
    ]
    with pytest.raises(FileExistsError):
        migrated_file(first)


def test_an_own_cluster_keeps_its_rows_through_a_crash(own_postgres: PostgresCluster) -> None:
    _make_table(own_postgres.url)
    own_postgres.restart("immediate")
    assert _tables(own_postgres.url) == ["kept"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:pw@db:5433/postgres", "postgresql://me:pw@db:5433/x"),
        ("postgresql:///postgres?host=/run", "postgresql:///x?host=/run"),
    ],
)
def test_only_the_database_of_a_url_is_replaced(url: str, expected: str) -> None:
    assert with_database(url, "x") == expected


def test_a_full_server_is_told_from_a_broken_product() -> None:
    text = refused(creates=True, free=3)
    assert text is not None
    assert "only 3 connections are free" in text
    assert refused(creates=True, free=CONNECTIONS) is None
    assert refused(creates=False, free=CONNECTIONS) == "the role may not create databases"
