"""Everybody who waits for a job or a group in this process, served by one task.

A waiter costs one read when it comes and one when its job ends, both in batches. Jobs that end in
this process are announced by :meth:`Waiters.ended`; those that end elsewhere are found by a hint
of the store or by polling the states of all awaited ids, at a pace that bounds its share of time.
"""

from __future__ import annotations

import asyncio
import contextlib
from itertools import islice
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from offpath.errors import AppClosed, JobNotFound, OffpathError, WaitTimeout
from offpath.jobs.client.standing import of_group, of_job, untaken
from offpath.store.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from offpath.model.group import GroupRecord
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
_LAST_LOOK = 1.0
"""Seconds that a wait which is over may still take to say how its job stands."""


class PollPace:
    """The pause between polls: longer with many waiters, and while nothing ends."""

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


class WaitedKind(Protocol):
    """The kind of thing that is waited for: a job or a group, as the store has it."""

    @property
    def id(self) -> str:
        """Its id."""
        ...


R = TypeVar("R", bound=WaitedKind)
_Futures: TypeAlias = "Wait[R] | set[Wait[R]]"
"""The waits for one id: mostly one, for which a set would be as large as all the rest."""


class Wait(asyncio.Future[R]):
    """A wait that leaves its line by itself when it is cancelled: a frame that did so for it would
    be as large, and there may be very many.
    """

    __slots__ = ("_line", "_wanted")

    def __init__(self, line: WaitLine[R], wanted: str) -> None:
        super().__init__()
        self._line = line
        self._wanted = wanted

    def cancel(self, msg: object = None) -> bool:
        """Leave the line, as a task does for what it awaits when it is cancelled."""
        if not self.done():
            self._line.leave(self._wanted, self)
        return super().cancel(msg)

    def answer(self, answer: R | OffpathError) -> None:
        """End the wait with a record, or with an error."""
        if isinstance(answer, OffpathError):
            self.set_exception(answer)
        else:
            self.set_result(answer)


class WaitLine(Generic[R]):
    """The waits for one kind of thing: id to futures, and the ids that are worth a read."""

    def __init__(
        self,
        word: str,
        read: Callable[[Sequence[str]], Awaitable[Sequence[R]]],
        *,
        ended: Callable[[R], bool],
        standing: Callable[[R], str],
        why: Callable[[R], Awaitable[str]] | None = None,
    ) -> None:
        self.word = word
        self.standing = standing
        self.why = why
        """The reason why it has not ended, by what the fleet says; asked when the wait is over."""
        self.read = read
        self.ended = ended
        self.waiting: dict[str, _Futures[R]] = {}
        self.suspects: set[str] = set()
        self.left: Callable[[], None] = _unheard
        """Hears that somebody waits no more."""

    def enter(self, wanted: str) -> Wait[R]:
        """Begin to wait."""
        future = Wait(self, wanted)
        there = self.waiting.get(wanted)
        if there is None:
            self.waiting[wanted] = future
        elif isinstance(there, set):
            there.add(future)
        else:
            self.waiting[wanted] = {there, future}
        self.suspects.add(wanted)
        return future

    def leave(self, wanted: str, future: Wait[R]) -> None:
        """Wait no more."""
        there = self.waiting.get(wanted)
        if isinstance(there, set):
            there.discard(future)
        if not there or there is future:
            self.waiting.pop(wanted, None)
            self.suspects.discard(wanted)
        self.left()

    def suspect(self, ids: Iterable[str]) -> bool:
        """Note that these may have ended; True if somebody waits for one of them."""
        found = [each for each in ids if each in self.waiting] if self.waiting else ()
        self.suspects.update(found)
        return bool(found)

    async def read_suspects(self) -> bool:
        """Read what may have ended, and tell who waits for what has; whether anything had."""
        told = False
        while self.suspects:
            chunk = tuple(islice(self.suspects, READ_CHUNK))
            self.suspects.difference_update(chunk)
            try:
                records = await self.read(chunk)
            except BaseException:
                self.suspects.update(each for each in chunk if each in self.waiting)
                raise
            found = {record.id: record for record in records}
            for each in chunk:
                record = found.get(each)
                if record is None or self.ended(record):
                    told = True
                    self._tell(each, record)
        return told

    def _tell(self, wanted: str, record: R | None) -> None:
        """Each waiter gets its own error: one raised twice would mix its tracebacks."""
        for future in _each(self.waiting.pop(wanted, None)):
            if not future.done():
                future.answer(record or _not_found(self.word, wanted))

    def close(self) -> None:
        """End every wait."""
        for futures in self.waiting.values():
            for future in _each(futures):
                if not future.done():
                    future.answer(AppClosed("the app was closed while this wait went on"))


