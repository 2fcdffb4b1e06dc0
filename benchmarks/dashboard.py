"""The dashboard over a large Postgres: statements, database time and answers of every page.

It fills a database of its own, asks each page of the table of readings, at 1 and at many viewers,
and lets a worker run beside the viewers and without them, in alternating pairs.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus
from typing import Any, Final
from unittest.mock import patch

import msgspec
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.dashboard_rows import Sizes, fill
from benchmarks.page_reads import NOTHING, PageReads, reads_of
from benchmarks.report import machine_speed, percentile
from offpath.app import App
from offpath.model.lease import LeaseRequest, WorkerInfo
from offpath.operating import actions
from offpath.operating.orders import ActionAsked
from offpath.store.postgres.session import Database
from offpath.store.protocol import Store
from offpath.store.sql import Query
from offpath.web import auth, dashboard
from offpath.web.console import shares
from offpath.web.console.application import API
from offpath.web.console.readings import READINGS

TOKEN: Final = "the token of the viewer number {number}"  # noqa: S105 - of the run alone
Asgi = Callable[[Any, Any, Any], Awaitable[None]]
STATEMENTS, DATABASE_MS, ANSWER_MS, WORKER_LOSS = 8, 100.0, 200.0, 0.03
"""The budgets of a page, and of a worker beside twenty viewers."""
_WARM: Final = 2
_REFRESH: Final = 2.0
"""Seconds between two looks of a viewer, as a page's script has them."""
_LOOKS: Final = 3
"""Looks of each viewer at each page."""
_PAIRS: Final = 5
_WORKERS: Final = 50
"""Live workers of other queues, each with some running jobs."""
_RUNNING: Final = 20
_DAY: Final = 86_400.0
_WIDE: Final = 200
"""Columns where no terminal says how many it has: a URL is as long as an id and a filter."""


class PageMeasure(msgspec.Struct, kw_only=True):
    """The cost of one page. Times are milliseconds, at the median and at the 95th percentile."""

    url: str
    status: int
    statements: int
    database_p50: float
    database_p95: float
    answer_p50: float
    answer_p95: float
    crowded_p95: float
    """The answer to one of many viewers, each of whom looks again after two seconds."""
    kilobytes: float
    reads: PageReads
    """The reads of its statements."""

    @property
    def within(self) -> bool:
        """True if it keeps to the budgets."""
        return (
            self.status == HTTPStatus.OK
            and self.statements <= STATEMENTS
            and self.database_p95 <= DATABASE_MS
            and self.crowded_p95 <= ANSWER_MS
            and not self.reads.whole
        )


# -- asking ----------------------------------------------------------------------------------------


class Spent:
    """The spendings of the store of this process: statements, and seconds until their answers.

    BEGIN and COMMIT are statements too, and so is a setting.
    """

    def __init__(self) -> None:
        self.queries: list[Query] = []
        self.of_one: list[Query] = []
        """The statements of the last page that one viewer alone has asked for."""
        self.seconds = 0.0
        """Seconds in which the answer of at least one statement was waited for."""
        self._open = 0
        self._since = 0.0

    def begin(self) -> None:
        """A statement is sent."""
        if not self._open:
            self._since = time.perf_counter()
        self._open += 1

    def end(self) -> None:
        """A statement is answered."""
        self._open -= 1
        if not self._open:
            self.seconds += time.perf_counter() - self._since

    @property
    def statements(self) -> int:
        """The number of statements that were sent."""
        return len(self.queries)


@contextmanager
def counted() -> Iterator[Spent]:
    """Count every statement that is sent, and time each until its answer, until the end."""
    spent = Spent()
    pipeline: Any = vars(Database)["_pipeline"]

    async def timing(self: Database, connection: Any, queries: Sequence[Query]) -> Any:  # noqa: ANN401 - theirs
        spent.queries += queries
        spent.begin()
        try:
            return await pipeline(self, connection, queries)
        finally:
            spent.end()

    with patch.object(Database, "_pipeline", timing):
        yield spent


async def ask(console: Asgi, path: str, viewer: int = 0) -> tuple[int, int, float]:
    """One request of a viewer as a server makes it: its status, its bytes, its seconds."""
    plain, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": plain,
        "raw_path": plain.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query.encode(),
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "headers": [
            (b"host", b"localhost"),
            (b"authorization", f"Bearer {TOKEN.format(number=viewer)}".encode()),
        ],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    began = time.perf_counter()
    await console(scope, receive, send)
    took = time.perf_counter() - began
    size = sum(len(one.get("body", b"")) for one in sent)
    return sent[0]["status"], size, took


