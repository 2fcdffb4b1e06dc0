"""The context of a running handler: its job, and the verbs that it can use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from offpath.errors import InvalidArgument
from offpath.jobs.handler.durable.verbs import DurableVerbs
from offpath.jobs.handler.fan_in import FanInVerbs
from offpath.jobs.handler.notes import making
from offpath.jobs.handler.plan_verbs import PlanVerbs
from offpath.jobs.values.job import Job
from offpath.jobs.values.run import LEASE_DOUBTED, Interruption
from offpath.jobs.values.signals import Signal, in_loop
from offpath.model import checks
from offpath.model.headers import decoded_headers
from offpath.model.job import Progress
from offpath.model.joined_limits import first_of
from offpath.runtime import log
from offpath.runtime.failures import clean

if TYPE_CHECKING:
    import logging
    from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from offpath.jobs.handler.durable.book import StepBook
    from offpath.jobs.handler.notes import Notes
    from offpath.jobs.handler.resources import Resource
    from offpath.model.job import JobState
    from offpath.model.ledger.decision import LedgerOp
    from offpath.model.ledger.posting import NewPosting

T = TypeVar("T")

NOTE_LIMIT = 1_000


class _Ready:
    """Awaitable that is ready: lets one method serve coroutines and threads alike."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield  # makes this a generator


_DONE = _Ready()


