"""A handle: one enqueued job, seen from the side that wants its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

import msgspec

from offpath.errors import GroupFailed, InvalidArgument, JobCancelled, JobDead, JobNotFound
from offpath.jobs.values.job import G_co, S_co
from offpath.model.job import DeadReason, JobRecord, JobState, Progress
from offpath.model.other_words import OF_HANDLE, refusing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable
    from datetime import timedelta

    from offpath.model.group import GroupRecord

_progress_decoder = msgspec.json.Decoder(Progress)


class Desk(Protocol):
    """The app, where handles ask: it is open."""

    def wait(self, job_id: str, timeout: float | timedelta | None) -> Awaitable[JobRecord]:
        """The record of a job once it has ended."""
        ...

    async def record(self, job_id: str) -> JobRecord:
        """The record of a job as it is now."""
        ...

    async def cancel_job(self, job_id: str) -> bool:
        """Ask for a job's cancellation; whether there was something to cancel."""
        ...

    async def wait_group(self, group_id: str, timeout: float | timedelta | None) -> GroupRecord:  # noqa: ASYNC109
        """The record of a group once it is done."""
        ...

    async def failed_members(self, group_id: str) -> tuple[JobRecord, ...]:
        """Members that are dead or cancelled, those that failed by themselves first."""
        ...

    async def cancel_group(self, group_id: str) -> int:
        """Cancel all open jobs of a group; how many that concerns."""
        ...


class Handle(Generic[S_co, G_co]):
    """One enqueued job. Cheap, and holds no resource: thousands may be kept or dropped."""

    __slots__ = ("_created", "_decode", "_decode_group", "_desk", "_id")

    def __init__(
        self,
        job_id: str,
        desk: Desk,
        decode: Callable[[str | None], Any],
        decode_group: Callable[[str | None], Any] | None = None,
        *,
        created: bool = True,
    ) -> None:
        self._id = job_id
        self._desk = desk
        self._decode = decode
        self._decode_group = decode_group or decode
        self._created = created

    if not TYPE_CHECKING:  # a type checker says itself that there is no such attribute
        __getattr__ = refusing(OF_HANDLE)

    def __repr__(self) -> str:
        """Show the id."""
        return f"<Handle {self._id}>"

    @property
    def id(self) -> str:
        """The job's id: of the holder, when the enqueue attached to a unique key's holder."""
        return self._id

    @property
    def created(self) -> bool:
        """True if this enqueue made the job; False for a repeat, an attach or a replace."""
        return self._created

    def __await__(self) -> Generator[Any, None, G_co]:
        """Wait for the job and everything it led to; returns the group's value: :meth:`group`."""
        return self.group().__await__()

    async def group(
        self,
        *,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109
        allow_failed: bool = False,
    ) -> G_co:
        """Wait until every job of the group has ended, and return the group's value.

        The group is the job, the jobs that its handler queued, those that these queued, and so on.
        Its value is what was given last, unless one was final or they were folded; None when
        nobody gave any. ``timeout`` is in seconds; None waits for as long as it takes. A wait that
        times out or is cancelled leaves the jobs alone.

        Raises ``GroupFailed``, with the value and the members inside, when one of them died or was
        cancelled, unless ``allow_failed``: the value is then what the others gave, which is a
        part's where the job died that was to give the whole. Also raises ``WaitTimeout``;
        ``JobNotFound`` when none of them is in the store (any more); ``InvalidArgument`` when the
        value is not of the declared type.
        """
        group = await self._desk.wait_group(await self._group_id(), timeout)
        if group.failed and not allow_failed:
            raise await self._failed(group)
        return cast("G_co", self._decode_group(group.result))

    async def _group_id(self) -> str:
        """A new job is the first of its group; one that was there already may belong to another."""
        if self._created:
            return self._id
        try:
            return (await self._desk.record(self._id)).group_id
        except JobNotFound:  # others of its group may still be there
            return self._id

    async def _failed(self, group: GroupRecord) -> GroupFailed:
        members = await self._desk.failed_members(group.id)
        first = f", the first: {_end_of(members[0])}" if members else ""
        return GroupFailed(
            f"group {group.id} is done, and {group.failed} of its jobs died or were cancelled"
            f"{first}; handle.group(allow_failed=True) gives its value all the same, as it is "
            "without theirs: it need not be what the group was to give",
            id=group.id,
            value=_read_if_possible(self._decode_group, group.result),
            members=members,
        )

    async def result(self, *, timeout: float | timedelta | None = None) -> S_co:  # noqa: ASYNC109
        """Wait for the job to end and return what its handler returned.

        The job alone: not the jobs that it queued. None when it queued others in place of a value.
        ``timeout`` is in seconds; None waits for as long as it takes. A wait that times out or is
        cancelled leaves the job alone.

        Raises ``JobDead``, ``JobCancelled``, ``WaitTimeout``, and ``JobNotFound`` when the job
        does not exist: its retention has passed, or the transaction it was enqueued within is
        not committed.
        """
        waiting, decode = self._desk.wait(self._id, timeout), self._decode
        del self  # very many may wait, and a handle that nobody else has need not wait with them
        value: S_co = result_of(await waiting, decode)
        return value

    async def status(self) -> JobRecord:
        """Everything the store knows of the job now. Raises ``JobNotFound``."""
        return await self._desk.record(self._id)

    async def progress(self) -> Progress | None:
        """The value that the handler last gave to ``ctx.progress``; None when it gave none."""
        return progress_of(await self._desk.record(self._id))

    async def cancel(self) -> bool:
        """Cancel the job: a waiting one at once, a running one as soon as its handler yields.

        Returns False when it had ended already (or does not exist).
        """
        return await self._desk.cancel_job(self._id)

    async def cancel_group(self) -> int:
        """Cancel the job and every job of its group that has not ended; how many that concerns.

        Waiting ones end at once, running ones as soon as their handlers yield, and what would
        still join the group is cancelled as well.
        """
        return await self._desk.cancel_group(await self._group_id())


