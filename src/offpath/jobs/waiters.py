"""Everybody who waits for a job in this process, served by one task.

A waiter costs one read when it comes and one when its job ends, both in batches. Jobs that end in
this process are announced by :meth:`Waiters.ended`; those that end elsewhere are found by a hint
of the store or by polling the states of all awaited ids, at a pace that bounds its share of time.
"""

from __future__ import annotations

import asyncio
from itertools import chain, islice
from typing import TYPE_CHECKING

from offpath.errors import AppClosed, JobNotFound, OffpathError, WaitTimeout
from offpath.store.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from offpath.model.job import JobRecord
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

READ_CHUNK = 500
"""Records read in one call."""
POLL_CHUNK = 1_000
"""States asked for in one call."""
_SHORTEST = 0.05
_LONGEST = 1.0
_PER_WAITER = 20e-6
_GROWTH = 1.5
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 4.0


class Pace:
    """How long to wait between polls: longer with many waiters, and while nothing ends."""

    __slots__ = ("_quiet",)

    def __init__(self) -> None:
        self._quiet = _SHORTEST

    def shortest(self, waiters: int) -> float:
        """Seconds that must lie between two polls for so many waiters."""
        return max(_SHORTEST, waiters * _PER_WAITER)

    def interval(self, waiters: int) -> float:
        """Seconds to the next poll."""
        return max(self._quiet, self.shortest(waiters))

    def polled(self, *, found: bool) -> None:
        """A poll found something, or nothing: then the next one comes later."""
        self._quiet = _SHORTEST if found else min(self._quiet * _GROWTH, _LONGEST)

    def reset(self) -> None:
        """Somebody new waits, or something may have ended."""
        self._quiet = _SHORTEST


