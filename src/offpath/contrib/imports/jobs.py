"""The move of waiting jobs: taken there and enqueued here, a batch in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from offpath.contrib.imports.foreign_queue import WaitingJob, WaitingQueue, own_of
from offpath.contrib.imports.report import ImportCount, ImportReport
from offpath.contrib.imports.tables import TheirTables
from offpath.errors import Conflict, InvalidArgument, InvalidInput, TaskError
from offpath.store.sql import Row

if TYPE_CHECKING:
    from offpath.app import App
    from offpath.jobs.values.handle import Handle
    from offpath.jobs.values.job import Job

BATCH: Final = 500
"""Jobs of one transaction."""


async def import_jobs(
    app: App,
    queue: WaitingQueue,
    tables: TheirTables,
    *,
    names: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Move what waits in another queue into the queues of an open app.

    ``names`` says which task here is meant by a name there, where they differ. What does not fit
    stays where it is and is told: a task that the app does not have, arguments that its signature
    refuses. A repeat finds what was left. A dry run writes nothing and locks nothing.

    Raises ``InvalidArgument`` where the tables of the queue are not there.
    """
    queue.check(tables)
    move = _Move(app, queue, tables, names or {})
    after = queue.first
    while rows := await (move.look if dry_run else move.take)(after):
        after = str(rows[-1][0])
    return move.count.report(queue.name, dry_run=dry_run, running=queue.running(tables))


class _Move:
    def __init__(
        self, app: App, queue: WaitingQueue, tables: TheirTables, names: Mapping[str, str]
    ) -> None:
        self.count = ImportCount()
        self._app = app
        self._queue = queue
        self._tables = tables
        self._names = names

    async def look(self, after: str) -> Sequence[Row]:
        """Count a batch as if it were moved."""
        rows = self._queue.rows(self._tables, after=after, most=BATCH, dry_run=True)
        for _, job in self._fitting(rows):
            self.count.moved(job.task)
        return rows

    async def take(self, after: str) -> Sequence[Row]:
        """Move a batch."""
        with self._tables.transaction():
            rows = self._queue.rows(self._tables, after=after, most=BATCH, dry_run=False)
            moved = await self._enqueued(self._fitting(rows))
            self._queue.take(self._tables, [one for one, _ in moved])
        for _, task in moved:  # committed
            self.count.moved(task)
        return rows

    def _fitting(self, rows: Sequence[Row]) -> list[tuple[str, Job[Any, Any]]]:
        """The rows that can be jobs here, each with its job; the others are told."""
        found = []
        for row in rows:
            number, task = str(row[0]), str(row[1])
            try:
                found.append((number, self._job(self._queue.read(row))))
            except (InvalidArgument, TaskError) as error:
                self.count.left(task, number, _why(error))
        return found

    def _job(self, waiting: WaitingJob) -> Job[Any, Any]:
        name = self._names.get(waiting.task, waiting.task)
        task = task_of(self._app, name)
        more = {each: value for each, value in waiting.unless.items() if not own_of(task, each)}
        options: dict[str, Any] = {**waiting.options, **more}
        made: Job[Any, Any] = task.options(**options).job(*waiting.args, **waiting.kwargs)
        return made

    async def _enqueued(
        self, fitting: Sequence[tuple[str, Job[Any, Any]]]
    ) -> list[tuple[str, str]]:
        """The rows whose jobs are here now, each with its task."""
        try:
            with self._tables.transaction():
                handles = await self._send([job for _, job in fitting])
        except (Conflict, InvalidArgument) as error:
            if len(fitting) > 1:  # one of them is in the way: each by itself
                return [one for each in fitting for one in await self._enqueued([each])]
            self.count.left(fitting[0][1].task, fitting[0][0], _why(error))
            return []
        moved = []
        for (number, job), handle in zip(fitting, handles, strict=True):
            if handle.id == job.id and not handle.created:
                self.count.left(job.task, number, "a job with this id is here already")
            else:  # also one that has joined the job with its unique key
                moved.append((number, job.task))
        return moved

    async def _send(self, jobs: list[Job[Any, Any]]) -> list[Handle[Any, Any]]:
        return await self._app.enqueue(jobs, within=self._tables.connection) if jobs else []


def task_of(app: App, name: str) -> Any:  # noqa: ANN401 - a task of any signature
    """The task of a name. Raises ``UnknownTask`` with the option that names another."""
    from offpath.errors import UnknownTask

    if name not in app.tasks:
        raise UnknownTask(f"this app has no task {name!r}: say which one it is, --task {name}=…")
    return app.tasks[name]


def _why(error: Exception) -> str:
    """The reason, without the path of the value where that would tell rows apart."""
    return f"its arguments do not fit: {error}" if isinstance(error, InvalidInput) else str(error)
