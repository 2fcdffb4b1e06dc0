"""``offpath demo``: a small real workload, watched live, on a store that stays to be looked at."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from offpath.app import App
from offpath.cli import output
from offpath.cli.frame import command, json_option
from offpath.config import MEMORY_URL, load_settings
from offpath.errors import InvalidArgument
from offpath.jobs.context import Context
from offpath.jobs.job import Job
from offpath.model.job import JobState
from offpath.model.options import Unique
from offpath.model.retry import RetryOptions

if TYPE_CHECKING:
    from rich.progress import Progress

GREETINGS = 240
RESIZES = 30
CHARGES = 20
REMINDERS = 10
FLAKY_UNTIL = 3
"""The attempt at which a charge succeeds."""
_LOOK_EVERY = 0.05


class Tally(Struct):
    """What the demo counted."""

    succeeded: int
    dead: int
    retried: int
    seconds: float


@click.command()
@click.option("--url", metavar="URL", help="Another store than a new SQLite file.")
@json_option
@command
def demo(url: str | None, *, as_json: bool) -> int:
    """Run a few hundred small jobs, some failing, one dying, and say where to look next.

    Uses a new SQLite file in a temporary folder, never a database of the environment.
    """
    place = url or f"sqlite:///{Path(tempfile.mkdtemp(prefix='offpath-demo-')) / 'demo.db'}"
    if load_settings(url=place).url == MEMORY_URL:
        raise InvalidArgument("the demo shows a durable store: give sqlite:///… or postgresql://…")
    tally = asyncio.run(_run(place, live=not as_json))
    if as_json:
        output.print_json(tally)
    else:
        _conclude(tally, place)
    return 0


async def _run(url: str, *, live: bool) -> Tally:
    app = App(url, auto_start=False, migrate=True, retry=RetryOptions(base=0.2, jitter=0.5))
    retries = 0
    begun = time.perf_counter()
    async with app:
        handles = await app.enqueue(workload(app))
        ids = {handle.id for handle in handles}
        async with app.worker(concurrency=20) as worker:
            with _display(len(ids), live=live) as display:
                while (ended := await _ended(app, ids)) < len(ids):
                    _show(display, ended)
                    await asyncio.sleep(_LOOK_EVERY)
                _show(display, ended)
        retries = worker.counts.retried
        states = await app.store().states(tuple(ids))
    of = list(states.values())
    return Tally(
        succeeded=of.count(JobState.SUCCEEDED),
        dead=of.count(JobState.DEAD),
        retried=retries,
        seconds=round(time.perf_counter() - begun, 2),
    )


def workload(app: App) -> list[Job[object, object]]:
    """Define the demo's tasks on ``app``, and make its jobs."""

    @app.task
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    @app.task(queue="images")
    def resize(ctx: Context, width: int) -> int:
        time.sleep(0.02)  # a sync handler: it runs in a thread
        ctx.logger.debug("resized")
        return width // 2

    @app.task(queue="billing")
    async def charge(ctx: Context, order: int) -> str:
        if ctx.attempt < FLAKY_UNTIL:
            msg = f"the payment provider timed out (order {order})"
            raise ConnectionError(msg)
        return f"order {order} paid on attempt {ctx.attempt}"

    @app.task(retry=2)
    async def import_file(path: str) -> None:
        msg = f"{path} is not a spreadsheet"
        raise ValueError(msg)

    @app.task(priority=10)
    async def remind(number: int) -> int:
        return number

    jobs: list[Job[object, object]] = [greet.job(f"visitor {n}") for n in range(GREETINGS)]
    jobs += [resize.job(100 * n) for n in range(1, RESIZES + 1)]
    jobs += [
        charge.options(unique=Unique(key=f"order-{n}"), tags=["money"]).job(n)
        for n in range(CHARGES)
    ]
    jobs += [remind.options(delay=0.5).job(n) for n in range(REMINDERS)]
    jobs.append(import_file.job("holiday.jpg"))
    return jobs


async def _ended(app: App, ids: set[str]) -> int:
    states = await app.store().states(tuple(ids))
    return sum(state.terminal for state in states.values())


@contextmanager
def _display(total: int, *, live: bool) -> Iterator[Progress | None]:
    """A progress bar on a terminal; a pipe gets none."""
    if not live or not sys.stdout.isatty():
        yield None
        return
    from rich.progress import Progress

    with Progress() as progress:
        progress.add_task("jobs", total=total)
        yield progress


def _show(display: Progress | None, ended: int) -> None:
    if display is not None:
        display.update(display.task_ids[0], completed=ended)


def _conclude(tally: Tally, url: str) -> None:
    rows = (
        ("greet, resize, charge, remind", tally.succeeded, "succeeded"),
        ("charge, import_file", tally.retried, "failed attempts, run again with backoff"),
        ("import_file", tally.dead, "dead: it failed as often as it may"),
    )
    output.print_table(("tasks", "count", "what happened"), rows, empty="nothing happened")
    total = tally.succeeded + tally.dead
    click.echo(f"\n{total} jobs in {tally.seconds:g} s. All of it is still in {url}\n")
    click.echo("See what died, and why:")
    click.echo(f"  offpath dead list --url {url}")
    click.echo("Look at all jobs of one kind:")
    click.echo(f"  offpath jobs list --task charge --url {url}")
    click.echo("Check the store:")
    click.echo(f"  offpath doctor --url {url}")