class Waiters:
    """The waits of one open app. Belongs to one event loop."""

    def __init__(
        self, store: Store, clock: Clock, on_error: Callable[[Exception, str], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_error = on_error
        self._waiting: dict[str, set[asyncio.Future[JobRecord | OffpathError]]] = {}
        self._suspects: set[str] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unlisten: Callable[[], None] | None = None
        self._pace = Pace()
        self._polled_at = 0.0
        self._hinted = False
        self._failures = 0
        self._closed = False

    def __len__(self) -> int:
        """How many ids are waited for."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing runs here: no task, no polling."""
        return self._task is None

    async def wait(self, job_id: str, timeout: float | None) -> JobRecord:  # noqa: ASYNC109
        """The record of a job once it has ended.

        Raises ``WaitTimeout`` after ``timeout`` seconds, ``JobNotFound`` when there is no such
        job (any more), ``AppClosed`` when the app is closed meanwhile.
        """
        if timeout is not None and timeout <= 0:
            return await self._look_once(job_id)
        future = self._enter(job_id)
        try:
            answer = await self._first(future, timeout)
        finally:
            self._leave(job_id, future)
        if answer is None:
            raise WaitTimeout(f"job {job_id} had not ended after {timeout:g} s; it goes on")
        if isinstance(answer, OffpathError):
            raise answer
        return answer

    def ended(self, ids: Iterable[str]) -> None:
        """Jobs ended in this process: whoever waits for one of them is told soon."""
        suspects = [each for each in ids if each in self._waiting] if self._waiting else ()
        if suspects:
            self._suspects.update(suspects)
            self._wake.set()

    async def close(self) -> None:
        """End every wait with ``AppClosed``. Idempotent."""
        self._closed = True
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        for future in chain.from_iterable(self._waiting.values()):
            if not future.done():
                future.set_result(AppClosed("the app was closed while this wait went on"))
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    # -- one wait ------------------------------------------------------------------------------

    def _enter(self, job_id: str) -> asyncio.Future[JobRecord | OffpathError]:
        if self._closed:
            raise AppClosed("the app is closed: nothing can be awaited any more")
        future: asyncio.Future[JobRecord | OffpathError]
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job_id, set()).add(future)
        self._suspects.add(job_id)
        self._pace.reset()
        self._wake.set()
        if self._unlisten is None:
            self._unlisten = self._store.listen(self._hint)
        if self._task is None:
            self._polled_at = self._clock.monotonic()
            self._task = asyncio.create_task(self._run(), name="offpath waiters")
        return future

    def _leave(self, job_id: str, future: asyncio.Future[JobRecord | OffpathError]) -> None:
        futures = self._waiting.get(job_id)
        if futures is None:
            return
        futures.discard(future)
        if not futures:
            del self._waiting[job_id]
            self._suspects.discard(job_id)
        if not self._waiting:
            self._wake.set()

    async def _first(
        self,
        future: asyncio.Future[JobRecord | OffpathError],
        timeout: float | None,  # noqa: ASYNC109
    ) -> JobRecord | OffpathError | None:
        """The answer, or None when the clock's timeout comes first."""
        if timeout is None:
            return await future
        sleeper = asyncio.ensure_future(self._clock.sleep(timeout))
        try:
            await asyncio.wait((future, sleeper), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
        return future.result() if future.done() else None

    async def _look_once(self, job_id: str) -> JobRecord:
        if self._closed:
            raise AppClosed("the app is closed: nothing can be awaited any more")
        found = await self._store.get((job_id,))
        if not found:
            raise _not_found(job_id)
        if not found[0].state.terminal:
            raise WaitTimeout(f"job {job_id} is {found[0].state}: it has not ended")
        return found[0]

    # -- the task that serves all ----------------------------------------------------------------

    async def _run(self) -> None:
        while self._waiting:
            try:
                await self._round()
                self._failures = 0
            except Exception as error:  # noqa: BLE001 - waits outlive whatever the store does
                await self._pause(error)
        self._task = None

    async def _round(self) -> None:
        await self._read_suspects()
        if not self._waiting:
            return
        due_in = self._polled_at + self._interval() - self._clock.monotonic()
        if due_in > 0:
            await self._clock.wait(self._wake, due_in)
        else:
            await self._poll()
        self._wake.clear()

    def _interval(self) -> float:
        waiters = len(self._waiting)
        return self._pace.shortest(waiters) if self._hinted else self._pace.interval(waiters)

    async def _read_suspects(self) -> None:
        while self._suspects:
            chunk = tuple(islice(self._suspects, READ_CHUNK))
            self._suspects.difference_update(chunk)
            try:
                records = await self._store.get(chunk)
            except BaseException:
                self._suspects.update(each for each in chunk if each in self._waiting)
                raise
            self._answer(chunk, {record.id: record for record in records})

    def _answer(self, asked: Iterable[str], records: dict[str, JobRecord]) -> None:
        for job_id in asked:
            record = records.get(job_id)
            if record is None or record.state.terminal:
                self._tell(job_id, record)

    def _tell(self, job_id: str, record: JobRecord | None) -> None:
        """Each waiter gets its own error: one raised twice would mix its tracebacks."""
        for future in self._waiting.pop(job_id, ()):
            if not future.done():
                future.set_result(record or _not_found(job_id))

    async def _poll(self) -> None:
        self._hinted = False
        ids = tuple(self._waiting)
        found = False
        for start in range(0, len(ids), POLL_CHUNK):
            chunk = ids[start : start + POLL_CHUNK]
            states = await self._store.states(chunk)
            ended = [each for each in chunk if each not in states or states[each].terminal]
            self.ended(ended)
            found = found or bool(ended)
        self._pace.polled(found=found)
        self._polled_at = self._clock.monotonic()

    async def _pause(self, error: Exception) -> None:
        """The store failed: report once, then look again later and later, at most 4 s apart."""
        if self._failures == 0:
            self._on_error(error, "wait")
        pause = min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 10)
        await self._clock.sleep(pause)

    def _hint(self, hint: Hint) -> None:
        if hint is Hint.ENDED and self._waiting:
            self._hinted = True
            self._pace.reset()
            self._wake.set()


def _not_found(job_id: str) -> JobNotFound:
    return JobNotFound(
        f"there is no job {job_id}: it never was, its retention has passed, "
        "or the transaction that enqueued it is not committed"
    )
