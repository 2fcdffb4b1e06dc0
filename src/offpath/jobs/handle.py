"""A handle: one enqueued job, seen from the side that wants its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

import msgspec

from offpath.errors import JobCancelled, JobDead
from offpath.jobs.job import G_co, S_co
from offpath.model.job import DeadReason, JobRecord, JobState, Progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

_progress_decoder = msgspec.json.Decoder(Progress)


class Desk(Protocol):
    """Where handles ask: the open app."""

    async def wait(self, job_id: str, timeout: float | timedelta | None) -> JobRecord:  # noqa: ASYNC109
        """The record of a job once it has ended."""
        ...

    async def record(self, job_id: str) -> JobRecord:
        """The record of a job as it is now."""
        ...

    async def cancel_job(self, job_id: str) -> bool:
        """Ask for a job's cancellation; whether there was something to cancel."""
        ...


class Handle(Generic[S_co, G_co]):
    """One enqueued job. Cheap, and holds no resource: thousands may be kept or dropped."""

    __slots__ = ("_created", "_decode", "_desk", "_id")

    def __init__(
        self,
        job_id: str,
        desk: Desk,
        decode: Callable[[str | None], Any],
        *,
        created: bool = True,
    ) -> None:
        self._id = job_id
        self._desk = desk
        self._decode = decode
        self._created = created

    def __repr__(self) -> str:
        """Show the id."""
        return f"<Handle {self._id}>"

    @property
    def id(self) -> str:
        """The job's id: of the holder, when the enqueue attached to a unique key's holder."""
        return self._id

    @property
    def created(self) -> bool:
        """Whether this enqueue made the job; False for a repeat, an attach or a replace."""
        return self._created

    async def result(self, *, timeout: float | timedelta | None = None) -> S_co:  # noqa: ASYNC109
        """Wait for the job to end and return what its handler returned.

        ``timeout`` is in seconds; None waits for as long as it takes. A wait that times out or is
        cancelled leaves the job alone.

        Raises ``JobDead``, ``JobCancelled``, ``WaitTimeout``, and ``JobNotFound`` when the job
        does not exist: its retention has passed, or the transaction it was enqueued within is
        not committed.
        """
        return cast("S_co", result_of(await self._desk.wait(self._id, timeout), self._decode))

    async def status(self) -> JobRecord:
        """Everything the store knows of the job now. Raises ``JobNotFound``."""
        return await self._desk.record(self._id)

    async def progress(self) -> Progress | None:
        """What the handler last told with ``ctx.progress``; None when it told nothing."""
        return progress_of(await self._desk.record(self._id))

    async def cancel(self) -> bool:
        """Cancel the job: a waiting one at once, a running one as soon as its handler yields.

        Returns False when it had ended already (or does not exist).
        """
        return await self._desk.cancel_job(self._id)


def result_of(record: JobRecord, decode: Callable[[str | None], Any]) -> Any:  # noqa: ANN401
    """The decoded result of an ended job. Raises ``JobDead`` or ``JobCancelled``."""
    if record.state is JobState.SUCCEEDED:
        return decode(record.result)
    name = f"job {record.id} ({record.task})"
    if record.state is JobState.CANCELLED:
        raise JobCancelled(f"{name} was cancelled", id=record.id)
    failure = record.failure
    said = f": {failure.type}: {failure.message}" if failure else ""
    raise JobDead(
        f"{name} is dead ({record.reason}){said}",
        id=record.id,
        reason=_reason(record),
        failure=failure,
    )


def _reason(record: JobRecord) -> DeadReason:
    try:
        return DeadReason(record.reason or "")
    except ValueError:  # a later version's reason: the message shows it, the type cannot
        return DeadReason.EXHAUSTED


def progress_of(record: JobRecord) -> Progress | None:
    """The decoded progress of a job, None when it never told any."""
    return None if record.progress is None else _progress_decoder.decode(record.progress)
