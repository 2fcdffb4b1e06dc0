"""Group commit: callers that come while a commit is under way share the next one.

Nobody waits for company. The first caller is written at once, without a task while callers come one
by one; who comes meanwhile is written together as soon as that is done. A caller whose effects
cannot be stored fails alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import psycopg

from offpath.errors import Conflict, InvalidArgument, StoreBusy, StoreRejected
from offpath.model.effects import Effects
from offpath.model.job import Enqueued, NewJob
from offpath.store.postgres.lone import stands_alone

Write = Callable[[Effects], Awaitable[list[Enqueued]]]
"""Writes all or nothing."""
Begin = Callable[[NewJob], "asyncio.Future[Enqueued | None] | None"]
"""Sends a job at once if that can be done without waiting; its answer, None for a conflict."""
WriteEach = Callable[[Sequence[NewJob]], Awaitable[list["Enqueued | None"]]]
"""Writes each job that nothing stands in the way of; None for the others."""
_Waiting = tuple[Effects, "asyncio.Future[list[Enqueued]]"]

# A caller is answered after the commit, so a larger one would make the first wait for the last.
MOST_JOBS: Final = 1000
"""Jobs, messages and events in one shared commit; a single caller's may be more."""


class Joiner:
    """Joins concurrent calls of one event loop into few transactions."""

    def __init__(self, write: Write, write_each: WriteEach, begin: Begin | None = None) -> None:
        self._write = write
        self._write_each = write_each
        self._begin = begin
        self._flight: asyncio.Future[Enqueued | None] | None = None
        """The answer to a job that was sent without a task."""
        self._company = False
        """True if the last commit had company, or was waited for: the next is likely to."""
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def alone(self, effects: Effects) -> Enqueued | None:
        """Write a lone caller's job at once, in one statement.

        None: it is not a job alone, or callers come together, or something stands in its way;
        :meth:`commit` writes it then. A caller that is cancelled does not take its job back.
        """
        flight = self._departed(effects)
        return None if flight is None else await self._landed(flight)

    async def commit(self, effects: Effects) -> list[Enqueued]:
        """Write ``effects``, perhaps in one transaction with others.

        A caller that is cancelled does not take its jobs back: whether they were written is
        unknown then, as with any error of the connection.
        """
        answer: asyncio.Future[list[Enqueued]] = asyncio.get_running_loop().create_future()
        self._waiting.append((effects, answer))
        # One task writes for all: two would write at once, and nobody would find company.
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="offpath-commit")
        return await answer

    async def close(self) -> None:
        """Wait until everything that was asked for has been written or has failed."""
        if self._flight is not None:
            # Waited for and not awaited: an error of it belongs to the caller who sent the job.
            await asyncio.wait([self._flight])
        if self._task is not None:
            await asyncio.wait([self._task])

    def _departed(self, effects: Effects) -> asyncio.Future[Enqueued | None] | None:
        """Send a lone caller's job at once. Whoever comes meanwhile finds company as ever."""
        if self._task is not None or self._flight is not None or self._begin is None:
            return None
        # Where company is likely, one statement for all costs the server less than one for each.
        if self._company or not _is_single(effects):
            return None
        self._flight = self._begin(effects.jobs[0])
        return self._flight

    async def _landed(self, flight: asyncio.Future[Enqueued | None]) -> Enqueued | None:
        """Its answer; None where the ordinary way is to find one: a conflict, or an error that a
        repeat may get over.
        """
        try:
            return await flight
        except psycopg.Error:
            return None
        finally:
            if self._flight is flight:
                self._flight = None

    async def _run(self) -> None:
        try:
            if self._flight is not None:
                await asyncio.wait([self._flight])
                self._company = True
            while self._waiting:
                group = self._next()
                self._company = len(group) > 1 or bool(self._waiting)
                await self._flush(group)
        finally:
            # Nothing is awaited between the last look at the line and this, so nobody is left in
            # it.
            self._task = None

    def _next(self) -> list[_Waiting]:
        """The callers of the next commit, in the order in which they came.

        Whoever has operations of a ledger goes alone: one that is declined would stop the others.
        """
        group: list[_Waiting] = []
        size = 0
        # The first goes whatever its size: a call larger than the bound is written alone.
        while self._waiting and (not group or size + _size(self._waiting[0][0]) <= MOST_JOBS):
            if group and (group[-1][0].operations or self._waiting[0][0].operations):
                break
            group.append(self._waiting.popleft())
            size += _size(group[-1][0])
        # A caller that has gone before the write is left out. One that goes while it runs is not:
        # its jobs are written then, and it does not hear of it.
        return [one for one in group if not one[1].cancelled()]

    async def _flush(self, group: Sequence[_Waiting]) -> None:
        if not group:
            return
        if all(_is_single(effects) for effects, _ in group):
            await self._singles(group)
        elif len(group) == 1:
            await self._alone(group[0])
        else:
            await self._together(group)

    async def _singles(self, group: Sequence[_Waiting]) -> None:
        """One job a caller: one statement, and who met a conflict goes through it alone."""
        try:
            answers = await self._write_each([effects.jobs[0] for effects, _ in group])
        # Only what one of them has brought about is looked into. An outage is everybody's, and
        # another try each would only lengthen it.
        except StoreRejected as error:
            await self._blame(group, error)
        except BaseException as error:  # noqa: BLE001 - it is the callers' error, none may hang
            _fail(group, error)
            _raise_unless_ordinary(error)
        else:
            for one, answer in zip(group, answers, strict=True):
                if answer is None:
                    await self._alone(one)
                else:
                    _answer(one, [answer])

    async def _together(self, group: Sequence[_Waiting]) -> None:
        every = [effects for effects, _ in group]
        together = Effects(
            jobs=tuple(job for effects in every for job in effects.jobs),
            messages=tuple(one for effects in every for one in effects.messages),
            log=tuple(one for effects in every for one in effects.log),
            gates=tuple(one for effects in every for one in effects.gates),
            contributions=tuple(one for effects in every for one in effects.contributions),
        )
        try:
            answers = await self._write(together)
        except (Conflict, StoreRejected, StoreBusy, InvalidArgument) as error:
            await self._blame(group, error)
        except BaseException as error:  # noqa: BLE001 - it is the callers' error, none may hang
            _fail(group, error)
            _raise_unless_ordinary(error)
        else:
            _share_out(group, answers)

    async def _blame(self, group: Sequence[_Waiting], error: Exception) -> None:
        """Nothing was written: find out whose fault it is by writing each alone."""
        if len(group) == 1:
            _fail(group, error)
            return
        for one in group:
            await self._alone(one)

    async def _alone(self, one: _Waiting) -> None:
        try:
            answers = await self._write(one[0])
        except BaseException as error:  # noqa: BLE001 - it is the callers' error, none may hang
            _fail([one], error)
            _raise_unless_ordinary(error)
        else:
            _answer(one, answers)


