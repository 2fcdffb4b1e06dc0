"""The command ``offpath import``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import click
import msgspec

from offpath.app import App
from offpath.cli.apps import load_shared_app, object_at, target_of
from offpath.cli.frame import app_option, framed, options, url_option
from offpath.cli.option_values import once, pairs
from offpath.cli.values import DEGRADED, DONE, Cell, Part, Shown, Table
from offpath.contrib.imports.beat import (
    celery_entries,
    disable_in_beat,
    django_celery_beat,
    import_schedules,
)
from offpath.contrib.imports.django_tasks import DjangoTasks
from offpath.contrib.imports.foreign_queue import WaitingQueue
from offpath.contrib.imports.jobs import import_jobs
from offpath.contrib.imports.pgqueuer import Payload, PgQueuer, pgqueuer_schedules
from offpath.contrib.imports.procrastinate import Procrastinate
from offpath.contrib.imports.report import ImportReport
from offpath.contrib.imports.tables import open_tables


@click.group("import")
def imports() -> None:
    """Move jobs and schedules here from another queue."""


def _opened(target: str | None, url: str | None) -> AbstractAsyncContextManager[App]:
    """The app whose tasks are meant; it must be one that knows them."""
    return load_shared_app(target_of(target), url)


def _names(_context: click.Context, _option: click.Parameter, given: Any) -> dict[str, str]:  # noqa: ANN401 - click's
    read = pairs("a task is written OLD=NEW")
    return once(read(_context, _option, given), "the task")


_shared = options(
    click.option(
        "--task",
        "names",
        callback=_names,
        multiple=True,
        metavar="OLD=NEW",
        help="The name that a task has here, if it is another; may be repeated.",
    ),
    click.option("--dry-run", is_flag=True, help="Tell what would be moved, and write nothing."),
)
_schema_option = click.option(
    "--schema", metavar="NAME", help="The Postgres schema of its tables.  [default: search path]"
)
_command = framed(_opened, app_option("The app that has the tasks."), url_option)


@imports.command("procrastinate")
@_schema_option
@_shared
@_command
async def procrastinate(
    app: App, *, schema: str | None, names: dict[str, str], dry_run: bool
) -> Shown:
    r"""Move what waits in Procrastinate.

    Its tables are in this app's Postgres. Each job is cancelled there and enqueued here in one
    transaction. Jobs that run are left to
    their worker, and what does not fit is told and stays: the exit code is 3 then.

    \b
    offpath import procrastinate --app shop.jobs:app --dry-run
    offpath import procrastinate --app shop.jobs:app --task shop.mail=send_mail
    """
    return await _moved(app, Procrastinate(), schema, names, dry_run=dry_run)


@imports.command("pgqueuer")
@_schema_option
@click.option(
    "--payload",
    type=click.Choice([each.value for each in Payload]),
    default=Payload.ARGUMENTS.value,
    show_default=True,
    help="The meaning of a payload: a JSON object of arguments, or one argument.",
)
@click.option("--schedules", is_flag=True, help="Import its schedules instead of its jobs.")
@_shared
@_command
async def pgqueuer(
    app: App,
    *,
    schema: str | None,
    payload: str,
    schedules: bool,
    names: dict[str, str],
    dry_run: bool,
) -> Shown:
    r"""Move what waits in PgQueuer.

    Its tables are in this app's Postgres. Each job is deleted and logged there and enqueued here in
    one transaction. An entrypoint is the
    name of a task. With --schedules the schedules of its table become ours, in UTC; stop its
    scheduler then, or both run.

    \b
    offpath import pgqueuer --app shop.jobs:app --dry-run
    offpath import pgqueuer --app shop.jobs:app --payload text --task fetch=shop.fetch
    """
    if not schedules:
        return await _moved(app, PgQueuer(Payload(payload)), schema, names, dry_run=dry_run)
    with open_tables(app, schema=schema) as tables:
        entries = pgqueuer_schedules(tables)
        return _shown(
            await import_schedules(app, entries, source="pgqueuer", names=names, dry_run=dry_run)
        )


@imports.command("django-tasks")
@_schema_option
@_shared
@_command
async def django_tasks(
    app: App, *, schema: str | None, names: dict[str, str], dry_run: bool
) -> Shown:
    r"""Move what waits in django-tasks-db.

    Its table is in this app's database. A task keeps its id, so its result is found as before.
    TASKS must name our backend by then.

    \b
    offpath import django-tasks --app shop.settings --dry-run
    """
    return await _moved(app, DjangoTasks(), schema, names, dry_run=dry_run)


@imports.command("celery-beat")
@click.option(
    "--from",
    "source",
    metavar="MODULE:APP",
    help="The Celery app with a beat_schedule.  [default: tables of django-celery-beat]",
)
@_schema_option
@_shared
@_command
async def celery_beat(
    app: App, *, source: str | None, schema: str | None, names: dict[str, str], dry_run: bool
) -> Shown:
    r"""Make schedules out of those of Celery's beat.

    Without --from they are the periodic tasks of django-celery-beat in this app's database, which
    are disabled there once they are here. Entries in code are to be taken out by hand, or both run.

    \b
    offpath import celery-beat --app shop.jobs:app --dry-run
    offpath import celery-beat --app shop.jobs:app --from shop.celery:app
    """
    make = partial(import_schedules, app, names=names, dry_run=dry_run)
    if source is not None:
        return _shown(await make(celery_entries(object_at(source)), source="celery"))
    with open_tables(app, schema=schema) as tables:
        return _shown(
            await make(
                django_celery_beat(tables),
                source="django-celery-beat",
                imported=partial(disable_in_beat, tables),
            )
        )


async def _moved(
    app: App, queue: WaitingQueue, schema: str | None, names: dict[str, str], *, dry_run: bool
) -> Shown:
    with open_tables(app, schema=schema) as tables:
        return _shown(await import_jobs(app, queue, tables, names=names, dry_run=dry_run))


def _shown(report: ImportReport) -> Shown:
    return Shown(
        msgspec.to_builtins(report), list(_parts(report)), exit=DEGRADED if report.left else DONE
    )


def _parts(report: ImportReport) -> Iterator[Part]:
    done = "would move" if report.dry_run else "moved"
    moved: Sequence[Sequence[Cell]] = list(report.moved.items())
    yield Table(("here", done), moved, empty=f"nothing to move from {report.source}")
    if report.left:
        yield ""
        rows = [(one.name, one.count, one.example, one.reason) for one in report.left]
        yield Table(("stays there", "rows", "example", "because"), rows)
    if report.running:
        yield ""
        yield f"{report.running} run there, and are left to their worker"
