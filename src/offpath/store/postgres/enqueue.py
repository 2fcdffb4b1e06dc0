"""New jobs: one INSERT when nothing is in the way, and the resolution of what is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec import Struct

from offpath.errors import Conflict, IdConflict, StoreBusy, StoreRejected, UniqueConflict
from offpath.model.job import Enqueued, JobState, NewJob, UniqueClaim, UniquePolicy
from offpath.store.postgres.steps import (
    Enqueueing,
    chunks,
    from_micros,
    ids_json,
    job_id,
    moment,
    public,
    to_json,
)
from offpath.store.sql import Catalogue, Query, Row

_CHUNK: Final = 2000
_ROUNDS: Final = 10
"""How often a key may change hands between a look and a write before we give up."""


class _Sent(Struct, frozen=True, omit_defaults=True):
    """A new job as it travels: what it leaves at its default is not sent, which halves the work of
    the server. The defaults of queue, priority, delay and options are in the statement, too.
    """

    id: str
    task: str
    input: str
    fingerprint: str
    queue: str = "default"
    priority: int = 0
    delay: float = 0.0
    run_at: datetime | None = None
    deadline: datetime | None = None
    deadline_in: float | None = None
    options: str = "{}"
    group_id: str | None = None
    parent: str | None = None
    dependents: tuple[str, ...] = ()
    unique: UniqueClaim | None = None
    tags: tuple[str, ...] = ()
    announce: int = 0

    @classmethod
    def of(cls, job: NewJob, job_id: str) -> _Sent:
        """By position: this is done for every job."""
        return cls(
            job_id,
            job.task,
            job.input,
            job.fingerprint,
            job.queue,
            job.priority,
            job.delay,
            job.run_at,
            job.deadline,
            job.deadline_in,
            job.options,
            job.group_id,
            job.parent,
            job.dependents,
            job.unique,
            job.tags,
            job.announce,
        )


@dataclass(frozen=True, slots=True)
class _Holder:
    """Who has a unique key."""

    id: str
    fingerprint: str
    state: JobState
    run_at: datetime
    over: bool
    """Its period has passed: the next who asks gets the key."""

    @classmethod
    def of(cls, row: Row) -> _Holder:
        _, holder, fingerprint, state, run_at, over = row
        return cls(holder, fingerprint, public(state), from_micros(run_at), bool(over))

    @property
    def waiting(self) -> bool:
        return self.state in {JobState.BLOCKED, JobState.QUEUED}


@dataclass(slots=True)
class _Batch:
    """What is known of the jobs of one call while it runs. Jobs are named by their position."""

    jobs: Sequence[NewJob]
    ids: list[str]
    answers: dict[int, Enqueued] = field(default_factory=dict)
    added: set[str] = field(default_factory=set)
    """Ids of the rows that this call wrote."""
    left: list[int] = field(default_factory=list)
    """Positions without an answer."""
    replacing: dict[str, int] = field(default_factory=dict)
    """Holder → the position that takes it over; the last one wins."""

    def answer(self, at: int, job: str, run_at: datetime, *, created: bool = False) -> None:
        self.answers[at] = Enqueued(id=self.jobs[at].id, job_id=job, created=created, run_at=run_at)

    def note_added(self, rows: Iterable[Row]) -> None:
        """Answer for the rows that were written: the first job of each id made it."""
        times = {row[0]: from_micros(row[1]) for row in rows}
        self.added.update(times)
        left = []
        for at in self.left:
            run_at = times.pop(self.ids[at], None)
            if run_at is None:
                left.append(at)
            else:
                self.answer(at, self.ids[at], run_at, created=True)
        self.left = left

    def new_members(self) -> Counter[str]:
        """How many jobs were added to groups that are not their own."""
        return Counter(
            job.group_id
            for at, job in enumerate(self.jobs)
            if job.group_id is not None
            and job.group_id != self.ids[at]
            and self.answers[at].created
        )


def add_jobs(
    jobs: Sequence[NewJob], now: datetime | None, *, sql: Catalogue
) -> Enqueueing[tuple[list[Enqueued], Counter[str]]]:
    """Add jobs; answers in their order, and the new members of groups, which are not yet counted.
    ``now`` None is the database's clock.

    Raises ``Conflict`` kinds after taking back what it wrote, so that a caller's transaction may go
    on. All of it happens in the transaction that runs it, or none.
    """
    if not jobs:
        return [], Counter()
    batch = _Batch(jobs, [_canonical(job.id) for job in jobs])
    batch.left = _order(jobs)
    yield from _insert(batch, now, sql)
    if batch.left:
        try:
            yield from _resolve(batch, now, sql)
        except (Conflict, StoreBusy):
            if batch.added:
                yield sql["withdraw"](ids=ids_json(batch.added))
            raise
        yield from _replace(batch, now, sql)
    members = batch.new_members()
    yield from _join_roots(members, sql)
    return [batch.answers[at] for at in range(len(jobs))], members


def counts_json(counts: Counter[str], name: str) -> str:
    """Counts by group as a parameter, sorted: the order in which the rows are locked."""
    return to_json([{"id": group, name: count} for group, count in sorted(counts.items())])


def enqueue_each(jobs: Sequence[NewJob], now: datetime | None, *, sql: Catalogue) -> Query:
    """One statement that adds those of these independent jobs that nothing stands in the way of.

    It answers with the rows of :func:`each_answer`.
    """
    ordered = [jobs[at] for at in _order(jobs)]
    batch = _sent((job, _canonical(job.id)) for job in ordered)
    return sql["enqueue"](now=moment(now), batch=batch)


def each_answer(jobs: Sequence[NewJob], rows: Iterable[Row]) -> list[Enqueued | None]:
    """The answers for the jobs that were added; the first of equal ids was. None for the others."""
    times = {row[0]: from_micros(row[1]) for row in rows}
    answers: list[Enqueued | None] = []
    for job in jobs:
        added = _canonical(job.id)
        at = times.pop(added, None)
        made = None if at is None else Enqueued(id=job.id, job_id=added, created=True, run_at=at)
        answers.append(made)
    return answers


def independent(jobs: Sequence[NewJob]) -> bool:
    """Whether each of these can be added on its own: it joins no group that must count it."""
    return all(job.group_id is None or job.group_id == job.id for job in jobs)


def _sent(jobs: Iterable[tuple[NewJob, str]]) -> str:
    return to_json([_Sent.of(job, job_id) for job, job_id in jobs])


def _canonical(text: str) -> str:
    known = job_id(text)
    if known is None:
        raise StoreRejected(f"a job's id must be a UUID, not {text[:60]!r}")
    return known


def _order(jobs: Sequence[NewJob]) -> list[int]:
    """Positions in the order of writing: unique keys sorted, so that two calls cannot deadlock."""
    positions = list(range(len(jobs)))
    if any(job.unique for job in jobs):
        positions.sort(key=lambda at: job.unique.key if (job := jobs[at]).unique else "")
    return positions


def _insert(batch: _Batch, now: datetime | None, sql: Catalogue) -> Enqueueing[None]:
    for piece in chunks(list(batch.left), _CHUNK):
        rows = yield sql["enqueue"](
            now=moment(now), batch=_sent((batch.jobs[at], batch.ids[at]) for at in piece)
        )
        batch.note_added(rows)


def _resolve(batch: _Batch, now: datetime | None, sql: Catalogue) -> Enqueueing[None]:
    """Answer for the jobs that could not be added, or raise their conflict."""
    for _ in range(_ROUNDS):
        rows = yield sql["same_ids"](ids=ids_json(batch.ids[at] for at in batch.left))
        _answer_repeats(batch, rows)
        keys = sorted({claim.key for at in batch.left if (claim := batch.jobs[at].unique)})
        if keys:
            look = "lock_holders" if _wants_lock(batch) else "holders"
            rows = yield sql[look](keys=to_json(keys), now=moment(now))
            holders = {row[0]: _Holder.of(row) for row in rows}
            _answer_unique(batch, holders)
            if any(holder.over for holder in holders.values()):
                yield sql["release_keys"](keys=to_json(keys), now=moment(now))
        if batch.left:
            yield from _insert(batch, now, sql)
        if not batch.left:
            return
    raise StoreBusy("unique keys change hands too fast: nothing was written, try again")


def _wants_lock(batch: _Batch) -> bool:
    """Attaching leaves the holder free to run; replacing must hold it still."""
    claims = (batch.jobs[at].unique for at in batch.left)
    return any(claim and claim.policy is UniquePolicy.REPLACE for claim in claims)


def _answer_repeats(batch: _Batch, rows: Iterable[Row]) -> None:
    known = {row[0]: (row[1], from_micros(row[2])) for row in rows}
    left = []
    for at in batch.left:
        job, there = batch.jobs[at], known.get(batch.ids[at])
        if there is None:
            left.append(at)
        elif there[0] in {job.fingerprint, ""}:
            batch.answer(at, batch.ids[at], there[1])
        else:
            raise IdConflict(f"the job id {job.id} is taken by a job with another task or input")
    batch.left = left


def _answer_unique(batch: _Batch, holders: dict[str, _Holder]) -> None:
    left = []
    for at in batch.left:
        claim = batch.jobs[at].unique
        holder = holders.get(claim.key) if claim else None
        if holder is None or holder.over:
            left.append(at)
        else:
            _meet(batch, at, holder)
    batch.left = left


def _meet(batch: _Batch, at: int, holder: _Holder) -> None:
    """Answer for a job whose unique key ``holder`` has, by the policy of the job."""
    job = batch.jobs[at]
    claim = job.unique
    assert claim is not None  # noqa: S101 - only jobs with a key meet a holder
    match claim.policy:
        case UniquePolicy.ATTACH:
            # a job from the SQL door has no fingerprint to compare with
            if holder.fingerprint not in {job.fingerprint, ""}:
                raise _taken(claim.key, holder, "with another input")
            batch.answer(at, holder.id, holder.run_at)
        case UniquePolicy.REPLACE:
            if not holder.waiting:
                raise _taken(claim.key, holder, f"that is {holder.state} and cannot be replaced")
            batch.replacing[holder.id] = at
            batch.answer(at, holder.id, holder.run_at)
        case UniquePolicy.REFUSE:
            raise _taken(claim.key, holder, f"that is {holder.state}")


def _taken(key: str, holder: _Holder, how: str) -> UniqueConflict:
    message = f"the unique key {key!r} is held by job {holder.id} {how}"
    return UniqueConflict(message, key=key, holder=holder.id)


def _replace(batch: _Batch, now: datetime | None, sql: Catalogue) -> Enqueueing[None]:
    """Rewrite the holders. They are locked since they were seen waiting, so it cannot fail."""
    if not batch.replacing:
        return
    jobs = ((batch.jobs[at], holder) for holder, at in sorted(batch.replacing.items()))
    rows = yield sql["replace_holders"](now=moment(now), batch=_sent(jobs))
    times = {row[0]: from_micros(row[1]) for row in rows}
    for at, answer in list(batch.answers.items()):
        if answer.job_id in times and not answer.created:
            batch.answer(at, answer.job_id, times[answer.job_id])


def _join_roots(members: Counter[str], sql: Catalogue) -> Enqueueing[None]:
    """Count the roots of these groups with their members from now on."""
    if not members:
        return
    roots = yield sql["join_roots"](ids=ids_json(members))
    for root, is_open in roots:
        members[root] += is_open
