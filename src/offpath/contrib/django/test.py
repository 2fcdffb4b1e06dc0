"""For the tests of a project: tasks on memory inside of a ``TestCase``, and empty tables after one.

::

    class Orders(TestCase):
        def test_an_order_has_its_receipt(self) -> None:
            with offpath_memory() as jobs:
                self.client.post("/orders")
                jobs.drain()
            self.assertEqual(Receipt.objects.count(), 1)
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction

from offpath.contrib.django.backend import OffpathBackend
from offpath.contrib.django.database import dialect_of
from offpath.contrib.django.migration import ours, schemas_of
from offpath.contrib.django.names import task_backends
from offpath.contrib.django.table import TaskTable, table_of
from offpath.contrib.schema_steps import sqlite_tables
from offpath.jobs.worker.terms import COUNTED, AttemptCounts
from offpath.testing import ManualClock, MemorySwap, NeverIdle, swap_to_memory
from offpath.testing.due_work import drain_in
from offpath.testing.transactions import HeldEffects


@contextmanager
def offpath_memory(
    alias: str = "default", *, clock: ManualClock | None = None
) -> Iterator[MemoryTasks]:
    """Let the tasks of a backend work on an empty store in memory; also a decorator.

    What is enqueued in an atomic block is kept exactly while that block is: a rollback of it, or of
    a block around it, takes it along. The block of the ``TestCase`` itself counts as committed.
    Nothing runs but in :meth:`MemoryTasks.drain`. Time stands still, at the time of now.
    """
    if not isinstance(task_backends[alias], OffpathBackend):
        raise ImproperlyConfigured(f"TASKS[{alias!r}] is not offpath.contrib.django.OffpathBackend")
    table = table_of(alias)
    app = table.app()
    app.blocking.close()  # tests before this one may have used it
    with swap_to_memory(app, clock=clock or ManualClock(datetime.now(UTC))) as memory:
        yield MemoryTasks(table, memory)


class MemoryTasks:
    """The tasks of one backend in memory, inside of :func:`offpath_memory`."""

    def __init__(self, table: TaskTable, memory: MemorySwap[ManualClock]) -> None:
        self._table = table
        self.app = memory.app
        """The app of the backend."""
        self.clock = memory.clock
        """The time of the tasks, moved by hand: ``jobs.clock.advance(60)``."""
        self.store = memory.store
        """The store, which can be told to fail."""

    def drain(self, *, limit: int = 1_000, timeout: float = 30.0) -> AttemptCounts:
        """Run every task that is due now, and what those lead to; returns how the runs ended.

        Handlers run in this thread, and so do the ORM's calls of async ones: they see the test's
        rows, and what they write is rolled back with the test. What a handler raises is in the
        task's result. Raises ``NeverIdle``.
        """
        ran = AttemptCounts()
        while True:
            self._keep()
            self.app.blocking.close()  # it may have been used; the app belongs to one loop
            ran = _sum(ran, async_to_sync(self._drained)(limit, timeout))
            if not self._held():
                return ran
            if ran.total >= limit:
                raise NeverIdle(f"after {limit} runs there is still work: does a task repeat?")

    async def _drained(self, limit: int, timeout: float) -> AttemptCounts:  # noqa: ASYNC109 - as in drain
        async with self.app:
            return await drain_in(_in_the_tests_thread, self.app, limit=limit, timeout=timeout)

    def _keep(self) -> None:
        """Commit what open blocks hold back, as the end of the test's own block would."""
        held = self._held()
        if held:
            connection = connections[self._table.database]
            connection.run_on_commit = [one for one in connection.run_on_commit if one not in held]
        for _, act, *_ in held:
            act()

    def _held(self) -> list[Any]:
        """Our callbacks that Django would call after the commit; a rollback took out the rest."""
        if self._table.database not in connections.databases:
            return []
        waiting = connections[self._table.database].run_on_commit
        return [one for one in waiting if isinstance(_owner(one[1]), HeldEffects | OffpathBackend)]


def _owner(act: Any) -> object:  # noqa: ANN401 - any function
    """The object whose method it is."""
    return getattr(act.func if isinstance(act, partial) else act, "__self__", None)


async def _call(function: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
    return await sync_to_async(function)()


def _in_the_tests_thread(function: Callable[[], Any]) -> asyncio.Future[Any]:
    return asyncio.ensure_future(_call(function))


def _sum(one: AttemptCounts, other: AttemptCounts) -> AttemptCounts:
    return AttemptCounts(**{name: getattr(one, name) + getattr(other, name) for name in COUNTED})


class EmptyTables:
    """A mixin for ``TransactionTestCase``: empties our tables after each test, as Django does with
    its own, for it does not know of them.

    ::

        class Commits(EmptyTables, TransactionTestCase): ...
    """

    def _fixture_teardown(self) -> None:
        for alias in self._databases_names(include_mirrors=False):  # type: ignore[attr-defined]
            if ours(alias):
                empty_tables(alias)
        super()._fixture_teardown()  # type: ignore[misc] # that of TransactionTestCase


def empty_tables(alias: str) -> None:
    """Remove every row of our tables in a database, in each schema of ours, but for the record of
    the schema's steps, and for a ledger's, which the database keeps from everybody.
    """
    with connections[alias].cursor() as cursor, transaction.atomic(using=alias):
        for schema in schemas_of(alias):
            if dialect_of(alias) == "postgres":
                _truncate(cursor, schema)
            else:
                _delete(cursor, schema)


def _truncate(cursor: Any, schema: str) -> None:  # noqa: ANN401 - Django's
    cursor.execute(_OF_SCHEMA, [schema])
    if names := [name for (name,) in cursor.fetchall()]:
        cursor.execute(f"truncate {', '.join(names)}")


def _delete(cursor: Any, schema: str) -> None:  # noqa: ANN401 - Django's
    cursor.execute("pragma defer_foreign_keys = on")
    cursor.execute("select name from sqlite_master where type = 'table'")
    # By name: a table of the project's own may begin as the schema does.
    ours = {f"{schema}_{name}" for name in sqlite_tables() if not _KEPT.match(name)}
    for name in sorted(ours & {name for (name,) in cursor.fetchall()}):
        cursor.execute(f"delete from {name}")  # noqa: S608 - one of our names


_KEPT: Final = re.compile("migration$|ledger")
_OF_SCHEMA: Final = (
    "select format('%%I.%%I', schemaname, tablename) from pg_tables where schemaname = %s "
    "and tablename <> 'migration' and tablename not like 'ledger%%'"
)