class JobContext(FanInVerbs, PlanVerbs):
    """One attempt of one job, however it is run. Usable from coroutines and threads.

    Everything written through it is joined to the end of the attempt: jobs enqueued here exist
    when, and only when, the attempt's success (or snooze) is recorded.
    """

    __slots__ = ("_host", "_log_fields", "_notes", "_run")

    def __init__(self, notes: Notes, log_fields: Mapping[str, Any] | None = None) -> None:
        self._notes = notes
        self._run = notes.run
        self._host = notes.host
        self._log_fields = log_fields

    def __repr__(self) -> str:
        """Show which attempt of which job; never its input."""
        job, kind = self._run.job, type(self).__name__
        return f"<{kind} task={job.task!r} id={job.id!r} attempt={job.attempt}>"

    # -- what it is --------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The job's id: the same at every attempt, so fit as an idempotency key."""
        return self._run.job.id

    @property
    def group_id(self) -> str:
        """The group the job is counted in."""
        return self._run.job.group_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. Snoozes, releases and lost workers do not count."""
        return self._run.job.attempt

    @property
    def deliveries(self) -> int:
        """The number of times that the job was handed to a worker, this time included."""
        return self._run.job.deliveries

    @property
    def parent(self) -> str | None:
        """Id of the job whose handler enqueued this one."""
        return self._run.job.parent

    @property
    def dependents(self) -> tuple[str, ...]:
        """Ids of the jobs that this one waited for."""
        return self._run.job.dependents

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that it was enqueued with; empty when there were none."""
        return decoded_headers(self._run.job.headers)

    @property
    def task(self) -> str:
        """The task's name."""
        return self._run.job.task

    @property
    def queue_name(self) -> str:
        """The queue it came from."""
        return self._run.job.queue

    @property
    def deadline(self) -> datetime | None:
        """The time when the whole job must have succeeded, by the store's clock; None: never too
        late.
        """
        return self._run.job.deadline

    @property
    def scheduled_for(self) -> datetime | None:
        """The occurrence that a schedule made it for: the nominal time, however late it runs.

        The same at every attempt. None for a job that no schedule made.
        """
        return self._run.options.scheduled_for

    def now(self) -> datetime:
        """Return the store's present time (the clock that deadlines go by)."""
        return self._run.store_time.at(self._host.clock.monotonic())

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry job id, task, attempt and the ``log_context``."""
        job = self._run.job
        fields = {"job_id": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempt}
        return log.adapter("job", {**fields, **(self._log_fields or {})}, self._host.secrets)

    # -- must it end? ------------------------------------------------------------------------

    @property
    def cancelled(self) -> Signal:
        """Set when this attempt must end: cancelled, timed out, past its deadline, worker stopping.

        An async handler is also cancelled where it awaits; a sync one should look now and then.
        """
        notes = self._notes
        with making:
            if notes.cancelled is None:
                told = self._run.interrupted is not None
                notes.cancelled = Signal(self._host.loop, is_set=told)
            return notes.cancelled

    @property
    def lease_lost(self) -> Signal:
        """Set when another worker may be running this job: nothing this attempt does counts."""
        notes = self._notes
        with making:
            if notes.lease_lost is None:
                told = self._run.interrupted in LEASE_DOUBTED
                notes.lease_lost = Signal(self._host.loop, is_set=told)
            return notes.lease_lost

    @property
    def interruption(self) -> Interruption | None:
        """The reason why the attempt must end; None while it may go on."""
        return self._run.interrupted

    # -- asking and writing --------------------------------------------------------------------

    async def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Return the states of these jobs; unknown ids are absent."""
        return await self._host.store.states(ids)

    async def claim(self, key: str, *, ttl: float | None = None) -> bool:
        """Claim ``key`` once in the fleet; whether this job has it.

        The claim is held by the job, not by the attempt: a re-run of this job gets True again.
        ``ttl`` seconds later it is free again; None keeps it for good.
        """
        return await self._host.store.claim(key, self._run.job.id, ttl=ttl)

    async def resource(self, resource: Resource[T], /) -> T:
        """Return what ``app.resource(...)`` stands for, opened at its first use in this process.

        Raises what opening it raises; the next attempt opens it anew.
        """
        return await self._host.resources.get(resource)

    async def cool_down(self, seconds: float | timedelta) -> bool:
        """Start no more jobs of this job's limit key for so long, on any worker; this one goes on.
        Of several limits the one that was named first is meant.

        To run this job again later as well, raise :class:`offpath.CoolDown` instead. False: the
        job has no limit, nothing was done. Raises ``InvalidArgument``.
        """
        rest = checks.seconds(seconds, "seconds")
        key = self._run.job.limit_key
        if key is None:
            return False
        await self._host.store.close_limit(first_of(key), seconds=rest)
        return True

    def enqueue(self, jobs: Job[Any, Any] | Iterable[Job[Any, Any]], /) -> None:
        """Enqueue jobs together with the end of this attempt.

        They join this job's group with it as their parent. Dropped when the attempt fails, so a
        retry does not enqueue them twice. Raises InvalidArgument after the attempt has ended.
        """
        self._require_going()
        several = (jobs,) if isinstance(jobs, Job) else tuple(jobs)
        self._notes.jobs.extend(several)

    def publish(
        self,
        topic: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        key: str | None = None,
        stream: str = "default",
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Publish an event together with the end of this attempt; returns the event's id.

        As :meth:`enqueue`: dropped when the attempt fails. Events do not count in this job's
        group: a group is done when its work is, whether or not everybody has been told.
        """
        self._require_going()
        writer = self._host.writer
        event = writer.message(topic, payload, key=key, stream=stream, headers=headers)
        self._notes.messages.append(event)
        return event.id

    def append(
        self,
        domain: str,
        type: str,  # noqa: A002 - the log's word
        stream: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Append an event to the log together with the end of this attempt; returns its id.

        As :meth:`publish`: dropped when the attempt fails.
        """
        self._require_going()
        event = self._host.writer.log_event(domain, type, stream, payload, key=key, headers=headers)
        self._notes.log.append(event)
        return event.id

    def post(self, posting: NewPosting | LedgerOp) -> None:
        """Make a posting of the ledger together with the end of this attempt.

        As :meth:`enqueue`: dropped when the attempt fails. Give the posting an id that every
        attempt gives, made of :attr:`id` for instance, and it is made once. When the ledger does
        not take it, the attempt's success is refused. An overdraft counts as its failure and is
        retried; an operation that is declined (``OperationDeclined``), or one that cannot be, such
        as another posting under a known id, ends the job as dead with that error at once. Raises
        ``LedgerError`` kinds for a posting that cannot be.
        """
        from offpath.model.ledger.plain import operation_of

        self._require_going()
        self._notes.operations.append(operation_of(posting))

    def _require_going(self) -> None:
        if self._run.over:
            raise InvalidArgument(
                f"the attempt of job {self.id} has ended: nothing can be joined to it any more"
            )

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> _Ready:
        """Tell how far the job is. Written at most about once a second, the last call wins.

        Both ``await ctx.progress(...)`` and a plain call (from a sync handler) do it.
        """
        _check_amount(done, "done")
        if total is not None:
            _check_amount(total, "total")
        text = None if note is None else clean(note, NOTE_LIMIT)
        self._notes.progress = Progress(done=done, total=total, note=text, at=self.now())
        if in_loop(self._host.loop):
            self._host.progressed(self._run)
        else:
            self._host.loop.call_soon_threadsafe(self._host.progressed, self._run)
        return _DONE

    def blocking(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait in a sync handler's thread for a coroutine that runs in the worker's loop.

        ``ctx.blocking(ctx.claim("x"))``. A blocking function that the coroutine has to call
        (``ctx.blocking(ctx.step("x", blocking_function))``) runs in this thread. Raises
        RuntimeError inside the loop: await it there.
        """
        if in_loop(self._host.loop):
            call.close()
            raise RuntimeError(
                "Context.blocking() is for sync handlers: in a coroutine use await instead"
            )
        from offpath.jobs.handler.durable.lent_thread import Thread

        return Thread(self._host.loop).wait_for(call)


def notes_of(ctx: JobContext) -> Notes:
    """The engine's side of a context."""
    return ctx._notes  # noqa: SLF001 - the one way to it


class Context(DurableVerbs, JobContext):
    """One attempt of one job, as its handler sees it. Usable from coroutines and threads.

    Everything written through it is joined to the end of the attempt: jobs enqueued here exist
    when, and only when, the attempt's success (or snooze) is recorded.
    """

    __slots__ = ()

    def _opened(self) -> StepBook:
        notes = self._notes
        if notes.book is None:
            from offpath.jobs.handler.durable.book import StepBook

            notes.book = StepBook(self._run, self._host)
        notes.book.require_going()
        return notes.book


def _check_amount(value: object, name: str) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return
    raise InvalidArgument(f"progress: {name} must be a finite number, not {value!r}")
