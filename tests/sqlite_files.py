"""SQLite files that have the schema already: to make one takes longer than most tests."""

from __future__ import annotations

import asyncio
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from offpath.store.sqlite import SqliteStore


def migrated_file(path: Path) -> Path:
    """A new file of this name, with the schema of this version and no row.

    It is a copy of one that the shipped steps made, once per process.
    """
    # as the store makes it: for the owner only
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(_migrated())
    return path


def migrated_url(path: Path) -> str:
    """The URL of :func:`migrated_file`."""
    return f"sqlite:///{migrated_file(path)}"


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.db"
        # a thread of its own: the test's event loop may already be the current one here
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _migrate(path)).result()
        # its last connection is closed: nothing is left in a log beside it
        return path.read_bytes()


async def _migrate(path: Path) -> None:
    store = SqliteStore(path)
    try:
        await store.migrate()
    finally:
        await store.close()
