"""New jobs: one INSERT when nothing is in the way, and the resolution of what is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import repeat
from typing import Final

from msgspec import Struct

from offpath.errors import Conflict, StoreBusy
from offpath.model.gate import NewGate
from offpath.model.job import Enqueued, JobState, NewJob, UniqueClaim, UniquePolicy
from offpath.model.limit import LimitSpec
from offpath.store.postgres.alike import Alike, Common
from offpath.store.postgres.faults import KeyMoved
from offpath.store.postgres.limits import Nudge, many, nudge_limits
from offpath.store.postgres.lone import canonical, fails_fast, stands_alone
from offpath.store.postgres.steps import (
    chunks,
    from_micros,
    ids_json,
    is_state,
    moment,
    public,
    readable_time,
    to_json,
)
from offpath.store.programs.dialect import Queries, Steps, one
from offpath.store.programs.group_work import GroupWork
from offpath.store.refusals import id_taken, key_held, unknown_state
from offpath.store.sql import Catalogue, Row

_ROUNDS: Final = 10
"""The number of times that a key may change hands between a look and a write before we give up."""


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
    counted: bool = False
    """A root whose group has a row from the start."""
    gate: str | None = None
    gate_timeout: float | None = None
    watched: bool = False
    limit: LimitSpec | None = None
    fair_key: str | None = None
    headers: str | None = None

    @classmethod
    def of(cls, job: NewJob, job_id: str, gates: _Gates, kin: Common) -> _Sent:
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
            None if kin.group_id else job.group_id,
            None if kin.parent else job.parent,
            job.dependents,
            job.unique,
            job.tags,
            job.announce,
            fails_fast(job),
            job.gate,
            None if job.gate is None else gates.timeouts.get(job.gate),
            not kin.watched and job.id in gates.watched,
            job.limit,
            job.fair_key,
            job.headers,
        )


@dataclass(frozen=True, slots=True)
class _Gates:
    """The facts that the gates of the same call have about its jobs."""

    timeouts: Mapping[str, float | None] = field(default_factory=dict)
    watched: frozenset[str] = frozenset()

    @classmethod
    def of(cls, gates: Sequence[NewGate]) -> _Gates:
        if not gates:
            return _NO_GATES
        return cls(
            {gate.id: gate.timeout for gate in gates},
            frozenset(each for gate in gates for each in gate.on),
        )


_NO_GATES: Final = _Gates()
_ALONE: Final = Common()


@dataclass(frozen=True, slots=True)
class _Holder:
    """The job that has a unique key."""

    id: str
    fingerprint: str
    state: JobState
    run_at: datetime
    over: bool
    """Its period has passed: the next who asks gets the key."""

    @classmethod
    def of(cls, row: Row) -> tuple[str, _Holder]:
        """The key and who has it, from a row of ``holders``."""
        key, holder, fingerprint, state, run_at, over = row
        if not is_state(state):
            raise unknown_state(holder, state)
        return key, cls(holder, fingerprint, public(state), readable_time(run_at), bool(over))

    @property
    def waiting(self) -> bool:
        return self.state in {JobState.BLOCKED, JobState.QUEUED}


@dataclass(slots=True)
class _EnqueueBatch:
    """The jobs of one call while it runs. They are named by their position."""

    jobs: Sequence[NewJob]
    ids: list[str]
    gates: _Gates = _NO_GATES
    together: bool = False
    """True if the changes of their limits are added up."""
    holding: bool = False
    """True if the transaction holds rows of known jobs: behind these it waits for no other."""
    answers: dict[int, Enqueued] = field(default_factory=dict)
    added: set[str] = field(default_factory=set)
    """Ids of the rows that this call wrote."""
    left: list[int] = field(default_factory=list)
    """Positions without an answer."""
    roots: set[str] = field(default_factory=set)
    """Added roots that their group's row must count."""
    replacing: dict[str, int] = field(default_factory=dict)
    """Holder → the position that takes it over; the last one wins."""

    def answer(self, at: int, job: str, run_at: datetime, *, created: bool = False) -> None:
        self.answers[at] = Enqueued(id=self.jobs[at].id, job_id=job, created=created, run_at=run_at)

    def note_added(self, rows: Iterable[Row]) -> None:
        """Answer for the rows that were written: the first job of each id made it."""
        times = {}
        for job, at_micros, rooted in rows:
            times[job] = from_micros(at_micros)
            if rooted:
                self.roots.add(job)
        self.added.update(times)
        left = []
        for at in self.left:
            # Taken out: of several jobs with one id the first has made it, and the others repeat
            # it.
            run_at = times.pop(self.ids[at], None)
            if run_at is None:
                left.append(at)
            else:
                self.answer(at, self.ids[at], run_at, created=True)
        self.left = left

    def insert(
        self, positions: Sequence[int], now: datetime | None, sql: Catalogue
    ) -> Queries[None]:
        """Add the jobs at these positions by one statement."""
        jobs, ids = [self.jobs[at] for at in positions], [self.ids[at] for at in positions]
        kin = Common.of(jobs, self.gates.watched)
        alike = Alike.of(jobs, ids, kin, self.gates.watched)
        if alike is not None:
            self.note_added(alike.added((yield alike.query(kin, now, alone=False, sql=sql))))
            return
        sent = list(map(_Sent.of, jobs, ids, repeat(self.gates), repeat(kin)))
        self.note_added(
            (
                yield sql["enqueue"](
                    now=moment(now),
                    batch=to_json(sent),
                    alone=False,
                    together=self.together,
                    **kin._asdict(),
                )
            )
        )

    def limits(self) -> list[Nudge]:
        """The limits that the added jobs name for their keys: the last of each holds."""
        if not self.together:
            return []
        said = {
            job.limit.key: job.limit
            for at, job in enumerate(self.jobs)
            if job.limit is not None and self.answers[at].created
        }
        return [Nudge(key=key, spec=to_json(limit)) for key, limit in said.items()]

    def group_work(self) -> GroupWork:
        """The changes that the added jobs make to their groups."""
        work = GroupWork()
        for at, job in enumerate(self.jobs):
            if not self.answers[at].created:
                continue
            if job.group_id is not None and job.group_id != self.ids[at]:
                work.more[job.group_id] += 1
            elif self.ids[at] in self.roots:
                work.more[self.ids[at]] += 1
                work.policies[self.ids[at]] = job.group_policy
        return work


