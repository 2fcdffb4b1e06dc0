"""``offpath worker``: run jobs, in one process or several."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import click

from offpath.app import App
from offpath.cli.frame import command
from offpath.cli.loading import load_app, prefer
from offpath.cli.logs import configure
from offpath.cli.processes import Parent


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option("--queues", help="Serve only these queues, comma-separated.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Jobs at once, per process.")
@click.option("--processes", type=click.IntRange(1, 256), help="Worker processes.")
@click.option("--drain-timeout", type=float, metavar="SECONDS", help="Patience when stopping.")
@click.option("--url", metavar="URL", help="The store, for an app that names none itself.")
@click.option("--log-level", default="info", show_default=True, help="debug, info, warning, …")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text")
@command
def worker(
    target: str,
    queues: str | None,
    concurrency: int | None,
    processes: int | None,
    drain_timeout: float | None,
    url: str | None,
    *,
    log_level: str,
    log_format: str,
) -> int:
    r"""Run the jobs of an app until stopped.

    SIGTERM or Ctrl-C drains: no new jobs, running ones may end. A second one aborts: their jobs
    are given back without losing an attempt. SIGQUIT prints what runs. Exit code 0 after a clean
    stop.

    \b
    offpath worker myservice.jobs:app
    offpath worker jobs:app --queues mail,default --concurrency 20 --processes 4
    """
    configure(log_level, log_format)
    prefer(url)
    app = load_app(target)
    count = app.settings.processes if processes is None else processes
    if count > 1:
        return Parent(_child_command(), count).run()
    overrides: dict[str, Any] = {
        "queues": queues.split(",") if queues else None,
        "concurrency": concurrency,
        "drain_timeout": drain_timeout,
    }
    given = {name: value for name, value in overrides.items() if value is not None}
    return asyncio.run(_serve(app, given))


def _child_command() -> list[str]:
    """This command again, for one process."""
    return [sys.executable, "-m", "offpath", *sys.argv[1:], "--processes", "1"]


async def _serve(app: App, overrides: dict[str, Any]) -> int:
    async with app:
        running = app.worker(**overrides)
        asyncio.get_running_loop().add_signal_handler(signal.SIGQUIT, _dump)
        click.echo(_greeting(app, running.id), err=True)
        stopped = await running.run(signals=True)
    if stopped.given_up:
        click.echo(f"{stopped.given_up} handlers did not end; their jobs were given back", err=True)
    return stopped.exit_code


def _greeting(app: App, worker_id: str) -> str:
    names = ", ".join(sorted(app.tasks)) or "no tasks: is the module that defines them imported?"
    return f"worker {worker_id} runs {names}"


def _dump() -> None:
    """Print where every asyncio task of this process is."""
    for task in asyncio.all_tasks():
        task.print_stack(limit=5, file=sys.stderr)
