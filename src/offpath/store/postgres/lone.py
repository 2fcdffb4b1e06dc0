"""A lone job: the statement that adds it, sent in its caller's frame, answered by the event loop.

A single enqueue after the other would pay more for a task, and for the turns of the loop that start
and end it, than for all else that its client does. Nobody is needed between the statement and its
answer: the connection goes back as the answer comes, whether or not somebody waits for it still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import psycopg

from offpath.model.group import GroupPolicy
from offpath.model.job import Enqueued
from offpath.store.postgres.silence import Silence
from offpath.store.postgres.steps import from_micros, job_id, moment
from offpath.store.refusals import no_uuid
from offpath.store.sql import Query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from offpath.model.job import NewJob
    from offpath.store.postgres.pool import Connection, Pool
    from offpath.store.programs.dialect import Rows
    from offpath.store.sql import Catalogue, Row

T = TypeVar("T")
Left = Callable[["Connection", BaseException], Awaitable[None]]
"""Has a connection fit for the next, after an error."""

_clearing: Final[set[asyncio.Task[None]]] = set()
"""Connections that errors have left: a task that nobody refers to could be collected."""


def is_plain(job: NewJob) -> bool:
    """True if an independent job leaves at its default what the statements for plain ones do not
    send.
    """
    return not (
        job.delay
        or job.run_at
        or job.deadline
        or job.deadline_in is not None
        or job.unique
        or job.limit
        or job.tags
        or job.dependents
    )


def fails_fast(job: NewJob) -> bool:
    """True if it is a root whose group has a row from the start."""
    return job.group_policy is GroupPolicy.FAIL_FAST and job.group_id in {None, job.id}


def stands_alone(job: NewJob) -> bool:
    """True if it can be added on its own: it joins no group that must count it, and waits at no
    gate.
    """
    return (
        (job.group_id is None or job.group_id == job.id)
        and job.gate is None
        and not fails_fast(job)
    )


def enqueue_plain(job: NewJob, now: datetime | None, *, sql: Catalogue) -> Query:
    """One statement that adds a plain job unless something stands in its way.

    It answers with the row of :func:`plain_answer`.
    """
    return sql["enqueue_one"](**_values(job, now))


def _values(job: NewJob, now: datetime | None) -> dict[str, str | None]:
    return {
        "now": moment(now),
        "id": canonical(job.id),
        "task": job.task,
        "queue": job.queue,
        # as texts: of numbers, the driver makes another statement for each size
        "priority": str(job.priority),
        "input": job.input,
        "fingerprint": job.fingerprint,
        "options": job.options,
        "parent": job.parent,
        "announce": str(job.announce),
        "fair_key": job.fair_key,
        "headers": job.headers,
    }


def plain_answer(job: NewJob, query: Query, rows: Sequence[Row]) -> Enqueued | None:
    """The answer for the job that this statement was to add, if it was added."""
    if not rows:
        return None
    run_at = from_micros(rows[0][0])
    return Enqueued(id=job.id, job_id=query.params["id"], created=True, run_at=run_at)


def canonical(text: str) -> str:
    """A job's id in its canonical form. Raises ``InvalidArgument`` where it is none."""
    known = job_id(text)
    if known is None:
        raise no_uuid("job", text)
    return known


class LoneDoor:
    """The way of a lone plain job: a statement over the connection that was used last."""

    __slots__ = ("_add", "_left", "_patience", "_pool", "_told")

    def __init__(
        self,
        pool: Pool,
        sql: Catalogue,
        *,
        patience: float,
        left: Left,
        told: Callable[[Exception], Exception],
    ) -> None:
        self._pool = pool
        self._add = sql["enqueue_one"]
        self._patience = patience
        self._left = left
        self._told = told

    def send(self, job: NewJob, now: datetime | None) -> asyncio.Future[Enqueued | None] | None:
        """Send the statement that adds a job at once. None: the job is not plain, no connection is
        at hand, or its session does not have the statement ready.

        The answer fails with the driver's errors, after which the ordinary way may still get it
        done, and with ``StoreUnavailable`` where the server was silent for too long.
        """
        if not is_plain(job):
            return None
        # its names are checked by `enqueue_plain`, which each session sends first
        query = Query(self._add, _values(job, now))
        connection = self._pool.take_kept(self._patience)
        if connection is None:
            return None
        read = partial(plain_answer, job, query)
        statement = LoneStatement(self._pool, connection, read, self._left, self._told)
        return statement.answer if statement.begin(query) else None


class LoneStatement(Generic[T]):
    """One statement under way. ``read`` makes its answer of the rows."""

    __slots__ = ("_bound", "_connection", "_left", "_pool", "_read", "_told", "answer")

    def __init__(
        self,
        pool: Pool,
        connection: Connection,
        read: Callable[[Rows], T],
        left: Left,
        told: Callable[[Exception], Exception],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._pool = pool
        self._connection = connection
        self._read = read
        self._left = left
        self._told = told
        self._bound = connection.watch.bounded(connection, loop.time() + connection.patience)
        self.answer: asyncio.Future[T] = loop.create_future()
        """Fails with the driver's errors, and in our words where nothing came in time."""

    def begin(self, query: Query) -> bool:
        """Send it; False: the session does not have it ready, and nothing was sent."""
        sent, error = False, None
        try:
            sent = self._connection.wire.launch(query, self._landed)
        except psycopg.Error as fault:
            error = fault
        if sent:
            self._connection.watch.add(self._bound)
        else:
            self._give_back(error)
        return sent

    def _landed(self) -> None:
        self._connection.watch.leave(self._bound)
        answer: T | None = None
        error: Exception | None = None
        try:
            answer = self._read(self._connection.wire.rows())
        except psycopg.Error as fault:
            error = self._told(Silence()) if self._bound.silent else fault
        self._give_back(error)
        if self.answer.done():  # nobody waits any more
            return
        if error is None:
            self.answer.set_result(cast("T", answer))
        else:
            self.answer.set_exception(error)

    def _give_back(self, error: Exception | None) -> None:
        if error is None and self._pool.keep(self._connection):
            return
        task = asyncio.ensure_future(self._clear(error))
        _clearing.add(task)
        task.add_done_callback(_clearing.discard)

    async def _clear(self, error: Exception | None) -> None:
        try:
            if error is not None:
                await self._left(self._connection, error)
        except psycopg.Error:
            pass  # told to the caller already
        finally:
            await self._pool.give_back(self._connection)
