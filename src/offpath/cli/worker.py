"""``offpath worker``: run jobs, in one process or several."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.apps import load_shared_app, target_of
from offpath.cli.frame import app_option, framed, option_group, options
from offpath.cli.logs import configure
from offpath.cli.option_values import Duration, given_only, read_by
from offpath.cli.program import GIVEN
from offpath.cli.reload import Reloader
from offpath.cli.worker_ends import EndsWatch, WorkerEnds, ends_option
from offpath.config import Settings
from offpath.errors import StoreUnavailable
from offpath.health.probe import Probe, require_token
from offpath.health.supervisor import Sibling
from offpath.health.systemd import notifier, signs_of
from offpath.jobs.client.core import core_of
from offpath.jobs.worker.os_signals import StopSignals
from offpath.jobs.worker.terms import Stopped
from offpath.jobs.worker.worker import Worker
from offpath.model.served import by_order, by_queue
from offpath.runtime.notify import Notifier, telling
from offpath.runtime.parent import Parent
from offpath.runtime.process import interpreter_options
from offpath.store.backends import place_of

_FIRST_TRY = 0.5
_LONGEST_WAIT = 5.0
"""Seconds between two tries to open a store that is away at the start: doubled each time."""

_log = logging.getLogger("offpath.cli")


class _Kin(NamedTuple):
    """The processes that this one belongs to."""

    parent_pipe: int | None
    """WorkerEnds when the parent does."""
    place: Sibling


def _kin(parent_pipe: int | None, sibling: tuple[int, int]) -> _Kin:
    number, count = sibling
    return _Kin(parent_pipe, Sibling(number=number, count=count))


_overrides = option_group(
    "overrides",
    given_only,
    click.option(
        "--queues",
        callback=read_by(lambda text, _option: by_queue(text) if text else None),
        help="The only queues to serve, as mail:5,default; a number is the most at once.",
    ),
    click.option(
        "--dispatch",
        callback=read_by(lambda text, _option: by_order(text) if text else None),
        metavar="ORDER",
        help="The order of a queue's jobs: priority, age, balanced; or mail:balanced,*:age.",
    ),
    click.option(
        "--concurrency", type=click.IntRange(min=1), help="The most jobs at once in each process."
    ),
    click.option(
        "--drain-timeout",
        type=Duration(),
        metavar="DURATION",
        help="How long running jobs may take to end when it stops.",
    ),
)
_health = option_group(
    "health",
    given_only,
    click.option(
        "--health-port",
        type=click.IntRange(0, 65_535),
        help="The port of its health probe; 0 takes a free one.",
    ),
    click.option(
        "--health-host",
        metavar="ADDRESS",
        help="The address that the probe listens at.  [default: 127.0.0.1]",
    ),
)
_logs = options(
    click.option(
        "--log-level",
        default="info",
        show_default=True,
        help="The least level that is logged: debug, info, warning, error.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="The form of log lines.",
    ),
)
_family = option_group(
    "kin",
    _kin,
    click.option("--parent-pipe", type=int, hidden=True),
    click.option("--sibling", type=(int, int), default=(0, 1), hidden=True),
)


@click.command()
@click.argument("target", metavar="[MODULE:APP]", required=False)
@app_option("The same as an option.", "named")
@_overrides
@click.option("--processes", type=click.IntRange(1, 256), help="The number of worker processes.")
@click.option(
    "--reload", is_flag=True, help="Begin anew when a file below this folder has changed."
)
@click.option("--url", metavar="URL", help="The store, for an app that names none itself.")
@_health
@ends_option
@_logs
@_family
@framed(json=False)
def worker(
    target: str | None,
    named: str | None,
    overrides: dict[str, Any],
    processes: int | None,
    reload: bool,
    url: str | None,
    health: dict[str, Any],
    ends: WorkerEnds,
    kin: _Kin,
    log_level: str,
    log_format: str,
) -> int:
    r"""Run the jobs of an app until stopped.

    SIGTERM or Ctrl-C drains: no new jobs, running ones may end. A second one aborts: their jobs
    are given back without losing an attempt. SIGQUIT prints what runs. Exit code 0 after a clean
    stop, 1 when the end of a job could not be recorded, or a loop died that was not to be started
    again. With --health-port it serves /livez, /readyz and /metrics; each of several processes on
    the next port. With --until-idle, --max-jobs or --max-seconds it ends by itself, with 3 when
    jobs died or, until idle, work is left. With --reload, which is for development, jobs that run
    when a file is saved have 3 s to end, and are then given back. The app may be a factory, as
    module:create(), or Django's settings, as shop.settings; it may also be given as --app,
    otherwise the setting `app` (OFFPATH_APP) names it.

    \b
    offpath worker myservice.jobs:app
    offpath worker jobs:app --queues mail,default --concurrency 20 --processes 4
    offpath worker jobs:app --queues emails:5,reports --dispatch emails:balanced,*:age
    offpath worker jobs:app --until-idle --max-seconds 600
    offpath worker jobs:app --reload
    """
    configure(log_level, log_format)
    if reload:
        return _reloader(processes, ends).run()
    app = load_shared_app(target_of(target, named), url)
    settings = _with_health(app.settings, health)
    count = settings.processes if processes is None else processes
    if count > 1 and ends.any:
        raise click.UsageError("a worker that ends by itself is one process: leave --processes out")
    manager = notifier(count, child=kin.parent_pipe is not None)
    if count > 1:
        return _parent(settings, count, overrides.get("drain_timeout")).run()
    return asyncio.run(_serve(app, settings, overrides, kin, manager, ends))


def _with_health(settings: Settings, health: dict[str, Any]) -> Settings:
    """The settings with what the command line says. Raises ``ConfigurationError``."""
    settings = msgspec.structs.replace(settings, **health)
    if settings.health_port is not None:
        require_token(settings)
    return settings


def _parent(settings: Settings, count: int, drain_timeout: float | None) -> Parent:
    patience = settings.drain_timeout if drain_timeout is None else drain_timeout
    commands = [_child_command(settings, number, count) for number in range(count)]
    return Parent(commands, drain_timeout=patience)


def _reloader(processes: int | None, ends: WorkerEnds) -> Reloader:
    """The keeper of this command's worker. It imports nothing of the project's, so that a fault in
    a file stops the worker and not the keeper.
    """
    if (processes or 1) > 1 or ends.any:
        raise click.UsageError(
            "--reload is for one worker that goes on: leave --processes and what ends it out"
        )
    given = [one for one in click.get_current_context().meta[GIVEN] if one != "--reload"]
    own = [sys.executable, *interpreter_options(sys.orig_argv), "-m", "offpath", *given]
    return Reloader(own, Path.cwd())


def _child_command(settings: Settings, number: int, count: int) -> list[str]:
    """This command again, for one process; each has a health port of its own, one after another.

    What was given is the command's own: ``sys.argv`` is that of whatever program called it.
    """
    given = click.get_current_context().meta[GIVEN]
    options = interpreter_options(sys.orig_argv)
    own = [sys.executable, *options, "-m", "offpath", *given, "--processes", "1"]
    port = settings.health_port
    if not port:
        return own
    return [*own, "--health-port", str(port + number), "--sibling", str(number), str(count)]


async def _serve(
    app: App,
    settings: Settings,
    overrides: dict[str, Any],
    kin: _Kin,
    manager: Notifier | None,
    ends: WorkerEnds,
) -> int:
    parent_pipe = kin.parent_pipe
    await open_patiently(app, settings.start_timeout)
    async with app:
        running = app.worker(**overrides)
        async with _probe(app, running, settings, kin.place) as probe:
            watch = EndsWatch(app, running, ends, overrides.get("queues") or settings.queues)
            # before it is known as a worker: who sees it there may already tell it to stop
            told = StopSignals(running)
            with told.caught():
                if not await told.start():
                    _log.info("stopped before it began")
                    return 0
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGQUIT, _dump, running)
                if parent_pipe is not None:
                    loop.add_reader(parent_pipe, _orphaned, loop, parent_pipe)
                _log.info(_greeting(app, running.id, probe))
                async with telling(manager, lambda: signs_of(running), app.clock):
                    stopped = await _until(running, watch if ends.any else None)
    if stopped.dead_loops:
        _log.error("stopped because of dead loops: %s", ", ".join(stopped.dead_loops))
    if stopped.unrecorded:
        _log.error("%d ends are not recorded; those jobs are rescued", stopped.unrecorded)
    if stopped.given_up:
        _log.warning("%d handlers did not end; their jobs were given back", stopped.given_up)
        _leave(watch.exit_code(stopped) if ends.any else stopped.exit_code)
    _log.info("stopped")
    return watch.exit_code(stopped) if ends.any else stopped.exit_code


async def _until(running: Worker, watch: EndsWatch | None) -> Stopped:
    """Run it until it is stopped, by a signal or by what was watched for."""
    if watch is None:
        return await running.run()
    watching = asyncio.create_task(watch.run(), name="offpath worker ends")
    try:
        return await running.run()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def open_patiently(app: App, patience: float | None) -> None:
    """Open the app; a store that is away, or full, is waited for, and that is said.

    Raises ``StoreUnavailable`` when it is still away after ``patience`` seconds.
    """
    began, wait, told = app.clock.monotonic(), _FIRST_TRY, False
    while True:
        try:
            await app.open()
        except StoreUnavailable as error:
            waited = app.clock.monotonic() - began
            if patience is not None and waited + wait > patience:
                raise
            if not told:
                limit = "for ever" if patience is None else f"for {patience:g} s (start_timeout)"
                _log.warning("the worker waits for its store %s: %s", limit, error)
                told = True
        else:
            if told:
                _log.warning("the store is there, after %.1f s", app.clock.monotonic() - began)
            return
        await app.clock.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)


@asynccontextmanager
async def _probe(
    app: App, running: Worker, settings: Settings, sibling: Sibling
) -> AsyncIterator[Probe | None]:
    """The worker's probe, if it is to have one: from before it starts until it has stopped."""
    if settings.health_port is None:
        yield None
        return
    async with Probe(running.report, settings, app.clock, app.metrics, sibling=sibling) as probe:
        yield probe


