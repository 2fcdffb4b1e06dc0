"""The bare statements of a router: read a page, write its attempts, move the cursor, commit."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

_PAGE = 1_000
_PAD = '{"n":1}'


def sqlite_route(_url: str, events: int) -> float:
    """Events per second."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "raw.db", isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(
                "CREATE TABLE log (position INTEGER PRIMARY KEY, id TEXT, payload TEXT)"
            )
            connection.execute(
                "CREATE TABLE attempt (event TEXT, number INT, status TEXT, position INT,"
                " PRIMARY KEY (event, number)) WITHOUT ROWID"
            )
            connection.execute("CREATE TABLE cursor (position INT)")
            connection.execute("INSERT INTO cursor VALUES (0)")
            rows = [(str(uuid.uuid4()), _PAD) for _ in range(events)]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO log (id, payload) VALUES (?, ?)", rows)
            connection.execute("COMMIT")
            return events / _timed(lambda: _sqlite_pages(connection))
        finally:
            connection.close()


def _sqlite_pages(connection: sqlite3.Connection) -> None:
    after = 0
    while page := connection.execute(
        "SELECT position, id, payload FROM log WHERE position > ? ORDER BY position LIMIT ?",
        (after, _PAGE),
    ).fetchall():
        after = page[-1][0]
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO attempt SELECT value ->> 0, 1, 'dry_run', value ->> 1 FROM json_each(?)",
            (json.dumps([(row[1], row[0]) for row in page]),),
        )
        connection.execute("UPDATE cursor SET position = ?", (after,))
        connection.execute("COMMIT")


def postgres_route(url: str, events: int) -> float:
    """Events per second."""
    import psycopg

    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        run = connection.execute
        run("DROP SCHEMA IF EXISTS offpath_raw CASCADE")
        run("CREATE SCHEMA offpath_raw")
        run(
            "CREATE TABLE offpath_raw.log (position bigint GENERATED ALWAYS AS IDENTITY"
            " PRIMARY KEY, id uuid, payload text)"
        )
        run(
            "CREATE TABLE offpath_raw.attempt (event uuid, number int, status text,"
            " position bigint, PRIMARY KEY (event, number))"
        )
        run("CREATE TABLE offpath_raw.cursor AS SELECT 0::bigint AS position")
        run(
            "INSERT INTO offpath_raw.log (id, payload) SELECT gen_random_uuid(), %s"
            " FROM generate_series(1, %s)",
            (_PAD, events),
        )
        try:
            return events / _timed(lambda: _postgres_pages(connection))
        finally:
            run("DROP SCHEMA offpath_raw CASCADE")


def _postgres_pages(connection: Any) -> None:  # noqa: ANN401 - psycopg is imported when used
    after = 0
    while page := connection.execute(
        "SELECT position, id::text, payload FROM offpath_raw.log WHERE position > %s"
        " ORDER BY position LIMIT %s",
        (after, _PAGE),
    ).fetchall():
        after = page[-1][0]
        with connection.transaction():
            connection.execute(
                "INSERT INTO offpath_raw.attempt SELECT (row ->> 0)::uuid, 1, 'dry_run',"
                " (row ->> 1)::bigint FROM jsonb_array_elements(%s::jsonb) AS row",
                (json.dumps([(row[1], row[0]) for row in page]),),
            )
            connection.execute("UPDATE offpath_raw.cursor SET position = %s", (after,))


def _timed(work: Any) -> float:  # noqa: ANN401 - a function without arguments
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
