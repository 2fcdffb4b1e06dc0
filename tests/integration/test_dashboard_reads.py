"""No page of the dashboard reads a large table from one end to the other, nor many of its rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import psycopg
import pytest

from benchmarks import dashboard, dashboard_rows
from benchmarks.page_reads import reads_of
from tests.servers import Databases

SIZES: Final = dashboard_rows.Sizes(
    ended=60_000, queued=20_000, dead=10_000, messages=20_000, members=1_000
)
MOST_READ: Final = 75_000
"""A page of jobs looks at 20,000, and once more for how far that came. Beside them it counts 10,000
dead jobs, and in each of twenty queues a thousand of each kind."""


@pytest.fixture(scope="module")
def filled(postgres_databases: Databases) -> Iterator[tuple[str, dict[str, str]]]:
    """A database in which each kind has more rows than a page may read, and examples of all."""
    url = postgres_databases.create()
    with ThreadPoolExecutor(1) as thread:  # the test's event loop may be current in this one
        known = thread.submit(asyncio.run, dashboard.filled(url, SIZES)).result()
    yield url, known
    postgres_databases.drop(url)


async def test_no_page_reads_more_than_it_shows_needs(filled: tuple[str, dict[str, str]]) -> None:
    url, known = filled
    console = dashboard.console_of(url, 1)
    read: dict[str, tuple[int, tuple[str, ...]]] = {}
    with (
        dashboard.counted() as spent,
        dashboard.unshared(),
        psycopg.connect(url, autocommit=True) as beside,
    ):
        for path in dashboard.urls(known):
            await dashboard.ask(console, path)  # what is made behind a page is made by now
            before = spent.statements
            status, _, _ = await dashboard.ask(console, path)
            assert status in {200, 404}, path
            found = reads_of(beside, spent.queries[before:])
            read[path] = (found.rows, found.whole)
    assert len(read) > 50
    assert {path: one for path, one in read.items() if one[1]} == {}
    assert {path: one for path, (one, _) in read.items() if one > MOST_READ} == {}
