"""``python -m benchmarks jobs --backend sqlite``, and so on; ``--help`` lists what is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType

import click

from benchmarks import economy, events, health, jobs, leases, workflows
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
    }
    cases = benches[name].CASES
    backends = click.Choice(["sqlite", "postgres", "memory"])

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


@_measured("economy")
def economy_command(backend: str, url: str | None, as_json: bool, cases: tuple[str, ...]) -> None:
    """Operations, sweeps, seals and proofs of a credits ledger."""
    _measure("economy", economy, backend, url, as_json, cases)


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
