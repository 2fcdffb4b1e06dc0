"""``offpath status``: the dashboard's overview in a terminal, once or again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import click

from offpath.app import App
from offpath.cli import output
from offpath.cli.frame import store_command, wants_json
from offpath.cli.option_values import Duration
from offpath.cli.values import Fields, Part, Shown, Table
from offpath.health.fleet import MOST_COUNTED
from offpath.operating import overview
from offpath.operating.documents.faults import FaultDocument, FaultsDocument
from offpath.operating.overview import Overview
from offpath.operating.queue_service import QueueStanding

_MOST = 10
"""Rows of each table: what hinders comes first."""
_SHORTEST = 0.5


@click.command()
@click.option(
    "--watch",
    type=Duration(_SHORTEST, 3_600),
    metavar="DURATION",
    help="Show it again after so long, until it is interrupted.",
)
@store_command
async def status(app: App, *, watch: float | None) -> Shown:
    r"""Show what waits, what runs, what stands still and why.

    The overview of the dashboard: the verdict of offpath health, queues by what is due, who serves
    them, faults of dead jobs, and the next schedules.

    \b
    offpath status
    offpath status --watch 2
    """
    while True:
        seen = await overview.read(app)
        shown = Shown(seen, _parts(seen))
        if watch is None:
            return shown
        if not wants_json():
            click.clear()
        output.show(shown, as_json=wants_json())
        await rest(watch)


async def rest(seconds: float) -> None:
    """The pause between two looks."""
    await asyncio.sleep(seconds)


def _parts(seen: Overview) -> list[Part]:
    return [
        *_verdict(seen),
        "",
        Fields(_figures(seen)),
        "",
        _queues(seen),
        *_more(len(seen.queues), "queues: offpath queues list"),
        *_faults(seen.faults),
        *_coming(seen),
        *_absent(seen),
    ]


def _verdict(seen: Overview) -> list[Part]:
    """The verdict of ``offpath health``, in its words."""
    said = [f"unhealthy: {one}" for one in seen.reasons] or ["healthy"]
    return [*said, *(f"warning: {one}" for one in seen.warnings)]


def _figures(seen: Overview) -> dict[str, str]:
    missing = f", {seen.missing_workers:,} late or gone" if seen.missing_workers else ""
    oldest = f", the oldest {output.ago(seen.oldest_due_at)}" if seen.oldest_due_at else ""
    return {
        "due": f"{_counted(seen.due)}{oldest}",
        "running": f"{seen.running:,} of {seen.slots:,} slots",
        "scheduled": _counted(seen.scheduled),
        "blocked": _counted(seen.blocked),
        "dead": f"{seen.faults.looked_at:,}{'+' if seen.faults.more else ''}",
        "workers": f"{seen.live_workers:,} live{missing}",
    }


def _counted(jobs: int) -> str:
    """A number of jobs; of more than are counted in a queue it is told that there may be more."""
    return f"{jobs:,}{'+' if jobs >= MOST_COUNTED else ''}"


def _cell(jobs: int) -> str | int:
    return jobs if jobs < MOST_COUNTED else _counted(jobs)


def _queues(seen: Overview) -> Table:
    columns = ("queue", "state", "due", "oldest", "later", "held", "runs", "workers")
    rows = [_queue(one) for one in seen.queues[:_MOST]]
    return Table(columns, rows, "no queue has jobs or is paused")


def _queue(one: QueueStanding) -> tuple[str | int, ...]:
    served = f"{one.served_by} !" if one.problems else one.served_by
    return (
        one.name,
        one.state,
        _cell(one.ready),
        output.ago(one.oldest_due_at) or "-",
        _cell(one.scheduled),
        _cell(one.blocked),
        one.running,
        served,
    )


def _faults(faults: FaultsDocument) -> Iterable[Part]:
    if not faults.items:
        return ()
    rows = [
        (one.task, _fault(one), one.jobs, output.ago(one.last_at)) for one in faults.items[:_MOST]
    ]
    table = Table(("dead of", "fault", "jobs", "last"), rows)
    return ("", table, *_more(len(faults.items), "faults: offpath dead list"))


def _fault(one: FaultDocument) -> str:
    """The fault, as its page is headed; the reason, where no attempt brought the death about."""
    return f"{one.type}: {one.text}" if one.type and one.text else str(one.type or one.reason)


def _coming(seen: Overview) -> Iterable[Part]:
    if not seen.schedules:
        return ()
    rows = [(one.name, one.task, output.ago(one.next_at)) for one in seen.schedules]
    return ("", Table(("schedule", "task", "next"), rows))


def _absent(seen: Overview) -> Iterable[Part]:
    return () if seen.stats.kept else ("", "this store keeps no charts, audit or requests")


def _more(there: int, where: str) -> Iterable[Part]:
    return (f"{there - _MOST} more {where}",) if there > _MOST else ()
