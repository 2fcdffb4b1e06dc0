"""The command group; one module for each kind of command."""

from __future__ import annotations

import click

from offpath.cli.program import LateCommand, Program

_HELP = """Durable background work on the database you already run.

\b
Try it:             offpath demo
Run a worker:       offpath worker myservice.jobs:app
See what happens:   offpath jobs list --app myservice.jobs:app
Does work move?     offpath status; offpath health; offpath workers
Why does it wait?   offpath jobs show ID; offpath limits list
Something wrong?    offpath doctor; offpath dead list
Events:             offpath outbox list; offpath router status
Money:              offpath ledger balance --prefix ann:; offpath ledger prove

\b
The database: --app or --url, otherwise OFFPATH_URL, the project file, the app
              that OFFPATH_APP names, or DATABASE_URL.
Exit codes:   0 done, 1 failed, 2 wrong usage, 3 no such job or partly failed,
              4 store unreachable.
"""


@click.group(cls=Program, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="offpath", prog_name="offpath")
def cli(*, debug: bool) -> None:  # read from the context
    """Hold the commands together."""


LATER = {
    "audit": LateCommand(
        "audit:audit", "Actions of operators: who changed what, when, and how it went."
    ),
    "backup": LateCommand(
        "admin:backup", "Copy a SQLite store whole, while workers and callers use it."
    ),
    "backends": LateCommand("backends:backends", "List which backend has which feature."),
    "capture": LateCommand(
        "capture:capture",
        "Print triggers of Postgres that append the changes of TABLE to the log.",
    ),
    "completion": LateCommand(
        "completion:completion", "Print what makes a shell complete commands and options."
    ),
    "config": LateCommand("admin:config", "The settings in force."),
    "dead": LateCommand("jobs:dead", "Jobs that will not run again unaided."),
    "demo": LateCommand("demo:demo", "Run a few hundred jobs and show what became of them."),
    "doctor": LateCommand("admin:doctor", "Look for what is wrong, or soon will be."),
    "endpoints": LateCommand(
        "endpoints:endpoints", "Addresses that webhooks are posted to, and their secrets."
    ),
    "enqueue": LateCommand("enqueue:enqueue", "Enqueue a job of TASK, by its name."),
    "groups": LateCommand("groups:groups", "A job and everything that it queued, as one."),
    "health": LateCommand("health:health", "Tell whether work moves."),
    "inbox": LateCommand(
        "messages:inbox", "Messages that were taken in: list, show, redrive, discard."
    ),
    "jobs": LateCommand("jobs:jobs", "List, show, cancel, redrive and signal jobs."),
    "limits": LateCommand("flow:limits", "Limits by key: what runs, what is held, and pauses."),
    "migrate": LateCommand("admin:migrate", "Bring the schema up to date."),
    "outbox": LateCommand(
        "messages:outbox", "Events on their way out: list, show, redrive, replay, discard."
    ),
    "prune": LateCommand(
        "admin:prune",
        "Remove what was kept long enough: jobs, messages, events.",
    ),
    "queues": LateCommand("flow:queues", "Queues: what waits in each, and pauses."),
    "router": LateCommand(
        "router:router", "Routers of the event log: run, status, verify, enable, redrive."
    ),
    "schedules": LateCommand("schedules:schedules", "Jobs that are made by themselves."),
    "settle": LateCommand("settle:settle", "Settlement runs: credit a period, each record once."),
    "status": LateCommand(
        "status:status", "Show what waits, what runs, what stands still and why."
    ),
    "stubs": LateCommand(
        "stubs:stubs", "Print a module by which other services call the tasks of an app."
    ),
    "sweep": LateCommand("sweep:sweep", "Sweeps: bounded passes over due rows."),
    "worker": LateCommand("worker:worker", "Run the jobs of an app until stopped."),
    "workers": LateCommand(
        "workers:workers",
        "Workers: how their loops go, what they run, quiet and stop.",
    ),
}
"""The commands: a module is loaded with its command."""
REGISTERED = {
    "celery": "Move a code base from Celery to offpath.",
    "dashboard": "Look at jobs, queues, workers and schedules in a browser.",
    "economy": "Operations, payouts and subscriptions of an app.",
    "import": "Move jobs and schedules here from another queue.",
    "ledger": "The credits ledger: balances, statements, proofs, checkpoints.",
    "reconcile": "Compare a processor's file with the ledger.",
}
"""Summaries of the commands that parts of this package register: the help loads none of them."""

cli.later.update(LATER)
cli.summaries.update(REGISTERED)
