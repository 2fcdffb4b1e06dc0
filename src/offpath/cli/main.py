"""The command group; one module for each kind of command."""

from __future__ import annotations

import click

from offpath.cli.admin import doctor, migrate, prune, show_config, workers
from offpath.cli.dead import dead
from offpath.cli.demo import demo
from offpath.cli.enqueue import enqueue
from offpath.cli.jobs import jobs
from offpath.cli.worker import worker

_HELP = """Durable background work on the database you already run.

\b
Try it:             offpath demo
Run a worker:       offpath worker myservice.jobs:app
See what happens:   offpath jobs list --url sqlite:///work.db
Something wrong?    offpath doctor; offpath dead list

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 store unreachable.
"""


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="offpath", prog_name="offpath")
def cli() -> None:
    """Hold the commands together."""


@cli.group()
def config() -> None:
    """The settings in force."""


for each in (demo, worker, enqueue, jobs, dead, workers, migrate, doctor, prune):
    cli.add_command(each)
config.add_command(show_config)
