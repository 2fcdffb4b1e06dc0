"""Jobs of Procrastinate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from offpath.contrib.imports.foreign_queue import (
    WaitingJob,
    arguments,
    as_ids,
    moment,
    require_postgres,
)
from offpath.contrib.imports.tables import SQL, TheirTables, require_table
from offpath.model.limit_options import Limit
from offpath.model.options import Unique
from offpath.store.sql import Row

_WAITS = ("blocked", "queued")
"""The states in which a queueing lock is held: Procrastinate gives it back at the start."""


class Procrastinate:
    """The jobs that Procrastinate has as ``todo``; what was taken is ``cancelled`` there.

    ``lock`` becomes a limit of one at a time, ``queueing_lock`` a unique key, unless the task here
    has its own. Attempts are counted anew.
    """

    name: ClassVar[str] = "procrastinate"
    first: ClassVar[str] = "0"

    def check(self, tables: TheirTables) -> None:
        """Raise ``InvalidArgument`` unless its tables are there."""
        require_postgres(tables, self.name)
        require_table(tables, "procrastinate_jobs", self.name)

    def rows(self, tables: TheirTables, *, after: str, most: int, dry_run: bool) -> Sequence[Row]:
        """Waiting rows behind an id."""
        ask = SQL["procrastinate_seen" if dry_run else "procrastinate_waiting"]
        return tables.rows(ask(after=int(after), most=most))

    def read(self, row: Row) -> WaitingJob:
        """The job of a row."""
        number, task, queue, priority, lock, queueing_lock, args, at = row
        options = {"queue": queue, "priority": priority, "tags": [f"{self.name}:{number}"]}
        if at is not None:
            options["run_at"] = moment(at)
        unless: dict[str, object] = {}
        if lock:
            unless["limit"] = Limit(key=lock, max_running=1)
        if queueing_lock:
            unless["unique"] = Unique(key=queueing_lock, states=_WAITS)
        return WaitingJob(
            id=number, task=task, kwargs=arguments(args), options=options, unless=unless
        )

    def take(self, tables: TheirTables, ids: Sequence[str]) -> None:
        """Cancel rows there."""
        tables.rows(SQL["procrastinate_take"](ids=as_ids(ids)))

    def running(self, tables: TheirTables) -> int:
        """The number of jobs that run there."""
        return int(tables.rows(SQL["procrastinate_running"]())[0][0])