def _is_single(effects: Effects) -> bool:
    """True if it is one job that stands alone. Without a count: each call is asked."""
    more = effects.messages or effects.log or effects.gates
    if len(effects.jobs) != 1 or more or effects.contributions or effects.operations:
        return False
    return stands_alone(effects.jobs[0])


def _size(effects: Effects) -> int:
    return (
        len(effects.jobs)
        + len(effects.messages)
        + len(effects.log)
        + sum(1 + len(gate.on) for gate in effects.gates)
        + len(effects.contributions)
        + len(effects.operations)
    )


def _share_out(group: Sequence[_Waiting], answers: list[Enqueued]) -> None:
    """The answers are for all jobs and then for all messages; each caller's are, too."""
    jobs = iter(answers)
    firsts = [[next(jobs) for _ in effects.jobs] for effects, _ in group]
    for one, first in zip(group, firsts, strict=True):
        _answer(one, first + [next(jobs) for _ in one[0].messages])


def _answer(one: _Waiting, answers: list[Enqueued]) -> None:
    if not one[1].done():
        one[1].set_result(answers)


def _fail(group: Sequence[_Waiting], error: BaseException) -> None:
    for _, answer in group:
        # A caller that was cancelled has its answer already, and another one would raise.
        if answer.done():
            continue
        if isinstance(error, asyncio.CancelledError):
            answer.cancel()
        else:
            answer.set_exception(error)


def _raise_unless_ordinary(error: BaseException) -> None:
    if not isinstance(error, Exception):
        raise error
