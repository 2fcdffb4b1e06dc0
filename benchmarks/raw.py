"""The bare statements of each database: what no engine on it can beat.

The same driver, durability, row width and ready index as ours, lease 500 and complete 500, each
its own transaction, from one connection, without an engine around it.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

_BATCH = 500
_SINGLES = 300
_PAD = "x" * 40


def sqlite_rates(jobs: int) -> dict[str, float]:
    """Rates per second: ``process``, ``enqueue_bulk``, ``enqueue_one``."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "raw.db", isolation_level=None)
        try:
            return _sqlite_rates(connection, jobs)
        finally:
            connection.close()


def _sqlite_rates(connection: sqlite3.Connection, jobs: int) -> dict[str, float]:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE raw_job (id TEXT PRIMARY KEY, state TEXT, queue TEXT, task TEXT,"
        " priority INT, run_at INT, input TEXT, result TEXT, worker TEXT,"
        " finished_at INT, pad TEXT)"
    )
    connection.execute(
        "CREATE INDEX raw_ready ON raw_job (queue, task, priority DESC, run_at, id)"
        " WHERE state = 'ready'"
    )
    insert = (
        "INSERT INTO raw_job SELECT value, 'ready', 'default', 'noop', 0, 0, '{\"n\":1}', NULL,"
        " NULL, NULL, ? FROM json_each(?)"
    )

    def bulk() -> None:
        for size in _batches(jobs):
            _sqlite_write(connection, insert, (_PAD, _ids(size)))

    def singles() -> None:
        for _ in range(_SINGLES):
            _sqlite_write(connection, insert, (_PAD, _ids(1)))

    def process() -> None:
        while leased := _sqlite_write(
            connection,
            "UPDATE raw_job SET state = 'running', worker = 'w' WHERE id IN (SELECT id FROM raw_job"
            " WHERE state = 'ready' AND queue = 'default' AND task = 'noop'"
            " ORDER BY priority DESC, run_at, id LIMIT 500) RETURNING id, input",
            (),
        ):
            done = json.dumps([row[0] for row in leased])
            _sqlite_write(
                connection,
                "UPDATE raw_job SET state = 'succeeded', worker = NULL, result = '1',"
                " finished_at = 1 WHERE id IN (SELECT value FROM json_each(?)) AND worker = 'w'",
                (done,),
            )

    rates = {"enqueue_one": _SINGLES / _timed(singles), "enqueue_bulk": jobs / _timed(bulk)}
    rates["process"] = (jobs + _SINGLES) / _timed(process)
    return rates


def _sqlite_write(
    connection: sqlite3.Connection, sql: str, values: tuple[object, ...]
) -> list[tuple[str, ...]]:
    connection.execute("BEGIN IMMEDIATE")
    rows = connection.execute(sql, values).fetchall()
    connection.execute("COMMIT")
    return rows


def postgres_rates(url: str, jobs: int) -> dict[str, float]:
    """Rates per second: ``process``, ``enqueue_bulk``, ``enqueue_one``."""
    import psycopg

    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("DROP SCHEMA IF EXISTS offpath_raw CASCADE")
        connection.execute("CREATE SCHEMA offpath_raw")
        connection.execute(
            "CREATE TABLE offpath_raw.job (id uuid PRIMARY KEY, state text, queue text, task text,"
            " priority int, run_at timestamptz, input text, result text, worker text,"
            " finished_at timestamptz, pad text)"
        )
        connection.execute(
            "CREATE INDEX raw_ready ON offpath_raw.job (queue, task, priority DESC, run_at, id)"
            " WHERE state = 'ready'"
        )
        try:
            return _postgres_rates(connection, jobs)
        finally:
            connection.execute("DROP SCHEMA offpath_raw CASCADE")


def _postgres_rates(connection: object, jobs: int) -> dict[str, float]:
    run = connection.execute  # type: ignore[attr-defined]
    insert = (
        "INSERT INTO offpath_raw.job SELECT id::uuid, 'ready', 'default', 'noop', 0, now(),"
        " '{\"n\":1}', NULL, NULL, NULL, %s FROM jsonb_array_elements_text(%s::jsonb) AS id"
    )

    def bulk() -> None:
        for size in _batches(jobs):
            run(insert, (_PAD, _ids(size)))

    def singles() -> None:
        for _ in range(_SINGLES):
            run(insert, (_PAD, _ids(1)))

    def process() -> None:
        while leased := run(
            "UPDATE offpath_raw.job SET state = 'running', worker = 'w' WHERE id = ANY(ARRAY("
            "SELECT id FROM offpath_raw.job WHERE state = 'ready' AND queue = 'default'"
            " AND task = 'noop' ORDER BY priority DESC, run_at, id LIMIT 500"
            " FOR UPDATE SKIP LOCKED)) RETURNING id::text, input"
        ).fetchall():
            done = json.dumps([row[0] for row in leased])
            run(
                "UPDATE offpath_raw.job SET state = 'succeeded', worker = NULL, result = '1',"
                " finished_at = now() FROM jsonb_array_elements_text(%s::jsonb) AS done"
                " WHERE id = done::uuid AND worker = 'w'",
                (done,),
            )

    rates = {"enqueue_one": _SINGLES / _timed(singles), "enqueue_bulk": jobs / _timed(bulk)}
    rates["process"] = (jobs + _SINGLES) / _timed(process)
    return rates


def memory_rates(jobs: int) -> dict[str, float]:
    """Rate per second of ``process``: an asyncio task started and awaited for each job."""

    async def noop() -> int:
        return 1

    async def spawn() -> None:
        for _ in range(jobs // 100):
            await asyncio.gather(*(asyncio.create_task(noop()) for _ in range(100)))

    return {"process": jobs / _timed(lambda: asyncio.run(spawn()))}


def _batches(total: int) -> list[int]:
    return [_BATCH] * (total // _BATCH)


def _ids(count: int) -> str:
    return json.dumps([str(uuid.uuid4()) for _ in range(count)])


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
