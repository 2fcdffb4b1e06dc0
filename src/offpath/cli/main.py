"""The command group; one module for each kind of command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from offpath.cli.admin import backup, doctor, migrate, prune, show_config, workers
from offpath.cli.dead import dead
from offpath.cli.demo import demo
from offpath.cli.economy import economy
from offpath.cli.endpoints import endpoints
from offpath.cli.enqueue import enqueue
from offpath.cli.flow import limits, queues
from offpath.cli.groups import groups
from offpath.cli.health import health
from offpath.cli.inbox import inbox
from offpath.cli.jobs import jobs
from offpath.cli.ledger import ledger
from offpath.cli.outbox import outbox
from offpath.cli.output import clean, print_json
from offpath.cli.reconcile import reconcile
from offpath.cli.router import router
from offpath.cli.schedules import schedules
from offpath.cli.settle import settle
from offpath.cli.sweep import sweep
from offpath.cli.worker import worker

_HELP = """Durable background work on the database you already run.

\b
Try it:             offpath demo
Run a worker:       offpath worker myservice.jobs:app
See what happens:   offpath jobs list --url sqlite:///work.db
Does work move?     offpath health; offpath workers
Why does it wait?   offpath jobs show ID; offpath limits list
Something wrong?    offpath doctor; offpath dead list
Events:             offpath outbox list; offpath router status
Money:              offpath ledger balance usr_a:spendable; offpath ledger prove

\b
The database: --url, else OFFPATH_URL, else DATABASE_URL.
Exit codes:   0 done, 1 failed, 2 wrong usage, 3 no such job or partly failed,
              4 store unreachable.
"""


class Program(click.Group):
    """A group whose usage errors are JSON where JSON was asked for, and harmless to a terminal."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "offpath",
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> Any:  # noqa: ANN401 - click's own
        """Run and exit; see :meth:`click.Command.main`."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode, **extra)
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            _tell(error, as_json="--json" in given)
            code = error.exit_code
        except click.Abort:
            click.echo("Aborted!", err=True)
            code = 1
        sys.exit(code or 0)


def _tell(error: click.ClickException, *, as_json: bool) -> None:
    """Say what was wrong. Click's own text repeats what was given as it is."""
    message = error.format_message()
    if as_json:
        print_json({"ok": False, "error": {"code": "usage", "message": message}})
        return
    context = getattr(error, "ctx", None)
    if context is not None:
        click.echo(f"{clean(context.get_usage())}\n", err=True)
    click.echo(f"Error: {clean(message)}", err=True)


@click.group(cls=Program, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="offpath", prog_name="offpath")
def cli(*, debug: bool) -> None:  # read from the context
    """Hold the commands together."""


@cli.group()
def config() -> None:
    """The settings in force."""


for each in (
    demo,
    worker,
    enqueue,
    jobs,
    groups,
    dead,
    outbox,
    inbox,
    endpoints,
    router,
    workers,
    health,
    migrate,
    backup,
    doctor,
    prune,
    queues,
    limits,
    schedules,
    settle,
    sweep,
    ledger,
    economy,
    reconcile,
):
    cli.add_command(each)
config.add_command(show_config)