class Waiters:
    """The waits of one open app. Belongs to one event loop."""

    def __init__(
        self, store: Store, clock: Clock, on_error: Callable[[Exception, str], None]
    ) -> None:
        self._store = store
        self.clock = clock
        self._on_error = on_error
        self._jobs: WaitLine[JobRecord] = WaitLine(
            "job",
            self._get,
            ended=lambda job: job.state.terminal,
            standing=of_job,
            why=lambda job: untaken(job, store),
        )
        self._groups: WaitLine[GroupRecord] = WaitLine(
            "group", self._get_groups, ended=lambda one: one.done, standing=of_group
        )
        self._jobs.left = self._groups.left = self._left
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unlisten: Callable[[], None] | None = None
        self._pace = PollPace()
        self._polled_at = 0.0
        self._hinted = False
        self._failures = 0
        self._closed = False

    def __len__(self) -> int:
        """The number of ids that are waited for."""
        return len(self._jobs.waiting) + len(self._groups.waiting)

    @property
    def idle(self) -> bool:
        """True if nothing runs here: no task, no polling."""
        return self._task is None

    def wait(self, job_id: str, timeout: float | None) -> Awaitable[JobRecord]:
        """The record of a job once it has ended. Await it at once: the wait has begun.

        Raises ``WaitTimeout`` after ``timeout`` seconds, ``JobNotFound`` when there is no such
        job (any more), ``AppClosed`` when the app is closed meanwhile.
        """
        return self._wait(self._jobs, job_id, timeout)

    async def wait_group(self, group_id: str, timeout: float | None) -> GroupRecord:  # noqa: ASYNC109
        """The record of a group once all its jobs have ended; raises as :meth:`wait`."""
        return await self._wait(self._groups, group_id, timeout)

    def awaits_group(self, group_id: str) -> bool:
        """True if somebody waits for this group here."""
        return group_id in self._groups.waiting

    def ended(self, ids: Iterable[str]) -> None:
        """Jobs ended in this process: whoever waits for one of them is told soon."""
        if self._jobs.suspect(ids):
            self._wake.set()

    def groups_done(self, ids: Iterable[str]) -> None:
        """Groups ended in this process."""
        if self._groups.suspect(ids):
            self._wake.set()

    async def close(self) -> None:
        """End every wait with ``AppClosed``. Idempotent."""
        self._closed = True
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        self._jobs.close()
        self._groups.close()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    # -- one wait ------------------------------------------------------------------------------

    def _wait(self, line: WaitLine[R], wanted: str, timeout: float | None) -> Awaitable[R]:
        self._require_open()
        if timeout is None:
            return self._entered(line, wanted)
        if timeout <= 0:
            return _look_once(line, wanted)
        return self._within(line, wanted, timeout)

    def _entered(self, line: WaitLine[R], wanted: str) -> Wait[R]:
        wait = line.enter(wanted)
        self._serve()
        return wait

    async def _within(self, line: WaitLine[R], wanted: str, timeout: float) -> R:  # noqa: ASYNC109
        """The record, or an error when the clock's timeout comes first."""
        wait = self._entered(line, wanted)
        sleeper = asyncio.ensure_future(self.clock.sleep(timeout))
        try:
            await asyncio.wait((wait, sleeper), return_when=asyncio.FIRST_COMPLETED)
            if wait.done():
                return wait.result()
        finally:
            sleeper.cancel()
            if not (wait.cancel() or wait.cancelled()):
                wait.exception()  # whoever was cancelled just then does not ask for it
        raise await _late(line, wanted, f"had not ended after {timeout:g} s")

    def _left(self) -> None:
        if not len(self):
            self._wake.set()

    def _require_open(self) -> None:
        if self._closed:
            raise AppClosed("the app is closed: nothing can be awaited any more")

    def _serve(self) -> None:
        self._pace.reset()
        self._wake.set()
        if self._unlisten is None:
            self._unlisten = self._store.listen(self._hint)
        if self._task is None:
            self._polled_at = self.clock.monotonic()
            self._task = asyncio.create_task(self._run(), name="offpath waiters")

    async def _get(self, ids: Sequence[str]) -> Sequence[JobRecord]:
        return await self._store.get(ids)

    async def _get_groups(self, ids: Sequence[str]) -> Sequence[GroupRecord]:
        return await self._store.groups(ids)

    # -- the task that serves all ----------------------------------------------------------------

    async def _run(self) -> None:
        while len(self):
            try:
                await self._round()
                self._failures = 0
            except Exception as error:  # noqa: BLE001 - waits outlive whatever the store does
                await self._pause(error)
        self._task = None

    async def _round(self) -> None:
        await self._jobs.read_suspects()
        await self._groups.read_suspects()
        if not len(self):
            return
        due_in = self._polled_at + self._interval() - self.clock.monotonic()
        if due_in > 0:
            await self.clock.wait(self._wake, due_in)
        else:
            await self._poll()
        self._wake.clear()

    def _interval(self) -> float:
        waiters = len(self)
        return self._pace.shortest(waiters) if self._hinted else self._pace.interval(waiters)

    async def _poll(self) -> None:
        self._hinted = False
        found = False
        for chunk in _chunks(tuple(self._jobs.waiting)):
            states = await self._store.states(chunk)
            ended = [each for each in chunk if each not in states or states[each].terminal]
            self.ended(ended)
            found = found or bool(ended)
        if self._groups.waiting:  # reading a group costs as little as asking whether it is done
            self._groups.suspect(tuple(self._groups.waiting))
            found = await self._groups.read_suspects() or found
        self._pace.polled(found=found)
        self._polled_at = self.clock.monotonic()

    async def _pause(self, error: Exception) -> None:
        """The store failed: report once, then look again later and later, at most 4 s apart."""
        if self._failures == 0:
            self._on_error(error, "wait")
        pause = min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 10)
        await self.clock.sleep(pause)

    def _hint(self, hint: Hint) -> None:
        if hint is Hint.ENDED and len(self):
            self._hinted = True
            self._pace.reset()
            self._wake.set()


