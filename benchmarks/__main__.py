"""``python -m benchmarks jobs --backend sqlite``, and so on; ``--help`` lists what is measured."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import ModuleType

import click
import msgspec

from benchmarks import (
    bars,
    economy,
    events,
    features,
    health,
    jobs,
    leases,
    memory,
    neighbours,
    scale,
    workflows,
)
from benchmarks.peers import command
from benchmarks.peers.measure import Sizes
from benchmarks.report import Measurement, heading, machine_speed, print_json, print_table
from benchmarks.stores import fresh_store

DEFAULT_POSTGRES = "postgresql://postgres@127.0.0.1:5432/postgres"


@click.group()
def main() -> None:
    """Measure offpath beside the bare statements of the same database."""


def _measured(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """A command with the options that all have."""
    benches = {
        "jobs": jobs,
        "events": events,
        "health": health,
        "workflows": workflows,
        "economy": economy,
        "leases": leases,
        "features": features,
        "memory": memory,
        "neighbours": neighbours,
        "scale": scale,
    }
    cases = benches[name].CASES
    backends = click.Choice(["sqlite", "postgres", "memory", "redis"])

    def command(function: Callable[..., None]) -> click.Command:
        function = click.option("--case", "cases", multiple=True, type=click.Choice(list(cases)))(
            function
        )
        function = click.option(
            "--json", "as_json", is_flag=True, help="One object a line instead of a table."
        )(function)
        function = click.option(
            "--url", help="A Postgres server; each case gets a fresh database on it."
        )(function)
        function = click.option("--backend", type=backends, default="sqlite")(function)
        return main.command(name)(function)

    return command


@_measured("jobs")
def jobs_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """Enqueue, process, latency and idle cost of jobs."""
    _measure("jobs", jobs, backend, url, as_json, cases)


@_measured("events")
def events_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """Publishing, relaying, the inbox and the router."""
    _measure("events", events, backend, url, as_json, cases)


@_measured("health")
def health_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """The cost of supervision, as a share of a busy worker's CPU."""
    _measure("health", health, backend, url, as_json, cases)


@_measured("workflows")
def workflows_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """Plans, gates, limits and orders beside plain jobs."""
    _measure("workflows", workflows, backend, url, as_json, cases)


@_measured("leases")
def leases_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """Leases beside rows that they may not take."""
    _measure("leases", leases, backend, url, as_json, cases)


@_measured("features")
def features_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """The CPU and the bytes that each feature adds to a plain job."""
    _measure("features", features, backend, url, as_json, cases)


@_measured("memory")
def memory_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """The memory of a long-lived worker, of running jobs and of waiting handles."""
    _measure("memory", memory, backend, url, as_json, cases)


@_measured("neighbours")
def neighbours_command(
    backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]
) -> None:
    """Ordinary jobs while wrong rows lie in every table."""
    _measure("neighbours", neighbours, backend, url, as_json, cases)


@_measured("scale")
def scale_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """One backlog for one, two, four and eight worker processes."""
    _measure("scale", scale, backend, url, as_json, cases)


@_measured("economy")
def economy_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """Operations, sweeps, seals and proofs of a credits ledger."""
    _measure("economy", economy, backend, url, as_json, cases)


@main.command("dashboard")
@click.option("--url", help="A Postgres server; the run gets a fresh database on it.")
@click.option("--ended", default=5_000_000, show_default=True, help="Ended jobs.")
@click.option("--queued", default=1_000_000, show_default=True, help="Queued jobs.")
@click.option("--dead", default=100_000, show_default=True, help="Dead jobs.")
@click.option("--messages", default=1_000_000, show_default=True, help="Messages.")
@click.option("--members", default=5_000, show_default=True, help="Members of one group.")
@click.option("--viewers", default=20, show_default=True, help="Viewers at once.")
@click.option("--rounds", default=20, show_default=True, help="Requests of each viewer a page.")
@click.option("--jobs", default=20_000, show_default=True, help="Jobs of the worker beside.")
@click.option("--json", "as_json", is_flag=True, help="One object instead of a table.")
def dashboard_command(
    url: str | None, viewers: int, rounds: int, jobs: int, *, as_json: bool, **sizes: int
) -> None:
    """Every page of the dashboard over a large Postgres, and a worker beside its viewers."""
    from benchmarks import dashboard, dashboard_rows

    with fresh_store("postgres", url or DEFAULT_POSTGRES) as place:
        told = asyncio.run(
            dashboard.run(place, dashboard_rows.Sizes(**sizes), viewers, rounds, jobs)
        )
    if as_json:
        click.echo(msgspec.json.encode(told))
    else:
        dashboard.show(told)
    sys.exit(0 if told["ok"] else 1)


