"""Everything the memory backend knows: records, and indexes that are kept with them.

A record is never changed: a transition makes the record as it will be and files it. Filing is
the only write, cannot fail, and keeps every index, so a transition that has decided is applied.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.model.endpoint import Endpoint
from offpath.model.job import TERMINAL, JobRecord, JobState, LeasedJob, UniqueClaim
from offpath.model.lease import WorkerRecord
from offpath.model.schedule import Occurrence, ScheduleRecord
from offpath.runtime.ids import IdGenerator, new_id
from offpath.store.memory.announcing import announcement, wanted
from offpath.store.memory.heap import LazyHeap
from offpath.store.memory.lanes import Lanes
from offpath.store.memory.log import EventLog
from offpath.store.memory.mailbox import Mailbox
from offpath.store.memory.router_tables import Routers
from offpath.store.memory.tally import Tally

_QUEUED = JobState.QUEUED
_RUNNING = JobState.RUNNING


class Terms(Struct, frozen=True, kw_only=True):
    """What was agreed when a job was enqueued and is needed again later."""

    unique: UniqueClaim | None = None
    unique_until: datetime | None = None
    deadline_in: float | None = None
    announce: int = 0

    def in_scope(self, state: JobState, now: datetime) -> bool:
        """Whether a job in ``state`` may have its unique key at ``now``."""
        if self.unique is None or state not in self.unique.states:
            return False
        return self.unique_until is None or now < self.unique_until


PLAIN = Terms()


class ClaimRow(Struct, frozen=True):
    """A claimed name; ``free_at`` is None when it is held for good."""

    holder: str
    free_at: datetime | None


class Tables:
    """The state of one store."""

    __slots__ = (
        "_children",
        "_new_id",
        "_open_children",
        "_terms",
        "claims",
        "endpoints",
        "expiring",
        "expiring_claims",
        "held",
        "jobs",
        "keys",
        "lanes",
        "log",
        "mailbox",
        "occurrences",
        "routers",
        "schedules",
        "tally",
        "workers",
    )

    def __init__(self, ids: IdGenerator = new_id) -> None:
        self._new_id = ids
        self.jobs: dict[str, JobRecord] = {}
        self._terms: dict[str, Terms] = {}  # only of jobs whose terms are not plain
        self.lanes = Lanes()
        self.held: dict[str, dict[str, None]] = {}  # worker -> its running jobs, oldest first
        self.keys: dict[str, str] = {}  # unique key -> who has it
        self._open_children: dict[str, set[str]] = {}  # group -> open members except the root
        self._children: dict[str, set[str]] = {}  # group -> all members except the root
        self.expiring: LazyHeap[datetime] = LazyHeap()
        self.tally = Tally()
        self.workers: dict[str, WorkerRecord] = {}
        self.claims: dict[str, ClaimRow] = {}
        self.expiring_claims: LazyHeap[datetime] = LazyHeap()
        self.mailbox = Mailbox()
        self.log = EventLog()
        self.routers = Routers()
        self.endpoints: dict[str, Endpoint] = {}
        self.schedules: dict[str, ScheduleRecord] = {}
        self.occurrences: dict[str, dict[datetime, Occurrence]] = {}  # of a schedule, by its time

    # -- reading ---------------------------------------------------------------------------

    def terms(self, job_id: str) -> Terms:
        """The terms of a job."""
        return self._terms.get(job_id, PLAIN)

    def held_by(self, job: LeasedJob) -> JobRecord | None:
        """The record of a held job, None when the fence does not hold."""
        record = self.jobs.get(job.id)
        if (
            record is None
            or record.state is not _RUNNING
            or record.worker != job.worker
            or record.deliveries != job.deliveries
        ):
            return None
        return record

    def members(self, group_id: str) -> list[str]:
        """The ids of a group's jobs."""
        root = [group_id] if group_id in self.jobs else []
        return root + sorted(self._children.get(group_id, ()))

    def holder_of(self, key: str, now: datetime) -> JobRecord | None:
        """Who holds a unique key now."""
        holder = self.jobs.get(self.keys.get(key, ""))
        if holder is None or not self.terms(holder.id).in_scope(holder.state, now):
            return None
        return holder

    # -- writing ---------------------------------------------------------------------------

    def agree(self, job_id: str, terms: Terms) -> None:
        """Note the terms of a job, before it is filed."""
        if terms is not PLAIN:
            self._terms[job_id] = terms

    def file(self, job: JobRecord, now: datetime) -> bool:
        """Put a record in the place of the one before, if any.

        True when this ended the last open job of its group.
        """
        before = self.jobs.get(job.id)
        if before is None:
            self.tally.add(job)
        else:
            self._leave(before)
            self.tally.move(before, job)
        self.jobs[job.id] = job
        self._enter(job, now)
        if job.unique_key is not None:
            self._hold_key(job, job.unique_key, now)
        if job.group_id != job.id:
            self._count_child(before, job)
        if job.id in self._terms:
            self._announce(self._terms[job.id].announce, before, job, now)
        if job.state not in TERMINAL or before is None or before.state in TERMINAL:
            return False
        return not self._is_open(job.group_id)

    def _announce(
        self, announce: int, before: JobRecord | None, job: JobRecord, now: datetime
    ) -> None:
        if wanted(announce, before, job):
            self.mailbox.write(announcement(announce, before, job, now, self._new_id), now)

    def drop(self, job: JobRecord) -> None:
        """Remove an ended job and all that belongs to it."""
        self._leave(job)
        self.tally.remove(job)
        del self.jobs[job.id]
        self._terms.pop(job.id, None)
        if job.unique_key is not None:
            self.release_key(job.unique_key, job.id)
        if job.group_id != job.id:
            _discard(self._children, job.group_id, job.id)

    def release_key(self, key: str, job_id: str) -> None:
        """This job has the unique key no more."""
        if self.keys.get(key) == job_id:
            del self.keys[key]

    # -- indexes ---------------------------------------------------------------------------

    def _leave(self, job: JobRecord) -> None:
        if job.state is _QUEUED:
            self.lanes.remove(job)
        elif job.worker is not None:
            jobs = self.held[job.worker]
            del jobs[job.id]
            if not jobs:
                del self.held[job.worker]
        elif job.expires_at is not None:
            self.expiring.remove(job.id)

    def _enter(self, job: JobRecord, now: datetime) -> None:
        if job.state is _QUEUED:
            self.lanes.add(job, now)
        elif job.worker is not None:
            jobs = self.held.get(job.worker)
            if jobs is None:
                jobs = self.held[job.worker] = {}
            jobs[job.id] = None
        elif job.expires_at is not None:
            self.expiring.push(job.id, job.expires_at)

    def _hold_key(self, job: JobRecord, key: str, now: datetime) -> None:
        """A key is held exactly while its job is in scope; a free one is taken (again)."""
        if self.terms(job.id).in_scope(job.state, now):
            if self.holder_of(key, now) is None:
                self.keys[key] = job.id
        else:
            self.release_key(key, job.id)

    def _count_child(self, before: JobRecord | None, job: JobRecord) -> None:
        if before is None:
            self._children.setdefault(job.group_id, set()).add(job.id)
        if job.state not in TERMINAL:
            self._open_children.setdefault(job.group_id, set()).add(job.id)
        elif before is not None and before.state not in TERMINAL:
            _discard(self._open_children, job.group_id, job.id)

    def _is_open(self, group_id: str) -> bool:
        if group_id in self._open_children:
            return True
        root = self.jobs.get(group_id)
        return root is not None and root.group_id == group_id and root.state not in TERMINAL


def _discard(index: dict[str, set[str]], key: str, member: str) -> None:
    """Take a member out, and the key with its last one."""
    members = index[key]
    members.discard(member)
    if not members:
        del index[key]