def urls(known: Mapping[str, str]) -> list[str]:
    """Every page of the table, and the lists with filters that match little of much."""
    found = []
    for one in READINGS:
        path = one.page or one.path
        parts = re.findall(r"{(\w+)}", path)
        named = {part: known.get(f"{one.name}.{part}") for part in parts}
        if all(named.values()):
            found.append(path.format(**named))
    filters = (
        "state=dead",
        "state=queued&queue=queue3",
        "task=nobody_has_it",
        "tag=vip",
        "sort=oldest",
        "finished_after=15m",
        "state=dead&fault=SMTPError3: Connection <…>".replace(" ", "+"),
    )
    ranges = ("/?range=90d", "/stats?range=2d&compare=yesterday", "/stats?range=90d&queue=queue3")
    return [*dict.fromkeys(found), *ranges, *(f"/jobs?{one}" for one in filters)]


def console_of(url: str, viewers: int) -> Asgi:
    """A dashboard for so many people, each with a name of their own."""
    known = {f"viewer{number}": TOKEN.format(number=number) for number in range(max(viewers, 1))}
    return dashboard(url, auth=auth.token(known))


async def measure(
    url: str, known: Mapping[str, str], viewers: int, rounds: int
) -> list[PageMeasure]:
    """Every page, first by one viewer alone, then by all of them at once."""
    console = console_of(url, viewers)
    measured = []
    with counted() as spent, psycopg.connect(url, autocommit=True) as beside:
        for path in urls(known):
            with unshared():
                if (await ask(console, path))[0] == HTTPStatus.NOT_FOUND:
                    path = f"{API}{path}"  # noqa: PLW2901 - it is read as JSON alone
            one = await _measured(console, path, spent, viewers, rounds)
            reads = await asyncio.to_thread(reads_of, beside, spent.of_one)
            measured.append(msgspec.structs.replace(one, reads=reads))
    return measured


def unshared() -> AbstractContextManager[object]:
    """A block in which no answer is given again that was made before."""
    return patch.object(shares, "FOR", 0.0)


async def _measured(
    console: Asgi, path: str, spent: Spent, viewers: int, rounds: int
) -> PageMeasure:
    database, answers, statements, status, size = [], [], 0, 0, 0
    with unshared():
        for each in range(_WARM + rounds):
            before = spent.statements, spent.seconds
            status, size, took = await ask(console, path)
            spent.of_one = spent.queries[before[0] :]
            if each >= _WARM:
                statements = max(statements, spent.statements - before[0])
                database.append(1000 * (spent.seconds - before[1]))
                answers.append(1000 * took)
    looking = (_viewer(console, path, one, viewers) for one in range(viewers))
    crowd = await asyncio.gather(*looking)
    return PageMeasure(
        url=path,
        status=status,
        statements=statements,
        database_p50=percentile(database, 0.5),
        database_p95=percentile(database, 0.95),
        answer_p50=percentile(answers, 0.5),
        answer_p95=percentile(answers, 0.95),
        crowded_p95=percentile([one for several in crowd for one in several], 0.95),
        kilobytes=size / 1024,
        reads=NOTHING,
    )


async def _viewer(console: Asgi, path: str, number: int, viewers: int) -> list[float]:
    """A viewer's looks at a page, each two seconds; the viewers are spread over them."""
    answers = []
    await asyncio.sleep(_REFRESH * number / viewers)
    for _ in range(_LOOKS):
        answers.append(1000 * (await ask(console, path, number))[2])
        await asyncio.sleep(_REFRESH)
    return answers


# -- a worker beside -------------------------------------------------------------------------------

_WORKER = """
import asyncio, sys, time
import offpath

app = offpath.App(sys.argv[1])
jobs = int(sys.argv[2])

@app.task(name="bench.nothing", queue="bench")
async def nothing() -> None: ...

async def main() -> None:
    async with app:
        for _ in range(jobs // 500):
            await app.enqueue([nothing.job() for _ in range(500)])
        worker = app.worker(queues=("bench",), concurrency=100)
        began = time.perf_counter()
        done = await worker.run_until_idle()
        print(done.total / (time.perf_counter() - began))

asyncio.run(main())
"""


async def worker_rates(url: str, viewers: int, jobs: int) -> tuple[list[float], list[float]]:
    """Jobs a second of a worker in a process of its own: alone, and beside viewers."""
    console = console_of(url, viewers)
    alone, beside = [], []
    for _ in range(_PAIRS):
        alone.append(await _rate(url, jobs))
        looking = [asyncio.create_task(_looker(console, n)) for n in range(viewers)]
        beside.append(await _rate(url, jobs))
        for one in looking:
            one.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
    return alone, beside


async def _looker(console: Asgi, number: int) -> None:
    """A viewer of the overview and two lists, each two seconds."""
    paths = ("/", "/jobs?state=dead", "/queues")
    while True:
        await ask(console, paths[number % len(paths)], number)
        await asyncio.sleep(_REFRESH)