def add_jobs(
    jobs: Sequence[NewJob],
    now: datetime | None,
    gates: Sequence[NewGate] = (),
    *,
    holding: bool = False,
    sql: Catalogue,
) -> Queries[tuple[list[Enqueued], GroupWork]]:
    """Add jobs; answers in their order, and the new members of groups, which are not yet counted.
    ``now`` None is the database's clock. ``gates`` are those that are made with them. ``holding``:
    the transaction holds rows of jobs already.

    Raises ``Conflict`` kinds after taking back what it wrote, so that a caller's transaction may go
    on. All of it happens in the transaction that runs it, or none.
    """
    if not jobs:
        return [], GroupWork()
    together = many(job.limit for job in jobs)
    batch = _EnqueueBatch(
        jobs, [canonical(job.id) for job in jobs], _Gates.of(gates), together, holding
    )
    # In one order: two callers that add the same keys would otherwise wait for each other.
    batch.left = _order(jobs)
    yield from _insert(batch, now, sql)
    if batch.left:
        try:
            yield from _resolve(batch, now, sql)
        except (Conflict, StoreBusy):
            if batch.added:
                # The transaction may be the caller's, who goes on after this error.
                yield sql["withdraw"](ids=ids_json(batch.added))
            raise
        # Behind all that may be refused: a holder that was taken over could not be put back.
        yield from _replace(batch, now, sql)
    # Of the last one of each key, as if they had been added one after the other.
    if limits := batch.limits():
        yield nudge_limits(limits, sql=sql)
    return [batch.answers[at] for at in range(len(jobs))], batch.group_work()


