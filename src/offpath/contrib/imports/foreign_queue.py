"""A kind of queue to import from: its waiting rows, and the jobs that they become."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from offpath.contrib.imports.tables import TheirTables
from offpath.errors import InvalidArgument
from offpath.jobs.define.task import Task
from offpath.model.json_text import decode_json
from offpath.store.sql import Row


class WaitingJob(Struct, frozen=True, kw_only=True):
    """A job that waits in another queue, in words of ours."""

    id: str
    """Its id there."""
    task: str
    """The name of its task there."""
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    """The keywords of ``task.options(...)``."""
    unless: Mapping[str, Any] = {}
    """Further ones, for what the task itself does not say."""


class WaitingQueue(Protocol):
    """A kind of queue that an importer reads."""

    name: ClassVar[str]
    first: ClassVar[str]
    """An id before all others."""

    def check(self, tables: TheirTables) -> None:
        """Raise ``InvalidArgument`` unless its tables are there."""
        ...

    def rows(self, tables: TheirTables, *, after: str, most: int, dry_run: bool) -> Sequence[Row]:
        """Waiting rows behind an id, by id; locked unless it is a dry run. The id comes first, and
        the task's name second.
        """
        ...

    def read(self, row: Row) -> WaitingJob:
        """The job of a row. Raises ``InvalidArgument`` for one that cannot be meant here."""
        ...

    def take(self, tables: TheirTables, ids: Sequence[str]) -> None:
        """Let rows wait there no more."""
        ...

    def running(self, tables: TheirTables) -> int:
        """The number of jobs that run there."""
        ...


def moment(text: str | None) -> datetime | None:
    """A time as the statements give it: in UTC."""
    if text is None:
        return None
    read = datetime.fromisoformat(text)
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def arguments(text: str | None) -> dict[str, Any]:
    """Named arguments from a JSON object. Raises ``InvalidArgument``."""
    return decode_json(text or "{}", "its arguments", type=dict[str, Any])


def as_ids(ids: Sequence[str]) -> str:
    """Ids as one parameter."""
    return json.dumps(list(ids))


def own_of(task: Task[..., Any, Any], name: str) -> bool:
    """True if a task says itself what its limit (or unique key) is."""
    return getattr(task.defaults, name) is not None or bool(getattr(task.computes, name))


def require_postgres(tables: TheirTables, source: str) -> None:
    """Raise ``InvalidArgument`` on SQLite."""
    if tables.dialect != "postgres":
        raise InvalidArgument(f"{source} keeps its jobs in Postgres, and this app's are in SQLite")
