"""The command group; one module for each kind of command."""

from __future__ import annotations

import click

from offpath.cli.admin import backup, doctor, migrate, prune, show_config
from offpath.cli.audit import audit
from offpath.cli.demo import demo
from offpath.cli.endpoints import endpoints
from offpath.cli.enqueue import enqueue
from offpath.cli.flow import limits, queues
from offpath.cli.groups import groups
from offpath.cli.health import health
from offpath.cli.jobs import dead, jobs
from offpath.cli.messages import inbox, outbox
from offpath.cli.program import Program
from offpath.cli.router import router
from offpath.cli.schedules import schedules
from offpath.cli.settle import settle
from offpath.cli.status import status
from offpath.cli.sweep import sweep
from offpath.cli.worker import worker
from offpath.cli.workers import workers

_HELP = """Durable background work on the database you already run.

\b
Try it:             offpath demo
Run a worker:       offpath worker myservice.jobs:app
See what happens:   offpath jobs list --url sqlite:///work.db
Does work move?     offpath status; offpath health; offpath workers
Why does it wait?   offpath jobs show ID; offpath limits list
Something wrong?    offpath doctor; offpath dead list
Events:             offpath outbox list; offpath router status
Money:              offpath ledger balance usr_a:spendable; offpath ledger prove

\b
The database: --url, otherwise OFFPATH_URL, otherwise DATABASE_URL.
Exit codes:   0 done, 1 failed, 2 wrong usage, 3 no such job or partly failed,
              4 store unreachable.
"""


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
    audit,
    status,
):
    cli.add_command(each)
config.add_command(show_config)