def _unheard() -> None:
    """Nobody listens yet."""


def _each(futures: _Futures[R] | None) -> Iterable[Wait[R]]:
    if futures is None:
        return ()
    return futures if isinstance(futures, set) else (futures,)


def _chunks(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + POLL_CHUNK] for start in range(0, len(ids), POLL_CHUNK))


async def _look_once(line: WaitLine[R], wanted: str) -> R:
    found = await line.read((wanted,))
    if not found:
        raise _not_found(line.word, wanted)
    if not line.ended(found[0]):
        raise _timed_out(line, found[0], "has not ended", await _why(line, found[0]))
    return found[0]


async def _late(line: WaitLine[R], wanted: str, what: str) -> WaitTimeout:
    """The error of a wait whose time is over, with its standing if the store says so in time."""
    found: Sequence[R] = ()
    with contextlib.suppress(OffpathError, TimeoutError):
        async with asyncio.timeout(_LAST_LOOK):
            found = await line.read((wanted,))
    if found:
        return _timed_out(line, found[0], what, await _why(line, found[0]))
    return WaitTimeout(f"{line.word} {wanted} {what}; it goes on")


async def _why(line: WaitLine[R], record: R) -> str:
    """The fleet's account of it, if it comes in time."""
    if line.why is not None:
        with contextlib.suppress(OffpathError, TimeoutError):
            async with asyncio.timeout(_LAST_LOOK):
                return await line.why(record)
    return ""


def _timed_out(line: WaitLine[R], record: R, what: str, why: str) -> WaitTimeout:
    error = WaitTimeout(f"{line.word} {record.id} {what}: {line.standing(record)}{why}")
    error.record = record
    return error


def _not_found(word: str, wanted: str) -> JobNotFound:
    return JobNotFound(
        f"there is no {word} {wanted}: it never was, its retention has passed, "
        "or the transaction that enqueued it is not committed"
    )
