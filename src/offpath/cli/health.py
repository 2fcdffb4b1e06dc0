"""``offpath health``: does work move? Asks a worker's probe, or the store about the fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import SplitResult

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.apps import store_settings
from offpath.cli.flow import limit_table
from offpath.cli.frame import app_option, plain_command
from offpath.cli.option_values import Duration
from offpath.cli.values import Failed, Part, Shown, Table, Value
from offpath.config import Settings, load_settings
from offpath.errors import StoreUnavailable
from offpath.health.fleet import FleetMember
from offpath.health.probe_client import (
    ProbeUnreachable,
    ask_probe,
    ask_processes,
    probe_here,
    probe_of,
)
from offpath.model import checks
from offpath.model.deaths import Dying
from offpath.model.finding import FindingRecord
from offpath.model.health import Condition
from offpath.operating import views
from offpath.operating.documents.health import describe
from offpath.operating.schema_check import require_schema

HEALTHY, UNHEALTHY, UNREACHABLE = range(3)


@click.command()
@click.option(
    "--url",
    metavar="URL",
    help="A worker's probe (http://127.0.0.1:8080), or the store (postgresql://…).",
)
@app_option("The app whose store is asked.", "of_app")
@click.option(
    "--timeout",
    type=Duration(0, 86_400, above=True),
    default=5.0,
    show_default=True,
    metavar="DURATION",
    help="How long to wait for the answer.",
)
@plain_command
def health(url: str | None, of_app: str | None, timeout: float) -> Value:
    r"""Tell whether work moves.

    Asks the probe of a worker, when its URL is given or a health_port is set; otherwise the store:
    is a worker live whose loops make progress, and has nothing waited for too long? Exit code 0
    healthy, 1 unhealthy, 2 unreachable or wrongly asked.

    \b
    offpath health                                  # HEALTHCHECK CMD ["offpath", "health"]
    offpath health --url http://127.0.0.1:8080
    offpath health --url postgresql://…  --json     # the whole fleet
    """
    timeout = checks.seconds(timeout, "--timeout")
    try:
        place = _place(url, of_app)
        if place is not None:
            return _of_worker(place, timeout, all_of_them=url is None)
        return asyncio.run(_of_fleet(store_settings(url, of_app), timeout))
    except (ProbeUnreachable, StoreUnavailable, TimeoutError) as error:
        text = str(error) or f"no answer within {timeout:g} s"
        code = getattr(error, "code", "timeout")
        return Failed(code, text, UNREACHABLE, word="unreachable")


def _place(url: str | None, of_app: str | None) -> SplitResult | None:
    """The probe that is meant; None when the store is."""
    if of_app is not None:
        return None
    return probe_here(load_settings()) if url is None else probe_of(url)


# -- a worker --------------------------------------------------------------------------------------


def _of_worker(place: SplitResult, timeout: float, *, all_of_them: bool) -> Shown:
    ask = ask_processes if all_of_them else ask_probe
    report = ask(place, load_settings().health_token, timeout)
    parts: list[Part] = [
        _loop_table(report["loops"]),
        _waiting_table(report["waiting"]),
        _settlement_table(report.get("settlements", ())),  # an older worker's probe has none
        *_verdict(report["reasons"], report.get("warnings", ())),
    ]
    return Shown(report, parts, exit=HEALTHY if report["ready"] else UNHEALTHY)


def _loop_table(loops: Iterable[Mapping[str, Any]]) -> Table:
    rows = [
        (
            one["name"],
            one["condition"],
            one["state"],
            _seconds(one["last_success_age"]),
            one["consecutive_failures"],
            one["restarts"],
            one["reason"],
        )
        for one in loops
    ]
    columns = ("loop", "health", "state", "last success", "failures", "restarts", "reason")
    return Table(columns, rows, "no loops run")


def _waiting_table(gauges: Iterable[Mapping[str, Any]]) -> Table:
    waiting = [one for one in gauges if one["age"] is not None]
    rows = [(one["name"], _seconds(one["age"]), _seconds(one["limit"])) for one in waiting]
    return Table(("waiting", "for", "limit"), rows, "nothing waits")


def _dying_table(dying: Iterable[Dying]) -> Table:
    rows = [(one.whose, one.name, one.dead, _share(one.share)) for one in dying]
    return Table(("died of", "name", "in 15 min", "of what ended"), rows)


def _finding_table(found: Iterable[FindingRecord]) -> Table:
    rows = [
        (one.name, output.ago(one.since), "" if one.hinders else one.reason, one.text)
        for one in found
    ]
    return Table(("finding", "since", "accepted", "what"), rows)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _settlement_table(runs: Iterable[Mapping[str, Any]]) -> Table:
    counts = ("attempted", "credited", "failed", "skipped")
    rows = [
        (one["kind"], one["period"], one["verdict"], *(one[name] for name in counts))
        for one in runs
    ]
    return Table(("settlement", "period", "last run", *counts), rows)


def _verdict(reasons: Iterable[str], warnings: Iterable[str]) -> list[str]:
    """The verdict, behind a line of its own: it stands last, where a terminal ends."""
    told = [f"warning: {one}" for one in warnings]
    return ["", *told, *([f"unhealthy: {one}" for one in reasons] or ["healthy"])]


def _seconds(value: float | None) -> str:
    return "-" if value is None else output.short(timedelta(seconds=value))


# -- the fleet -------------------------------------------------------------------------------------


async def _of_fleet(settings: Settings, timeout: float) -> Shown:  # noqa: ASYNC109 - of all of it
    app = App(settings=settings, auto_start=False)
    async with asyncio.timeout(timeout):
        await require_schema(app)
        async with app:
            fleet = await views.fleet_of(app)
    limits = [limit_table(fleet.limits)] if fleet.limits else []
    parts: list[Part] = [
        member_table(fleet.members),
        _waiting_table([msgspec.structs.asdict(one) for one in fleet.gauges]),
        _dying_table(fleet.dying),
        _finding_table(fleet.findings),
        _settlement_table([msgspec.structs.asdict(one) for one in fleet.settlements]),
        *limits,
        *_verdict(fleet.reasons, fleet.warnings),
    ]
    return Shown(describe(fleet), parts, exit=HEALTHY if fleet.healthy else UNHEALTHY)


def member_table(members: Iterable[FleetMember]) -> Table:
    """The workers of a fleet."""
    rows = [
        (
            one.record.info.id,
            f"{one.record.info.host}:{one.record.info.pid}",
            one.presence,
            _health(one),
            f"{one.record.running}/{one.record.info.concurrency}",
            _running(one),
            output.ago(one.record.seen_at),
            ", ".join(one.record.info.queues) or "all",
            ", ".join(one.record.info.tasks),
        )
        for one in members
    ]
    columns = ("id", "process", "state", "loops", "busy", "runs", "seen", "queues", "tasks")
    return Table(columns, rows, "no workers are registered", brief=True, single=True)


def _health(member: FleetMember) -> str:
    if member.presence.ended:  # its last report is of when it ran
        return "-"
    if member.report is None:
        return "unknown"
    if member.ill:
        return member.ill
    loops = member.report.loops
    begin = sum(one.condition is Condition.STARTING for one in loops)
    return f"{len(loops) - begin} well" + (f", {begin} starting" if begin else "")


def _running(member: FleetMember) -> str:
    running = {} if member.report is None else member.report.running
    return ", ".join(f"{count} {task}" for task, count in sorted(running.items()))
