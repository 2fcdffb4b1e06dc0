"""Jobs of the database backend of Django's Tasks, ``django-tasks-db``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final
from uuid import UUID

from offpath.contrib.imports.foreign_queue import WaitingJob, as_ids, moment
from offpath.contrib.imports.tables import SQL, TheirTables, require_table
from offpath.model.json_text import decode_json
from offpath.store.sql import Row

_READS: Final = {
    "postgres": ("django_seen_postgres", "django_waiting_postgres"),
    "sqlite": ("django_seen_sqlite", "django_waiting_sqlite"),
}
_TAKES: Final = {"postgres": "django_take_postgres", "sqlite": "django_take_sqlite"}
_NEVER: Final = 9999
"""The year that stands for no ``run_after``."""


class DjangoTasks:
    """The jobs that ``django-tasks-db`` has as ``READY``. They keep their ids, so a result that a
    view asks for by its id is found in either place.
    """

    name: ClassVar[str] = "django-tasks-db"
    first: ClassVar[str] = str(UUID(int=0))

    def check(self, tables: TheirTables) -> None:
        """Raise ``InvalidArgument`` unless its table is there."""
        require_table(tables, "django_tasks_database_dbtaskresult", self.name)

    def rows(self, tables: TheirTables, *, after: str, most: int, dry_run: bool) -> Sequence[Row]:
        """Waiting rows behind an id."""
        look, take = _READS[tables.dialect]
        return tables.rows(SQL[look if dry_run else take](after=after, most=most))

    def read(self, row: Row) -> WaitingJob:
        """The job of a row."""
        number, task, queue, priority, given, run_after, enqueued_at = row
        called = decode_json(given, "its arguments", type=dict[str, Any])
        later, since = moment(run_after), moment(enqueued_at)
        due = since if later is None or later.year == _NEVER else later
        return WaitingJob(
            id=str(UUID(number)),
            task=task,
            args=called.get("args", ()),
            kwargs=called.get("kwargs", {}),
            options={
                "id": str(UUID(number)), "queue": queue, "priority": priority, "run_at": due,
                "tags": [self.name],
            },
        )  # fmt: skip

    def take(self, tables: TheirTables, ids: Sequence[str]) -> None:
        """Remove rows there."""
        written = [one.replace("-", "") for one in ids] if tables.dialect == "sqlite" else ids
        tables.rows(SQL[_TAKES[tables.dialect]](ids=as_ids(written)))

    def running(self, tables: TheirTables) -> int:
        """The number of jobs that run there."""
        return int(tables.rows(SQL["django_running"]())[0][0])