def _orphaned(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    """The process that started this one is gone: nobody would stop it any more."""
    loop.remove_reader(pipe)
    _log.warning("the parent process is gone: draining")
    signal.raise_signal(signal.SIGTERM)


def _leave(code: int) -> NoReturn:
    """End the process although handlers go on: an ordinary exit would wait for them for ever."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _greeting(app: App, worker_id: str, probe: Probe | None) -> str:
    names = ", ".join(sorted(app.tasks)) or _without_tasks(app)
    health = "" if probe is None else f"; health at {probe.url}"
    file = app.settings.project_file
    settings = "" if file is None else f"; settings from {file}"
    return f"worker {worker_id} runs {names} on {place_of(app.settings.url)}{health}{settings}"


def _without_tasks(app: App) -> str:
    if core_of(app).economies:
        return "no tasks, and the sweeps of its economy"
    return "no tasks: is the module that defines them imported?"


def _dump(running: Worker) -> None:
    """Print the jobs in hand, and where every asyncio task and thread of this process is."""
    for job in running.active():
        line = f"{job.id} {job.task} attempt {job.attempt} {job.stage}"
        click.echo(output.clean(line), err=True)
    for task in asyncio.all_tasks():
        task.print_stack(limit=5, file=sys.stderr)
    faulthandler.dump_traceback(sys.stderr, all_threads=True)