def join_roots(work: GroupWork, settled: frozenset[str], *, sql: Catalogue) -> Queries[None]:
    """Count the roots of these groups with their members from now on. ``settled`` are the jobs
    that this transaction is ending.
    """
    if not work.more:
        return
    rows = yield sql["join_roots"](ids=ids_json(work.more))
    for row in rows:
        work.join_root(row, settled)


def enqueue_each(
    jobs: Sequence[NewJob], now: datetime | None, *, sql: Catalogue
) -> Steps[list[Enqueued | None]]:
    """Add those of these independent jobs that nothing stands in the way of, by one statement;
    their answers, and None for the others. The first of equal ids is added.
    """
    order = _order(jobs)
    sent, ids = [jobs[at] for at in order], [canonical(jobs[at].id) for at in order]
    kin = Common.of(sent, ())
    alike = Alike.of(sent, ids, kin)
    if alike is not None:
        rows = yield from one(alike.query(kin, now, alone=True, sql=sql))
        return _each_answer(jobs, alike.added(rows))
    batch = to_json([_Sent.of(*each, _NO_GATES, _ALONE) for each in zip(sent, ids, strict=True)])
    query = sql["enqueue"](
        now=moment(now), batch=batch, alone=True, together=False, **_ALONE._asdict()
    )
    return _each_answer(jobs, (yield from one(query)))


def _each_answer(jobs: Sequence[NewJob], rows: Iterable[Row]) -> list[Enqueued | None]:
    times = {job: from_micros(run_at) for job, run_at, _ in rows}
    answers: list[Enqueued | None] = []
    for job in jobs:
        added = canonical(job.id)
        at = times.pop(added, None)
        made = None if at is None else Enqueued(id=job.id, job_id=added, created=True, run_at=at)
        answers.append(made)
    return answers


def independent(jobs: Sequence[NewJob]) -> bool:
    """True if each of these can be added on its own."""
    return all(map(stands_alone, jobs))


def replacing_keys(jobs: Iterable[NewJob]) -> list[str]:
    """The unique keys whose holders these replace, and so lock."""
    claims = (job.unique for job in jobs)
    return sorted({one.key for one in claims if one and one.policy is UniquePolicy.REPLACE})


def _order(jobs: Sequence[NewJob]) -> list[int]:
    """Positions in the order of writing: unique keys sorted, so that two calls cannot deadlock."""
    positions = list(range(len(jobs)))
    if any(job.unique for job in jobs):
        positions.sort(key=lambda at: job.unique.key if (job := jobs[at]).unique else "")
    return positions


def _insert(batch: _EnqueueBatch, now: datetime | None, sql: Catalogue) -> Queries[None]:
    # In pieces: a parameter is held in memory and parsed as a whole, here and by the server.
    for piece in chunks(list(batch.left)):
        yield from batch.insert(piece, now, sql)


def _resolve(batch: _EnqueueBatch, now: datetime | None, sql: Catalogue) -> Queries[None]:
    """Answer for the jobs that could not be added, or raise their conflict."""
    for _ in range(_ROUNDS):
        # Ids before keys: a repeat holds its own key, and must not meet itself. Each round looks
        # anew, since holders may have ended meanwhile.
        rows = yield sql["same_ids"](ids=ids_json(batch.ids[at] for at in batch.left))
        _answer_repeats(batch, rows)
        keys = sorted({claim.key for at in batch.left if (claim := batch.jobs[at].unique)})
        if keys:
            holders = yield from _holders(batch, keys, now, sql)
            _answer_unique(batch, holders)
            if any(holder.over for holder in holders.values()):
                # Nothing runs when a period ends, so the next one that wants the key takes it away.
                yield sql["release_keys"](keys=to_json(keys), now=moment(now))
        if batch.left:
            yield from _insert(batch, now, sql)
        if not batch.left:
            return
    raise StoreBusy("unique keys change hands too fast: nothing was written, try again")


