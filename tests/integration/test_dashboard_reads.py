"""No page of the dashboard reads a large table from one end to the other, nor many of its rows.

The store has 600,000 jobs, a log, a router and a ledger. A page may read ``FEW`` rows; the pages
that read more stand in ``MORE`` with the reason.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psycopg
import pytest

from benchmarks import dashboard, dashboard_rows
from benchmarks.page_reads import PageReads, reads_of, touched_by_table
from offpath.economy.console.readings import READINGS as MONEY
from offpath.web import auth
from offpath.web import dashboard as site_of
from offpath.web.console.application import API
from offpath.web.console.sections import SECTIONS
from offpath.web.viewers import ADMIN
from tests.integration.page_rows import EVENTS, fill_further, shop_of
from tests.integration.polling import eventually
from tests.integration.test_dashboard_bad_days import closed
from tests.servers import Databases
from tests.unit.web.dashboard.rig import TOKEN, Site

SIZES: Final = dashboard_rows.Sizes(
    ended=445_000, queued=120_000, dead=30_000, messages=40_000, members=5_000
)
FEW: Final = 25_000
LEVELS: Final = 21_000
"""Jobs that are counted by queue: at most 1,000 of each state in each of the twenty."""
DEAD: Final = 10_000
"""Dead jobs that are counted where their number alone is told."""
TURNS: Final = 9_000
"""Due jobs that are counted by queue and task: at most 100 of each of the ninety pairs."""
LOOKED: Final = 20_000
"""Rows that a list looks at, whatever its filter matches."""
SOME: Final = 1_000
"""Everything else of a page: fifty workers with their jobs, a page of rows, the series."""
MORE: Final[Mapping[str, tuple[int, str]]] = {
    r"/|/\?.*": (LEVELS + DEAD + TURNS + SOME, "counts by queue and by task, and dead jobs"),
    r"/jobs|/jobs\?(state=dead|sort=|finished_after=).*": (LEVELS + DEAD + SOME, "counts"),
    # How far a list came is read after it, since only a list that is not full has to say so. That
    # second look is at ids alone, in the index: 2 ms where the first one takes 80.
    r"/jobs\?.*": (LEVELS + DEAD + 2 * LOOKED + SOME, "counts, a list, and how far it came"),
    r"/dead": (LEVELS + DEAD + LOOKED + SOME, "counts, and faults of the newest dead jobs"),
    r"/queues": (LEVELS + TURNS + SOME, "counts by queue and by task"),
    r"/queues/\w+|/tasks/\w+(/schema)?|/health|/counts": (
        LEVELS + DEAD + TURNS + SOME, "counts by queue and by task, or dead jobs",
    ),
    r"/groups/[\w-]+(/graph)?": (5 * 5_000 + SOME, "members, what they wait for, their failures"),
    r"/endpoints/\w+": (2 * LOOKED + SOME, "its messages, counted and listed"),
    r"/routers/\w+/checks": (5 * EVENTS, "all that it verifies: events, and attempts at them"),
}  # fmt: skip
WHOLE: Final = {"/routers/orders/checks": ("log",)}
"""Pages that read a large table from one end to the other: a verification does."""


@pytest.fixture(scope="module")
def filled(postgres_databases: Databases) -> Iterator[tuple[str, dict[str, str]]]:
    """A database in which each kind has more rows than a page may read, and examples of all."""
    url = postgres_databases.create()

    async def fill() -> dict[str, str]:
        return {**await dashboard.filled(url, SIZES), **await fill_further(url)}

    with ThreadPoolExecutor(1) as thread:  # the test's event loop may be current in this one
        known = thread.submit(asyncio.run, fill()).result()
    yield url, known
    postgres_databases.drop(url)


def paths(known: Mapping[str, str]) -> list[str]:
    """Every page, those of money too, but for what is made behind them."""
    named = {name.partition(".")[2]: value for name, value in known.items()}
    money = [one.path.format(**named) for one in MONEY]
    found = ["/health", *dashboard.urls(known), *money]
    found += ["/ledger/accounts?q=user4", "/payouts?state=reserved"]
    return [one for one in dict.fromkeys(found) if one != "/doctor"]


async def read_by_page(url: str, known: Mapping[str, str]) -> dict[str, PageReads]:
    """The reads of each page, asked a second time.

    The doctor is asked first: it is made behind the pages, once a minute, and counts up to 100,000
    dead jobs.
    """
    site = Site(site_of(shop_of(url), auth=auth.token({"ann": TOKEN}, can=ADMIN)))
    read = {}

    async def checked() -> Any:
        return (await site.get(f"{API}/doctor")).document["checked_at"]

    with (
        dashboard.counted() as spent,
        dashboard.unshared(),
        psycopg.connect(url, autocommit=True) as beside,
    ):
        await eventually(checked, within=60)
        assert reads_of(beside, spent.queries).whole == ()
        for path in paths(known):
            page = path if (await site.get(path)).code == 200 else f"{API}{path}"
            before = spent.statements
            assert (await site.get(page)).code == 200, page
            read[path] = reads_of(beside, spent.queries[before:])
    await closed(site)
    return read


def most_of(path: str) -> int:
    """The most rows that this page may read."""
    return next((most for form, (most, _) in MORE.items() if re.fullmatch(form, path)), FEW)


@pytest.mark.timeout(600)
async def test_no_page_reads_more_than_it_shows_needs(filled: tuple[str, dict[str, str]]) -> None:
    read = await read_by_page(*filled)
    menu = {path for _, entries in SECTIONS for _, path, _ in entries}
    assert menu | {"/ledger", "/payouts", "/subscriptions"} <= read.keys()
    assert len(read) > 60
    assert {path: one.whole for path, one in read.items() if one.whole} == WHOLE
    assert {path: one.rows for path, one in read.items() if one.rows > most_of(path)} == {}


async def test_the_standing_of_a_router_reads_a_bounded_number_of_rows(
    filled: tuple[str, dict[str, str]],
) -> None:
    url, _ = filled
    with dashboard.counted() as spent, psycopg.connect(url, autocommit=True) as beside:
        async with shop_of(url) as app:
            before = spent.statements
            standing = await app.store().router_standing("orders")
        queries = spent.queries[before:]
        rows = touched_by_table(beside, queries)
        whole = reads_of(beside, queries).whole
    partitions = len(standing.partitions)
    assert partitions >= 1
    assert all(one.more for one in standing.partitions)
    assert rows["log"] == 1_000 * partitions
    assert rows["attempt"] == 5_000
    assert whole == ()
