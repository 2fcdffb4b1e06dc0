"""``offpath workers``: list them, and ask one to be quiet, to resume, to stop or to dump."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from offpath.app import App
from offpath.cli.action_log import actor
from offpath.cli.frame import limit_option, store_command
from offpath.cli.health import member_table
from offpath.cli.option_values import Duration
from offpath.cli.values import Listing, Quote, Said, Shown
from offpath.errors import NotFound, WaitTimeout
from offpath.health.fleet import member
from offpath.model.action import ActionRecord
from offpath.model.lease import WorkerAnswer, WorkerRequest
from offpath.operating import actions
from offpath.operating.actions import Asker
from offpath.operating.documents.workers import describe
from offpath.operating.orders import ActionAsked

_LOOK: Final = 0.2
"""Seconds between two looks for an answer."""


class _Listing(click.Group):
    """A group whose name alone lists, as it did before it had other commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; options alone are those of ``list``."""
        helps = args and args[0] in ctx.help_option_names
        if not args or (args[0].startswith("-") and not helps):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Listing)
def workers() -> None:
    """Workers: how their loops go, what they run, quiet and stop."""


@workers.command("list")
@limit_option
@store_command
async def list_workers(app: App, *, limit: int) -> Listing:
    r"""List the workers: how their loops go, and what they run.

    A late one has been out of touch for longer than its lease: others take its jobs. One that has
    stopped left by itself within the last hour, one that is gone was found dead.

    \b
    offpath workers list
    """
    members = [member(one) for one in (await app.workers())[-limit:]]
    return Listing([describe(one) for one in members], member_table(members))


@workers.command("quiet")
@click.argument("worker_id")
@store_command
async def quiet_worker(app: App, *, worker_id: str) -> Said:
    r"""Ask a worker to take no more jobs. Those that it runs go on.

    \b
    offpath workers quiet 0198c0de
    """
    return await _asked(app, worker_id, WorkerRequest.QUIET)


@workers.command("resume")
@click.argument("worker_id")
@store_command
async def resume_worker(app: App, *, worker_id: str) -> Said:
    r"""Ask a quiet worker to take jobs again.

    \b
    offpath workers resume 0198c0de
    """
    return await _asked(app, worker_id, WorkerRequest.RESUME)


@workers.command("stop")
@click.argument("worker_id")
@store_command
async def stop_worker(app: App, *, worker_id: str) -> Said:
    r"""Ask a worker to stop, as SIGTERM does.

    Its jobs may end within its drain timeout.

    \b
    offpath workers stop 0198c0de
    """
    return await _asked(app, worker_id, WorkerRequest.STOP)


@workers.command("dump")
@click.argument("worker_id")
@click.option(
    "--timeout",
    type=Duration(0, 3_600),
    default=30.0,
    show_default=True,
    metavar="DURATION",
    help="The longest time to wait for the dump.",
)
@store_command
async def dump_worker(app: App, *, worker_id: str, timeout: float) -> Shown:  # noqa: ASYNC109 - the user's limit
    r"""Show where the tasks and threads of a worker are.

    The jobs in its hand are shown, too.

    \b
    offpath workers dump 0198c0de
    """
    record = await _ask(app, worker_id, WorkerRequest.DUMP)
    answer = await _answer(app, worker_id=_worker(record.target), ask=record.id, patience=timeout)
    return Shown(answer, [Quote("dump", answer.text)])


async def _asked(app: App, worker_id: str, request: WorkerRequest) -> Said:
    record = await _ask(app, worker_id, request)
    worker = _worker(record.target)
    document = {"ok": True, "id": worker, "request": request.value, "action": record.id}
    return Said(document, f"{worker} was asked to {request.value}: it hears of it within seconds")


async def _ask(app: App, worker_id: str, request: WorkerRequest) -> ActionRecord:
    """The action by which it was asked. Raises ``NotFound`` where nobody could be."""
    asked = ActionAsked(verb=f"worker.{request.value}", target={"id": worker_id})
    record = await actions.ask(app, asked, Asker(name=actor(), via="cli"))
    done = await actions.carry_out(app, record)
    if not done.changed:
        raise NotFound(f"there is no live worker {worker_id}, or it answers nobody")
    return done


def _worker(target: str) -> str:
    named: str = msgspec.json.decode(target)["id"]
    return named


async def _answer(app: App, *, worker_id: str, ask: str, patience: float) -> WorkerAnswer:
    until = app.clock.monotonic() + patience
    while True:
        desk = await app.store().worker_desk(worker_id)
        if desk is not None and desk.answer is not None and desk.answer.id == ask:
            return desk.answer
        if app.clock.monotonic() >= until:
            raise WaitTimeout(
                f"the worker {worker_id} has not answered within {patience:g} s: is it live? It "
                "hears of requests with its heartbeat"
            )
        await app.clock.sleep(_LOOK)
