"""Everything the memory backend knows: records, and indexes that are kept with them.

A record is never changed: a transition makes the record as it will be and files it. Filing is
the only write, cannot fail, and keeps every index, so a transition that has decided is applied.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.model.action import ActionRecord
from offpath.model.declaration import Declaration
from offpath.model.endpoint import Endpoint
from offpath.model.finding import FindingRecord
from offpath.model.group import GroupPolicy
from offpath.model.job import TERMINAL, BlockReason, JobRecord, JobState, LeasedJob
from offpath.model.lease import WorkerAnswer, WorkerAsk, WorkerRecord
from offpath.model.post import PostRecord
from offpath.model.run import RunRecord
from offpath.model.schedule import Occurrence, ScheduleRecord
from offpath.runtime.ids import IdGenerator, new_id
from offpath.store.memory.gate_rows import Gates
from offpath.store.memory.group_rows import Groups
from offpath.store.memory.indexes import JobTally, LazyHeap, Suspects
from offpath.store.memory.lanes import Lanes
from offpath.store.memory.ledger_rows import Ledger
from offpath.store.memory.limit_rows import Limits
from offpath.store.memory.log import MemoryEventLog
from offpath.store.memory.mailbox import Mailbox
from offpath.store.memory.router_tables import MemoryRouters
from offpath.store.memory.waits import Waits
from offpath.store.memory.workflow_rows import Signals, Steps
from offpath.store.refusals import not_held
from offpath.store.rows.announcements import announcement, wanted
from offpath.store.rows.jobs import PLAIN, JobTerms, holds

_SETTLE_ALL = GroupPolicy.SETTLE_ALL
_BLOCKED = JobState.BLOCKED
_QUEUED = JobState.QUEUED
_RUNNING = JobState.RUNNING


class ClaimRow(Struct, frozen=True):
    """A claimed name; ``free_at`` is None when it is held for good."""

    holder: str
    free_at: datetime | None


class Tables:
    """The state of one store."""

    __slots__ = (
        "_new_id",
        "_terms",
        "actions",
        "answers",
        "asks",
        "claims",
        "declarations",
        "endpoints",
        "expiring",
        "expiring_claims",
        "fault_keys",
        "findings",
        "gates",
        "groups",
        "held",
        "jobs",
        "keys",
        "lanes",
        "ledger",
        "limits",
        "log",
        "mailbox",
        "occurrences",
        "pauses",
        "posts",
        "redriven",
        "routers",
        "running_of",
        "runs",
        "schedules",
        "signals",
        "stats",
        "steps",
        "suspects",
        "tally",
        "waits",
        "workers",
    )

    def __init__(self, ids: IdGenerator = new_id) -> None:
        self._new_id = ids
        self.jobs: dict[str, JobRecord] = {}
        self._terms: dict[str, JobTerms] = {}  # only of jobs whose terms are not plain
        self.lanes = Lanes()
        self.held: dict[str, dict[str, None]] = {}  # worker -> its running jobs, oldest first
        self.fault_keys: dict[str, str] = {}  # dead job -> the fault of its last attempt
        self.redriven: dict[str, datetime] = {}  # job -> when it was last put back
        self.keys: dict[str, str] = {}  # unique key -> who has it
        self.declarations: dict[tuple[str, str, str], Declaration] = {}  # by kind, name, text
        self.actions: dict[str, ActionRecord] = {}
        self.stats: dict[tuple[int, int, str], str] = {}
        """The rows of stats, by step, time and source."""
        self.runs: dict[str, RunRecord] = {}
        self.findings: dict[str, FindingRecord] = {}  # those that stand, by name
        self.groups = Groups()
        self.gates = Gates()
        self.steps = Steps()
        self.suspects = Suspects()
        self.waits = Waits()
        self.signals = Signals()
        self.limits = Limits()
        self.pauses: dict[str, datetime | None] = {}  # queue -> its end, None: until resumed
        self.running_of: dict[str | None, int] = {}  # fair key -> its running jobs
        self.expiring: LazyHeap[datetime] = LazyHeap()
        self.tally = JobTally()
        self.workers: dict[str, WorkerRecord] = {}
        self.asks: dict[str, dict[str, WorkerAsk]] = {}  # worker -> unanswered requests by id
        self.answers: dict[str, WorkerAnswer] = {}  # worker -> its last answer
        self.claims: dict[str, ClaimRow] = {}
        self.expiring_claims: LazyHeap[datetime] = LazyHeap()
        self.mailbox = Mailbox()
        self.log = MemoryEventLog()
        self.ledger = Ledger()
        self.routers = MemoryRouters()
        self.endpoints: dict[str, Endpoint] = {}
        self.posts: dict[str, tuple[PostRecord, ...]] = {}
        """The newest posts to each endpoint."""
        self.schedules: dict[str, ScheduleRecord] = {}
        self.occurrences: dict[str, dict[datetime, Occurrence]] = {}  # of a schedule, by its time

    # -- reading ---------------------------------------------------------------------------

    def terms(self, job_id: str) -> JobTerms:
        """The terms of a job."""
        return self._terms.get(job_id, PLAIN)

    def held_by(self, job: LeasedJob) -> JobRecord | None:
        """The record of a held job, None when the fence does not hold."""
        record = self.jobs.get(job.id)
        return record if record is not None and holds(record, job) else None

    def fenced(self, job: LeasedJob) -> JobRecord:
        """The record of a held job. Raises LeaseLost when the fence does not hold."""
        held = self.held_by(job)
        if held is None:
            raise not_held(job.id)
        return held

    def members(self, group_id: str) -> list[str]:
        """The ids of a group's jobs."""
        root = [group_id] if group_id in self.jobs else []
        return root + sorted(self.groups.members.get(group_id, ()))

    def root_of(self, group_id: str) -> JobRecord | None:
        """The job that a group is named after, when it is there and its own."""
        root = self.jobs.get(group_id)
        return root if root is not None and root.group_id == group_id else None

    def holder_of(self, key: str, now: datetime) -> JobRecord | None:
        """The job that holds a unique key now."""
        holder = self.jobs.get(self.keys.get(key, ""))
        if holder is None or not self.terms(holder.id).in_scope(holder.state, now):
            return None
        return holder

    def awaits_key(self, job: JobRecord, now: datetime) -> bool:
        """True if a job must not run yet: it would have its unique key then, and a job that has not
        ended has it.
        """
        if job.unique_key is None or not self.terms(job.id).in_scope(_RUNNING, now):
            return False
        holder = self.jobs.get(self.keys.get(job.unique_key, ""))
        return holder is not None and holder.id != job.id and holder.state not in TERMINAL

    # -- writing ---------------------------------------------------------------------------

    def agree(self, job_id: str, terms: JobTerms) -> None:
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
        if before is None and job.gate is not None:
            self.gates.hold(job.id, job.gate)
        is_over = job.state in TERMINAL
        # Asked of the whole first: nearly no store has suspects, and every job ends.
        if is_over and self.suspects.crash_of:
            self.suspects.forget(job.id)
        was_over = before is not None and before.state in TERMINAL
        # What is counted are beginnings and ends, and most filings are neither.
        if before is None or is_over or was_over:
            self._count(before, job)
        if job.id in self._terms:
            self._announce(self._terms[job.id].announce, before, job, now)
        if not is_over or before is None or was_over:
            return False
        return not self._is_open(job.group_id) and self.groups.report(job)

    def amend(self, job: JobRecord, now: datetime) -> None:
        """Put a waiting job with other terms in the place of the one before."""
        if job.state is _BLOCKED and job.reason == BlockReason.SIGNAL.value:
            self.jobs[job.id] = job  # no index knows what has changed, and its wait goes on
        else:
            self.file(job, now)

    def _count(self, before: JobRecord | None, job: JobRecord) -> None:
        """Keep what groups, gates, signals and undo records know of a job that is new, has ended,
        or had ended.
        """
        if before is None and job.group_id == job.id:
            policy = self.terms(job.id).policy
            if policy is not _SETTLE_ALL:
                self.groups.adopt(job, policy)
        if job.group_id != job.id or job.id in self.groups.rows:  # else its record says it all
            self.groups.count(before, job, self.root_of(job.group_id))
        if before is None or (before.state in TERMINAL) is (job.state in TERMINAL):
            return
        if job.state in TERMINAL:
            self.gates.counted(job)
            if job.id in self.signals.called:
                self.signals.ended(job.id)
        else:
            self.gates.uncounted(job.id)
        self.steps.moved(job)

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
        self.fault_keys.pop(job.id, None)
        self.redriven.pop(job.id, None)
        if job.unique_key is not None:
            self.release_key(job.unique_key, job.id)
        self.groups.forget(job, self.root_of(job.group_id))
        self.gates.forget(job.id)
        self.steps.forget(job.id)

    def release_key(self, key: str, job_id: str) -> None:
        """This job has the unique key no more."""
        if self.keys.get(key) == job_id:
            del self.keys[key]

    # -- indexes ---------------------------------------------------------------------------

    def _leave(self, job: JobRecord) -> None:
        if job.limit_key is not None:
            self.limits.leave(job)
        if job.state is _QUEUED:
            self.lanes.remove(job)
            if job.deadline is not None:
                self.waits.leave(job.id)
        elif job.state is _BLOCKED:
            self.waits.leave(job.id)
        elif job.worker is not None:
            jobs = self.held[job.worker]
            del jobs[job.id]
            if not jobs:
                del self.held[job.worker]
            self._ran(job.fair_key, -1)
        elif job.expires_at is not None:
            self.expiring.remove(job.id)

    def _enter(self, job: JobRecord, now: datetime) -> None:
        if job.limit_key is not None:
            self.limits.enter(job, self.terms(job.id).limit, now)
        if job.state is _QUEUED:
            self.lanes.add(job, now)
            if job.deadline is not None:
                self.waits.enter(job, None)
        elif job.state is _BLOCKED:
            self.waits.enter(job, self.gates.deadline_of(job))
        elif job.worker is not None:
            jobs = self.held.get(job.worker)
            if jobs is None:
                jobs = self.held[job.worker] = {}
            jobs[job.id] = None
            self._ran(job.fair_key, 1)
        elif job.expires_at is not None:
            self.expiring.push(job.id, job.expires_at)

    def _ran(self, fair_key: str | None, by: int) -> None:
        left = self.running_of.get(fair_key, 0) + by
        if left:
            self.running_of[fair_key] = left
        else:
            self.running_of.pop(fair_key, None)

    def _hold_key(self, job: JobRecord, key: str, now: datetime) -> None:
        """A key is held exactly while its job is in scope; a free one is taken (again)."""
        if self.terms(job.id).in_scope(job.state, now):
            if self.holder_of(key, now) is None:
                self.keys[key] = job.id
        else:
            self.release_key(key, job.id)

    def _is_open(self, group_id: str) -> bool:
        if group_id in self.groups.open:
            return True
        root = self.root_of(group_id)
        return root is not None and root.state not in TERMINAL
