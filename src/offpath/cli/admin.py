"""Looking after a store: schema, checks, old jobs, settings."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.apps import named_settings, store_settings
from offpath.cli.frame import options, place_options, plain_command, store_command
from offpath.cli.values import DONE, FAILED, Listing, Part, Said, Shown, Table, Value
from offpath.config import Settings
from offpath.operating.checkup import examine, ill
from offpath.store.backends import backup as copy_store
from offpath.store.backends import grant_roles, roles_script
from offpath.store.protocol import Finding, Level, Migration
from offpath.sweeps.prune import Prune

_READABLE = 1e6
"""The number from which on ``g`` would round."""


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit 1 when steps are pending.")
@click.option("--sql", "as_sql", is_flag=True, help="Print the pending steps to run by hand.")
@click.option("--roles", is_flag=True, help="Also make the roles, and grant what each may do.")
@options(*place_options)
@plain_command
def migrate(
    of_app: str | None, url: str | None, *, check: bool, as_sql: bool, roles: bool
) -> Value:
    r"""Bring the schema up to date.

    Safe to run from any number of processes at once: each step runs once.

    \b
    offpath migrate --check          # in a deploy: exit 1 when steps are pending
    offpath migrate --app shop:app   # the database that the app names
    offpath migrate --sql | psql …   # by hand, by another role
    offpath migrate --roles          # owner, worker, enqueuer, reader, operator, scaler
    offpath migrate --roles --sql    # print that
    """
    if check and as_sql:
        raise click.UsageError("--check tells by its exit code, --sql prints: give one of them")
    settings = store_settings(url, of_app)
    if roles:
        return _migrate_roles(settings, check=check, as_sql=as_sql)
    return asyncio.run(_migrate(App(settings=settings), check=check, as_sql=as_sql))


def _migrate_roles(settings: Settings, *, check: bool, as_sql: bool) -> Value:
    if check:
        raise click.UsageError("--check changes nothing, and --roles has nothing to check")
    script = roles_script(settings.url)
    if as_sql:
        return _script(script)
    steps = asyncio.run(_migrate(App(settings=settings), check=False, as_sql=False))
    asyncio.run(grant_roles(settings.url))
    parts = [*steps.parts, "the roles are made: grant them to the roles that log in"]
    return Shown(steps.document, parts)


async def _migrate(app: App, *, check: bool, as_sql: bool) -> Value:
    store = app.store()
    try:
        steps = await store.migrations() if check or as_sql else await store.migrate()
        pending = [one for one in steps if one.applied_at is None]
        if as_sql:
            return _script(store.migration_script(after=len(steps) - len(pending)))
        return _steps(steps, check=check, exit_code=FAILED if check and pending else DONE)
    finally:
        await app.close()


def _script(script: str) -> Shown:
    return Shown({"sql": script}, script.splitlines() or ["-- nothing is pending"])


def _steps(steps: list[Migration], *, check: bool, exit_code: int) -> Listing:
    rows = [
        (f"{one.number:04}", one.name, output.when(one.applied_at) if one.applied_at else "pending")
        for one in steps
    ]
    empty = "no steps are known" if check else "the schema is up to date"
    table = Table(("step", "name", "applied"), rows, empty)
    return Listing([msgspec.to_builtins(one) for one in steps], table, exit=exit_code)


@click.command()
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@options(*place_options)
@plain_command
def backup(target: Path, of_app: str | None, url: str | None) -> Said:
    r"""Copy a SQLite store whole, while workers and callers use it.

    A copy of the file by other means lacks what is in the log beside it. The copy is readable by
    its owner only, and replaces FILE once it is complete.

    \b
    offpath backup work-monday.db
    offpath backup work-monday.db --url sqlite:///work.db
    """
    size = copy_store(store_settings(url, of_app).url, target)
    file = str(target.absolute())
    return Said({"file": file, "bytes": size}, f"{file}: {size} bytes")


@click.command()
@options(*place_options)
@plain_command
def doctor(of_app: str | None, url: str | None) -> Shown:
    r"""Look for what is wrong, or soon will be.

    Schema, clocks, workers, stuck work, impossible rows, the database's settings. Exit code 1
    when there is a problem; warnings alone are 0.

    \b
    offpath doctor --url postgresql://…
    """
    app = App(settings=store_settings(url, of_app), auto_start=False)
    findings = asyncio.run(examine(app))
    rows = [(one.level, one.name, one.message) for one in findings]
    table = Table(("", "check", "finding"), rows, "nothing was checked")
    items = [msgspec.to_builtins(one) for one in findings]
    parts: list[Part] = [table, "", _summary(findings)]
    return Shown({"items": items}, parts, exit=FAILED if ill(findings) else DONE)


def _summary(findings: Sequence[Finding]) -> str:
    """The verdict of the checks: it stands last, where a terminal ends."""
    counted = Counter(one.level for one in findings)
    told = [
        f"{number} {level.value}{'s' if number > 1 else ''}"
        for level in (Level.PROBLEM, Level.WARNING)
        if (number := counted[level])
    ]
    return " and ".join(told) or f"fine: all {len(findings)} checks"


@click.command()
@store_command
async def prune(app: App) -> Said:
    r"""Remove what was kept long enough: jobs, messages, events.

    Of jobs and messages those that ended; actions of operators go with them. Workers do this by
    themselves.

    \b
    offpath prune
    """
    settings = app.settings
    several = Prune(app.store, keep_log=settings.keep_log, keep_actions=settings.keep_actions)
    removed = await several.all()
    said = "{jobs} jobs, {messages} messages, {events} events and {actions} actions removed"
    return Said({"removed": sum(removed.values()), **removed}, said.format_map(removed))


@click.group()
def config() -> None:
    """The settings in force."""


@config.command("show")
@options(*place_options)
@plain_command
def show_config(of_app: str | None, url: str | None) -> Shown:
    r"""Show every setting and where it came from.

    Passwords are hidden. Durations are in seconds.

    \b
    offpath config show
    OFFPATH_URL=sqlite:///work.db offpath config show --json
    """
    settings = _settings(of_app, url)
    values, sources = settings.shown(), settings.sources()
    items = {name: {"value": values[name], "source": sources[name]} for name in values}
    rows = [(name, _shown(value), sources[name]) for name, value in values.items()]
    return Shown(items, [Table(("setting", "value", "from"), rows, "no settings")])


def _settings(of_app: str | None, url: str | None) -> Settings:
    """The settings of the app, otherwise those from everywhere: also where they name no store."""
    return store_settings(url, of_app) if of_app else named_settings(url)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, float):
        return f"{value:g}" if value < _READABLE else f"{value:.0f}"
    return "-" if value is None else str(value)
