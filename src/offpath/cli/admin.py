"""Looking after a store: workers, schema, checks, old jobs, settings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.apps import store_settings
from offpath.cli.checkup import Finding, Level, examine
from offpath.cli.health import member_document, print_members
from offpath.cli.older_frame import (
    FAILED,
    command,
    json_option,
    limit_option,
    url_option,
    with_app,
)
from offpath.config import Settings, load_settings
from offpath.health.fleet import member
from offpath.store.backends import backup as copy_store
from offpath.store.backends import grant_roles, roles_script
from offpath.store.protocol import Migration

_PRUNE_BATCH = 1_000
_READABLE = 1e6
"""From here on, ``g`` would round."""


@click.command()
@limit_option
@url_option
@json_option
@command
def workers(limit: int, url: str | None, *, as_json: bool) -> int | None:
    r"""List the workers: how their loops go, and what they run.

    A late one has been out of touch for longer than its lease: others take its jobs. One that is
    gone stopped, or was found dead, within the last hour.

    \b
    offpath workers
    """

    async def work(app: App) -> None:
        members = [member(one) for one in (await app.workers())[-limit:]]
        if as_json:
            output.print_json({"items": [member_document(one) for one in members]})
        else:
            print_members(members)

    return with_app(url, work)


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit 1 when steps are pending.")
@click.option("--sql", "as_sql", is_flag=True, help="Print the pending steps to run by hand.")
@click.option("--roles", is_flag=True, help="Also make the roles, and grant what each may do.")
@url_option
@json_option
@command
def migrate(
    url: str | None, *, check: bool, as_sql: bool, roles: bool, as_json: bool
) -> int | None:
    r"""Bring the schema up to date.

    Safe to run from any number of processes at once: each step runs once.

    \b
    offpath migrate --check          # in a deploy: exit 1 when steps are pending
    offpath migrate --sql | psql …   # by hand, by another role
    offpath migrate --roles          # owner, worker, enqueuer, reader and operator of Postgres
    offpath migrate --roles --sql    # print that
    """
    settings = store_settings(url)
    if roles:
        return _migrate_roles(settings, check=check, as_sql=as_sql, as_json=as_json)
    return asyncio.run(_migrate(App(settings=settings), check, as_sql=as_sql, as_json=as_json))


def _migrate_roles(settings: Settings, *, check: bool, as_sql: bool, as_json: bool) -> int:
    if check:
        raise click.UsageError("--check changes nothing, and --roles has nothing to check")
    script = roles_script(settings.url)
    if as_sql:
        _print_script(script, as_json=as_json)
        return 0
    code = asyncio.run(_migrate(App(settings=settings), False, as_sql=False, as_json=as_json))
    asyncio.run(grant_roles(settings.url))
    if not as_json:
        click.echo("the roles are made: grant them to who logs in")
    return code


async def _migrate(app: App, check: bool, *, as_sql: bool, as_json: bool) -> int:
    store = app.store()
    try:
        steps = await store.migrations() if check or as_sql else await store.migrate()
        pending = [one for one in steps if one.applied_at is None]
        if as_sql:
            script = store.migration_script(after=len(steps) - len(pending))
            _print_script(script, as_json=as_json)
            return 0
        _print_steps(steps, as_json=as_json, check=check)
        return FAILED if check and pending else 0
    finally:
        await app.close()


def _print_script(script: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"sql": script})
    else:
        click.echo(script or "-- nothing is pending")


def _print_steps(steps: list[Migration], *, as_json: bool, check: bool) -> None:
    if as_json:
        output.print_json({"items": [msgspec.to_builtins(one) for one in steps]})
        return
    rows = [
        (f"{one.number:04}", one.name, output.when(one.applied_at) if one.applied_at else "pending")
        for one in steps
    ]
    empty = "no steps are known" if check else "the schema is up to date"
    output.print_table(("step", "name", "applied"), rows, empty=empty)


@click.command()
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@url_option
@json_option
@command
def backup(target: Path, url: str | None, *, as_json: bool) -> None:
    r"""Copy a SQLite store whole, while workers and callers use it.

    A copy of the file by other means lacks what is in the log beside it. The copy is readable by
    its owner only, and replaces FILE once it is complete.

    \b
    offpath backup work-monday.db
    offpath backup work-monday.db --url sqlite:///work.db
    """
    size = copy_store(store_settings(url).url, target)
    if as_json:
        output.print_json({"file": str(target.absolute()), "bytes": size})
    else:
        click.echo(f"{target.absolute()}: {size} bytes")


@click.command()
@url_option
@json_option
@command
def doctor(url: str | None, *, as_json: bool) -> int | None:
    r"""Look for what is wrong, or soon will be.

    Schema, clocks, workers, stuck work, impossible rows, the database's settings. Exit code 1
    when there is a problem; warnings alone are 0.

    \b
    offpath doctor --url postgresql://…
    """

    async def work() -> int:
        findings = await examine(App(settings=settings, auto_start=False))
        if as_json:
            output.print_json({"items": [msgspec.to_builtins(one) for one in findings]})
        else:
            _print_findings(findings)
        return FAILED if any(one.level is Level.PROBLEM for one in findings) else 0

    settings = store_settings(url)
    return asyncio.run(work())


def _print_findings(findings: list[Finding]) -> None:
    rows = [(one.level, one.name, one.message) for one in findings]
    output.print_table(("", "check", "finding"), rows, empty="nothing was checked")


@click.command()
@url_option
@json_option
@command
def prune(url: str | None, *, as_json: bool) -> int | None:
    r"""Remove ended jobs and messages that were kept long enough.

    Workers do this by themselves.

    \b
    offpath prune
    """

    async def work(app: App) -> None:
        jobs = messages = 0
        while (batch := await app.store().prune(limit=_PRUNE_BATCH)).total:
            jobs, messages = jobs + batch.jobs, messages + batch.messages
        if as_json:
            output.print_json({"removed": jobs + messages, "jobs": jobs, "messages": messages})
        else:
            click.echo(f"{jobs} jobs and {messages} messages removed")

    return with_app(url, work)


@click.command("show")
@click.option("--url", metavar="URL", help="As other commands take it.")
@json_option
@command
def show_config(url: str | None, *, as_json: bool) -> None:
    r"""Show every setting and where it came from.

    Passwords are hidden. Durations are in seconds.

    \b
    offpath config show
    OFFPATH_URL=sqlite:///work.db offpath config show --json
    """
    settings = load_settings(url=url, database_url=True)
    values, sources = settings.shown(), settings.sources()
    if as_json:
        items = {name: {"value": values[name], "source": sources[name]} for name in values}
        output.print_json(items)
        return
    rows = [(name, _shown(value), sources[name]) for name, value in values.items()]
    output.print_table(("setting", "value", "from"), rows, empty="no settings")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, float):
        return f"{value:g}" if value < _READABLE else f"{value:.0f}"
    return "-" if value is None else str(value)