def _read_if_possible(decode: Callable[[str | None], Any], text: str | None) -> Any:  # noqa: ANN401
    """The group has failed, and that is to be told, also when its value cannot be read."""
    try:
        return decode(text)
    except InvalidArgument:
        return None


def result_of(record: JobRecord, decode: Callable[[str | None], Any]) -> Any:  # noqa: ANN401
    """The decoded result of an ended job. Raises ``JobDead`` or ``JobCancelled``."""
    if record.state is JobState.SUCCEEDED:
        return decode(record.result)
    text = _end_of(record)
    if record.state is JobState.CANCELLED:
        raise JobCancelled(text, id=record.id)
    raise JobDead(text, id=record.id, reason=_reason(record), failure=record.failure)


def _end_of(record: JobRecord) -> str:
    """The end of a job that has no result: its fate, and its last error."""
    name = f"job {record.id} ({record.task})"
    if record.state is JobState.CANCELLED:
        return f"{name} was cancelled"
    failure = record.failure
    said = f": {failure.type}: {failure.message}" if failure else ""
    return f"{name} is dead ({record.reason}){said}"


def causes_first(members: Iterable[JobRecord]) -> tuple[JobRecord, ...]:
    """Members that failed: by themselves, then the cancelled, then those that died of others."""
    return tuple(sorted(members, key=_distance))


def _distance(record: JobRecord) -> int:
    if record.state is JobState.CANCELLED:
        return 1
    return 2 if record.reason == DeadReason.UNSATISFIABLE else 0


def _reason(record: JobRecord) -> DeadReason:
    try:
        return DeadReason(record.reason or "")
    except ValueError:  # a later version's reason: the message shows it, the type cannot
        return DeadReason.EXHAUSTED


def progress_of(record: JobRecord) -> Progress | None:
    """The decoded progress of a job, None when it never told any."""
    return None if record.progress is None else _progress_decoder.decode(record.progress)