def _holders(
    batch: _EnqueueBatch, keys: Sequence[str], now: datetime | None, sql: Catalogue
) -> Queries[dict[str, _Holder]]:
    """The holders of these keys. Attaching leaves one free to run; replacing must hold it still.

    Raises ``KeyMoved`` where a holder that is to be replaced is written by somebody else, and this
    transaction holds rows behind which nobody may be waited for.
    """
    replaced = replacing_keys(batch.jobs[at] for at in batch.left)
    others = sorted(set(keys) - set(replaced))
    rows = list[Row]()
    if others:
        rows += yield sql["holders"](keys=to_json(others), now=moment(now))
    if replaced and not batch.holding:
        rows += yield sql["lock_holders"](keys=to_json(replaced), now=moment(now))
        batch.holding = True  # the next round may meet ids that come before these
    elif replaced:
        # those that were locked with the first rows are free for us
        for *row, free in (yield sql["free_holders"](keys=to_json(replaced), now=moment(now))):
            if not free:
                raise KeyMoved("a unique key went to another job: nothing was written, try again")
            rows.append(tuple(row))
    return dict(map(_Holder.of, rows))


def _answer_repeats(batch: _EnqueueBatch, rows: Iterable[Row]) -> None:
    known = {job: (fingerprint, readable_time(run_at)) for job, fingerprint, run_at in rows}
    left = []
    for at in batch.left:
        job, there = batch.jobs[at], known.get(batch.ids[at])
        if there is None:
            left.append(at)
        # A job from the SQL door has no fingerprint: its id alone makes it a repeat.
        elif there[0] in {job.fingerprint, ""}:
            batch.answer(at, batch.ids[at], there[1])
        else:
            raise id_taken(job.id)
    batch.left = left


def _answer_unique(batch: _EnqueueBatch, holders: dict[str, _Holder]) -> None:
    left = []
    for at in batch.left:
        job = batch.jobs[at]
        holder = holders.get(job.unique.key) if job.unique else None
        if job.unique is None or holder is None or holder.over:
            left.append(at)
            continue
        _meet(batch, at, holder)
        if job.unique.policy is UniquePolicy.REPLACE:
            # the next of this call meets the work that it is by then
            holders[job.unique.key] = replace(holder, fingerprint=job.fingerprint)
    batch.left = left


def _meet(batch: _EnqueueBatch, at: int, holder: _Holder) -> None:
    """Answer for a job whose unique key ``holder`` has, by the policy of the job."""
    job = batch.jobs[at]
    claim = job.unique
    assert claim is not None  # noqa: S101 - only jobs with a key meet a holder
    match claim.policy:
        case UniquePolicy.ATTACH:
            # a job from the SQL door has no fingerprint to compare with
            if holder.fingerprint not in {job.fingerprint, ""}:
                raise key_held(claim.policy, claim.key, holder=holder.id, state=holder.state)
            batch.answer(at, holder.id, holder.run_at)
        case UniquePolicy.REPLACE:
            if not holder.waiting:
                raise key_held(claim.policy, claim.key, holder=holder.id, state=holder.state)
            batch.replacing[holder.id] = at
            batch.answer(at, holder.id, holder.run_at)
        case UniquePolicy.REFUSE:
            raise key_held(claim.policy, claim.key, holder=holder.id, state=holder.state)


def _replace(batch: _EnqueueBatch, now: datetime | None, sql: Catalogue) -> Queries[None]:
    """Rewrite the holders. They are locked since they were seen waiting, so it cannot fail."""
    if not batch.replacing:
        return
    sent = [
        _Sent.of(batch.jobs[at], holder, _NO_GATES, _ALONE)
        # By id, as all that write rows of known jobs.
        for holder, at in sorted(batch.replacing.items())
    ]
    rows = yield sql["replace_holders"](now=moment(now), batch=to_json(sent))
    times = {job: from_micros(run_at) for job, run_at in rows}
    for at, answer in list(batch.answers.items()):
        if answer.job_id in times and not answer.created:
            batch.answer(at, answer.job_id, times[answer.job_id])