@main.command("bars")
@click.option("--url", default=DEFAULT_POSTGRES, show_default=True, help="A Postgres server.")
@click.option("--runs", default=1, show_default=True, help="Runs of all, in turns; medians.")
@click.option("--bench", "benches", multiple=True, help="Of these alone.")
@click.option("--backend", "backends", multiple=True, help="On these alone.")
@click.option("--case", "cases", multiple=True, help="These cases alone.")
@click.option("--peers", is_flag=True, help="Other libraries too; needs the package registries.")
@click.option("--long", is_flag=True, help="In place of them those that take half an hour.")
@click.option("--json", "as_json", is_flag=True, help="One object a line instead of a table.")
def bars_command(
    url: str,
    runs: int,
    benches: tuple[str, ...],
    backends: tuple[str, ...],
    cases: tuple[str, ...],
    *,
    peers: bool,
    long: bool,
    as_json: bool,
) -> None:
    """Every figure that has a bar: the bar, what was measured, met or missed."""
    wanted = bars.chosen(benches, backends, cases, peers=peers, long=long)
    title = bars.heading(runs)
    rows = bars.measure(wanted, url, runs)
    if as_json:
        for row in rows:
            click.echo(msgspec.json.encode(row))
    else:
        bars.show(wanted, rows, title)
    sys.exit(0 if all(row.runs for row in rows) else 1)


@main.command("peers")
@click.option("--peers", "names", default="pgqueuer,procrastinate", show_default=True)
@click.option("--url", default=DEFAULT_POSTGRES, show_default=True, help="A Postgres server.")
@click.option("--jobs", default=Sizes().jobs, show_default=True, help="Jobs of a backlog.")
@click.option("--singles", default=Sizes().singles, show_default=True, help="Enqueues one by one.")
@click.option("--probes", default=Sizes().probes, show_default=True, help="Probes of the pick-up.")
@click.option("--rate", default=Sizes().rate, show_default=True, help="Probes a second.")
@click.option("--slots", default=Sizes().slots, show_default=True, help="Slots of a worker.")
@click.option("--runs", default=Sizes().runs, show_default=True, help="Runs of each, in turns.")
@click.option("--write", help="The page to write, as docs/performance.md.")
@click.option("--keep", help="A folder that keeps the environments for the next run.")
def peers_command(names: str, url: str, write: str | None, keep: str | None, **sizes: int) -> None:
    """Other libraries in throw-away environments beside this one, in one run."""
    command.run(command.named(names), url, Sizes(**sizes), write, keep=keep)


def _measure(
    title: str,
    bench: ModuleType,
    backend: str,
    url: str | None,
    as_json: bool,
    cases: tuple[str, ...],
) -> None:
    server = url or DEFAULT_POSTGRES
    speed = machine_speed()
    line = heading(title, backend, bench.settings(), speed)
    with fresh_store(backend, server) as store:
        rates = bench.raw_rates(backend, store)
    measured: list[Measurement] = []
    for name in cases or bench.CASES:
        with fresh_store(backend, server) as store:
            one = asyncio.run(bench.CASES[name](backend, store))
            one.speed = speed
            measured.append(one.beside(rates))
        if as_json:
            print_json(measured[-1])
    if not as_json:
        print_table(measured, line)


if __name__ == "__main__":
    main()
