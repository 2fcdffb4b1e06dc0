"""``offpath demo``: a small real workload, watched live, on a store that stays to be looked at."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
from msgspec import Struct

from offpath.app import App
from offpath.cli.frame import plain_command, wants_json
from offpath.cli.values import Part, Shown, Table
from offpath.config import MEMORY_URL, load_settings
from offpath.errors import InvalidArgument
from offpath.jobs.handler.context import Context
from offpath.jobs.values.job import Job
from offpath.model.job import JobState
from offpath.model.options import Unique
from offpath.model.redact import redact_url
from offpath.model.retry import RetryOptions
from offpath.model.unsent import unsent

GREETINGS = 240
RESIZES = 30
CHARGES = 20
REMINDERS = 10
FLAKY_UNTIL = 3
"""The attempt at which a charge succeeds."""
_LOOK_EVERY = 0.05

_TOLD = {
    "demo.remind": "high priority, due after half a second",
    "demo.charge": "failed twice each, run again with backoff; one job per unique key",
    "demo.greet": "quick async handlers",
    "demo.resize": "sync handlers, in threads",
    "demo.import_file": "failed as often as it may: a dead letter",
}
"""The tasks, and what there is to see. Their names are the demo's own: on another's database it
runs nobody else's jobs."""


class DemoTally(Struct):
    """The counts of the demo."""

    succeeded: int
    dead: int
    retried: int
    seconds: float


class Seen(Struct):
    """The jobs of one task: all of them, and those that ended."""

    total: int = 0
    succeeded: int = 0
    dead: int = 0


Board = Mapping[str, Seen]


@click.command()
@click.option("--url", metavar="URL", help="Another store than a new SQLite file; it is migrated.")
@plain_command
def demo(url: str | None) -> Shown:
    r"""Run a few hundred jobs and show what became of them.

    Quick, slow, delayed, failing and retrying ones, and one that dies. Uses a new SQLite file in
    a temporary folder, never a database of the environment, and leaves it to be looked at.

    \b
    offpath demo
    """
    place = url or f"sqlite:///{Path(tempfile.mkdtemp(prefix='offpath-demo-')) / 'demo.db'}"
    if load_settings(url=place).url == MEMORY_URL:
        raise InvalidArgument("the demo shows a durable store: give sqlite:///… or postgresql://…")
    tally, board = asyncio.run(_run(place, live=not wants_json()))
    return Shown(tally, list(_conclusion(tally, board, place)))


async def _run(url: str, *, live: bool) -> tuple[DemoTally, Board]:
    app = App(url, auto_start=False, migrate=True, retry=RetryOptions(base=0.2, jitter=0.5))
    begun = time.perf_counter()
    async with app:
        jobs = workload(app)
        handles = await app.enqueue(jobs)
        # A unique key that is taken gives the handle of the job that has it.
        tasks = {handle.id: unsent(job).new.task for handle, job in zip(handles, jobs, strict=True)}
        async with app.worker(concurrency=20) as worker:
            with _display(live=live) as show:
                while _open(board := await _look(app, tasks)):
                    show(board)
                    await asyncio.sleep(_LOOK_EVERY)
                show(board)
        retried = worker.counts.retried
    tally = DemoTally(
        succeeded=sum(one.succeeded for one in board.values()),
        dead=sum(one.dead for one in board.values()),
        retried=retried,
        seconds=round(time.perf_counter() - begun, 2),
    )
    return tally, board


def workload(app: App) -> list[Job[object, object]]:
    """Define the demo's tasks on ``app``, and make its jobs."""

    @app.task(name="demo.greet")
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    @app.task(name="demo.resize", queue="images")
    def resize(width: int) -> int:
        time.sleep(0.02)  # a sync handler: it runs in a thread
        return width // 2

    @app.task(name="demo.charge", queue="billing")
    async def charge(ctx: Context, order: int) -> str:
        if ctx.attempt < FLAKY_UNTIL:
            raise ConnectionError(f"the payment provider timed out (order {order})")
        return f"order {order} paid on attempt {ctx.attempt}"

    @app.task(name="demo.import_file", retry=2)
    async def import_file(path: str) -> None:
        raise ValueError(f"{path} is not a spreadsheet")

    @app.task(name="demo.remind", priority=10)
    async def remind(number: int) -> int:
        return number

    jobs: list[Job[object, object]] = [greet.job(f"visitor {n}") for n in range(GREETINGS)]
    jobs += [resize.job(100 * n) for n in range(1, RESIZES + 1)]
    jobs += [
        charge.options(unique=Unique(key=f"order-{n}"), tags=["money"]).job(n)
        for n in (*range(CHARGES), 0, 1)
    ]
    jobs += [remind.options(delay=0.5).job(n) for n in range(REMINDERS)]
    jobs.append(import_file.job("holiday.jpg"))
    return jobs


async def _look(app: App, tasks: Mapping[str, str]) -> Board:
    states = await app.store().states(tuple(tasks))
    board = {name: Seen() for name in _TOLD}
    for job_id, task in tasks.items():
        seen, state = board[task], states.get(job_id)
        seen.total += 1
        seen.succeeded += state is JobState.SUCCEEDED
        seen.dead += state in {JobState.DEAD, JobState.CANCELLED, None}
    return board


def _open(board: Board) -> bool:
    return any(one.succeeded + one.dead < one.total for one in board.values())


@contextmanager
def _display(*, live: bool) -> Iterator[Callable[[Board], None]]:
    """A bar for each task on a terminal; a pipe gets none."""
    if not live or not sys.stdout.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, transient=True) as progress:
        bars = {name: progress.add_task(name, total=None) for name in _TOLD}

        def show(board: Board) -> None:
            for name, seen in board.items():
                done = seen.succeeded + seen.dead
                progress.update(bars[name], completed=done, total=seen.total)

        yield show


def _conclusion(tally: DemoTally, board: Board, url: str) -> Iterator[Part]:
    rows = [(name, one.succeeded, one.dead, _TOLD[name]) for name, one in board.items()]
    yield Table(("task", "succeeded", "dead", "what there is to see"), rows, "-")
    yield ""
    yield (
        f"{tally.succeeded + tally.dead} jobs in {tally.seconds:g} s; {tally.retried} attempts "
        "failed and were run again. All of it is still in"
    )
    yield f"  {redact_url(url)}"
    yield ""
    where = f" --url {shlex.quote(url)}"
    if redact_url(url) != url:  # a password belongs on no screen
        yield "With OFFPATH_URL set to the URL you gave:"
        where = ""
    for title, verb in (
        ("What died, and why:", "dead list"),
        ("All jobs of one kind:", "jobs list --task demo.charge"),
        ("Check the store:", "doctor"),
    ):
        yield title
        yield f"  {_program()} {verb}{where}"


def _program() -> str:
    """The word that the reader types: the name, where a shell finds this very program by it.

    Otherwise it is the path by which it was called, as in an environment that is not activated.
    """
    called, found = Path(sys.argv[0]), shutil.which("offpath")
    if called.name != "offpath" or not called.exists():
        return "offpath"
    return "offpath" if found and called.samefile(found) else shlex.quote(sys.argv[0])