async def _rate(url: str, jobs: int) -> float:
    command = [sys.executable, "-c", _WORKER, url, str(jobs)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    return float(out.decode().split()[-1])


# -- the run ---------------------------------------------------------------------------------------


async def run(url: str, sizes: Sizes, viewers: int, rounds: int, jobs: int) -> dict[str, Any]:
    """Fill, ask, and let a worker run beside; everything that is told."""
    began = time.perf_counter()
    known = await filled(url, sizes)
    took = time.perf_counter() - began
    pages = await measure(url, known, viewers, rounds)
    alone, beside = await worker_rates(url, viewers, jobs)
    loss = statistics.median(1 - one / other for one, other in zip(beside, alone, strict=True))
    return {
        "sizes": msgspec.to_builtins(sizes),
        "filled_s": took,
        "speed": machine_speed(),
        "viewers": viewers,
        "pages": pages,
        "worker_alone": alone,
        "worker_beside": beside,
        "worker_loss": loss,
        "ok": all(one.within for one in pages) and loss <= WORKER_LOSS,
    }


async def filled(url: str, sizes: Sizes) -> dict[str, str]:
    """Make the tables, fill them, and give an example for each path that names one thing."""
    async with App(url, migrate=True, auto_start=False):
        pass
    await asyncio.to_thread(fill, url, sizes)
    return await _known(url)


async def _known(url: str) -> dict[str, str]:
    """One of everything that is not there yet, and an example for each path that names one."""
    app = App(url, auto_start=False)

    @app.task(name="task3", queue="queue3")
    async def task3(n: int) -> None: ...

    async with app:
        store = app.store()
        for number in range(20):
            await app.schedules.create(f"schedule{number}", task3.job(number), every=3600.0)
        for number in range(_WORKERS):
            await _worker_beside(store, number)
        event = await app.log.append("orders", "paid", "orders", {"order": 7})
        await app.webhooks.add("shop", "https://93.184.216.34/hooks", topics=["order.*"])
        router = app.router("orders", domain="orders", start="beginning")
        router.route(type="paid", deliver=task3, name="call")
        await router.record()
        dead = (await app.dead.list(limit=1)).items[0]
        asked = ActionAsked(verb="job.redrive", target={"ids": [dead.id]})
        action = await actions.ask(app, asked, actions.Asker(name="ann", via="code"))
        groups = await store.browse_groups(limit=1)
        page = await app.messages.find(limit=1)
        steps = {f"{one}.id": dead.id for one in ("job", "steps", "children")}
        return {
            **steps,
            **{f"{one}.id": groups[0].id for one in ("group", "graph")},
            **{f"{one}.name": "task3" for one in ("task", "task_schema")},
            **{f"{one}.name": "schedule3" for one in ("schedule", "occurrences")},
            **{f"{one}.router": "orders" for one in ("attempts", "letters", "checks")},
            "router.name": "orders",
            "queue.name": "queue3",
            "worker.id": "worker3",
            "endpoint.name": "shop",
            "event.id": str(event),
            "action.id": action.id,
            "message.id": page.items[0].id,
        }


async def _worker_beside(store: Store, number: int) -> None:
    """A worker of another machine, with some jobs that run."""
    own = WorkerInfo(
        id=f"worker{number}",
        host=f"host{number % 10}",
        pid=number,
        version="0.1.0",
        concurrency=_RUNNING,
        tasks=tuple(f"task{each}" for each in range(50)),
        queues=(f"queue{number % 20}",),
    )
    await store.register(own, lease_seconds=_DAY)
    wanted = LeaseRequest(
        worker=own.id, limit=_RUNNING, tasks=dict.fromkeys(own.tasks, 1), queues=own.queues
    )
    await store.lease(wanted)


def show(told: dict[str, Any]) -> None:
    """Print it as a table."""
    table = Table(title=f"dashboard: {told['sizes']}, {told['viewers']} viewers")
    columns = (
        *("url", "status", "statements", "db p50", "db p95", "p50", "p95", "crowd p95", "KiB"),
        *("rows", "blocks"),
        "",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "url" else "right")
    for one in told["pages"]:
        database, answer = (one.database_p50, one.database_p95), (one.answer_p50, one.answer_p95)
        table.add_row(
            one.url,
            str(one.status),
            str(one.statements),
            *(f"{each:.1f}" for each in (*database, *answer, one.crowded_p95)),
            f"{one.kilobytes:.0f}",
            f"{one.reads.rows}{' whole' if one.reads.whole else ''}",
            str(one.reads.buffers),
            "" if one.within else "over",
        )
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    console.print(table)
    both = (told["worker_alone"], told["worker_beside"])
    rates = [", ".join(f"{each:.0f}" for each in several) for several in both]
    console.print(
        f"worker alone {rates[0]} jobs/s, beside {rates[1]} jobs/s: "
        f"{100 * told['worker_loss']:.1f} % less (at most {100 * WORKER_LOSS:.0f} %)"
    )
    console.print("within the budgets" if told["ok"] else "over the budgets")
