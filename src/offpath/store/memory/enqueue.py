"""New jobs: what a batch will do is decided as a whole before anything is filed."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import datetime

from msgspec.structs import replace

from offpath.model.job import Enqueued, JobRecord, JobState, NewJob, UniqueClaim, UniquePolicy
from offpath.store.memory.tables import Tables
from offpath.store.refusals import key_held, no_gate
from offpath.store.rows.jobs import JobTerms, enqueued, repeated, rewritten, terms_of

_WAITING = (JobState.BLOCKED, JobState.QUEUED)


class NewJobs:
    """The jobs of one transition as they will be, seen by those that come after them in it."""

    __slots__ = ("_keys", "_now", "_records", "_tables", "_terms")

    def __init__(self, tables: Tables, now: datetime) -> None:
        self._tables = tables
        self._now = now
        self._records: dict[str, JobRecord] = {}
        self._terms: dict[str, JobTerms] = {}
        self._keys: dict[str, str | None] = {}  # keys that change hands here

    def becomes(self, job: JobRecord) -> None:
        """A job of the store that will have become this one when the new jobs arrive."""
        self._records[job.id] = job
        key = job.unique_key
        if key is None:
            return
        holder = self._tables.holder_of(key, self._now)
        # Another job has taken the key meanwhile. An end does not take it away again.
        if holder is not None and holder.id != job.id:
            return
        in_scope = self._terms_of(job.id).in_scope(job.state, self._now)
        self._keys[key] = job.id if in_scope else None

    def add(
        self, job: NewJob, group_id: str | None = None, *, gates: Container[str] = ()
    ) -> Enqueued:
        """Decide about one new job; ``gates`` come with it. Raises Conflict kinds, StoreRejected
        and GateError.
        """
        # The id before the key: a repeat would otherwise meet itself as the holder of its key.
        known = self._record_of(job.id)
        if known is not None:
            return repeated(job, known)
        holder = None if job.unique is None else self._holder_of(job, job.unique)
        if job.unique is not None and holder is not None:
            return self._meet(job, job.unique, holder)
        record = enqueued(job, self._now, job.group_id or group_id or job.id)
        if job.gate is not None and job.gate not in gates:
            self._know(job, job.gate)
        self._records[job.id] = record
        self._terms[job.id] = terms_of(job, self._now)
        if job.unique is not None and _first_state(job) in job.unique.states:
            self._keys[job.unique.key] = job.id
        return Enqueued(id=job.id, job_id=job.id, created=True, run_at=record.run_at)

    def apply(self, last: str | None = None) -> bool:
        """File what is planned, the job ``last`` after all others; True when it ended its group."""
        # Keys are let go before anything is filed and given out after it: while it is filed, a job
        # takes each key that looks free.
        for key in self._keys:
            self._tables.keys.pop(key, None)
        # Before the jobs, for the limit as the last enqueue says it decides who of them is held.
        for terms in self._terms.values():
            if terms.limit is not None:
                self._tables.limits.agree(terms.limit)
        # The settled job goes last: its group must have its new members before it leaves, or it
        # would seem done.
        final = None if last is None else self._records.pop(last)
        for record in self._records.values():
            self._file(record)
        group_done = final is not None and self._file(final)
        for key, holder in self._keys.items():
            if holder is not None:
                self._tables.keys[key] = holder
        return group_done

    def ids(self) -> Iterable[str]:
        """The jobs that are planned."""
        return self._records.keys()

    def record(self, job_id: str) -> JobRecord:
        """The record that a planned job will have."""
        return self._records[job_id]

    def _file(self, record: JobRecord) -> bool:
        self._tables.agree(record.id, self._terms_of(record.id))
        return self._tables.file(record, self._now)

    def _record_of(self, job_id: str) -> JobRecord | None:
        return self._records.get(job_id) or self._tables.jobs.get(job_id)

    def _terms_of(self, job_id: str) -> JobTerms:
        return self._terms.get(job_id) or self._tables.terms(job_id)

    def _know(self, job: NewJob, gate: str) -> None:
        if gate not in self._tables.gates.rows:
            raise no_gate(job.id, gate)

    def _holder_of(self, job: NewJob, unique: UniqueClaim) -> JobRecord | None:
        """The job in the way of this claim: the holder of its key, while in its own scope."""
        if _first_state(job) not in unique.states:
            return None
        key = unique.key
        holder_id = self._keys[key] if key in self._keys else self._tables.keys.get(key)
        holder = None if holder_id is None else self._record_of(holder_id)
        # A holder whose period is over keeps the key in the index until somebody takes it, and is
        # in nobody's way.
        if holder is None or not self._terms_of(holder.id).in_scope(holder.state, self._now):
            return None
        return holder

    def _meet(self, job: NewJob, unique: UniqueClaim, holder: JobRecord) -> Enqueued:
        """The key is held: do as the policy says."""
        if unique.policy is UniquePolicy.ATTACH and holder.fingerprint == job.fingerprint:
            return Enqueued(id=job.id, job_id=holder.id, created=False, run_at=holder.run_at)
        if unique.policy is UniquePolicy.REPLACE and holder.state in _WAITING:
            return self._rewrite(job, holder)
        raise key_held(unique.policy, unique.key, holder=holder.id, state=holder.state)

    def _rewrite(self, job: NewJob, holder: JobRecord) -> Enqueued:
        record = rewritten(holder, job, self._now)
        terms = replace(
            self._terms_of(holder.id),
            deadline_in=job.deadline_in,
            announce=job.announce,
            limit=job.limit,
        )
        self._records[holder.id] = record
        self._terms[holder.id] = terms
        return Enqueued(id=job.id, job_id=holder.id, created=False, run_at=record.run_at)


def _first_state(job: NewJob) -> JobState:
    """The state whose scope a new job's claim is judged by."""
    return JobState.QUEUED if job.gate is None else JobState.BLOCKED
