"""Jobs and schedules of PgQueuer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from offpath.contrib.imports.entries import ScheduleEntry
from offpath.contrib.imports.foreign_queue import (
    WaitingJob,
    arguments,
    as_ids,
    moment,
    require_postgres,
)
from offpath.contrib.imports.tables import SQL, TheirTables, require_table
from offpath.errors import InvalidArgument
from offpath.model.json_text import decode_json
from offpath.store.sql import Row


class Payload(StrEnum):
    """The meaning of PgQueuer's payload, which is bytes."""

    ARGUMENTS = "arguments"
    """A JSON object of named arguments."""
    JSON = "json"
    """One argument, written as JSON."""
    TEXT = "text"
    """One argument, a text."""
    BYTES = "bytes"
    """One argument, the bytes themselves."""


class PgQueuer:
    """The jobs that PgQueuer has as ``queued``; what was taken is logged as ``deleted`` there.

    ``dedupe_key`` becomes a unique key, unless the task here has its own. Attempts are counted
    anew.
    """

    name: ClassVar[str] = "pgqueuer"
    first: ClassVar[str] = "0"

    def __init__(self, payload: Payload = Payload.ARGUMENTS) -> None:
        self._payload = payload

    def check(self, tables: TheirTables) -> None:
        """Raise ``InvalidArgument`` unless its tables are there."""
        require_postgres(tables, self.name)
        require_table(tables, "pgqueuer", self.name)

    def rows(self, tables: TheirTables, *, after: str, most: int, dry_run: bool) -> Sequence[Row]:
        """Waiting rows behind an id."""
        ask = SQL["pgqueuer_seen" if dry_run else "pgqueuer_waiting"]
        return tables.rows(ask(after=int(after), most=most))

    def read(self, row: Row) -> WaitingJob:
        """The job of a row."""
        number, task, priority, key, payload, headers, at = row
        args, kwargs = _called(self._payload, None if payload is None else bytes(payload))
        options = {"priority": priority, "run_at": moment(at), "tags": [f"{self.name}:{number}"]}
        texts = {
            name.lower(): value
            for name, value in arguments(headers).items()
            if isinstance(value, str)
        }
        return WaitingJob(
            id=number,
            task=task,
            args=args,
            kwargs=kwargs,
            options={**options, "headers": texts} if texts else options,
            unless={"unique": key} if key else {},
        )

    def take(self, tables: TheirTables, ids: Sequence[str]) -> None:
        """Remove rows there, and log it."""
        tables.rows(SQL["pgqueuer_take"](ids=as_ids(ids)))

    def running(self, tables: TheirTables) -> int:
        """The number of jobs that run there."""
        return int(tables.rows(SQL["pgqueuer_running"]())[0][0])


def _called(how: Payload, payload: bytes | None) -> tuple[list[Any], dict[str, Any]]:
    if payload is None or (not payload and how is Payload.ARGUMENTS):
        return [], {}
    if how is Payload.BYTES:
        return [payload], {}
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("its payload is not text: --payload bytes") from None
    if how is Payload.TEXT:
        return [text], {}
    if how is Payload.JSON:
        return [decode_json(text, "its payload")], {}
    return [], arguments(text)


def pgqueuer_schedules(tables: TheirTables) -> Iterator[ScheduleEntry]:
    """The schedules that PgQueuer's scheduler has put into its table, in UTC."""
    require_postgres(tables, PgQueuer.name)
    require_table(tables, "pgqueuer_schedules", PgQueuer.name)
    for entrypoint, expression in tables.rows(SQL["pgqueuer_schedules"]()):
        yield ScheduleEntry(
            name=f"{entrypoint} {expression}", task=entrypoint, terms={"cron": expression}
        )
