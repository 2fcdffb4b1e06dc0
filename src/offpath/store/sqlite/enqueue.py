"""Enqueueing, without I/O: the same steps on our own connection and on the caller's.

:func:`enqueue_steps` yields statements and is sent their rows. What it has inserted before it finds
a conflict it takes back itself; on a caller's connection :func:`whole` takes back the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from offpath.errors import IdConflict, UniqueConflict, WrongConnection
from offpath.model.changes import with_deaths
from offpath.model.effects import Effects
from offpath.model.gate import NewGate
from offpath.model.group import GroupPolicy
from offpath.model.job import Enqueued, NewJob, UniqueClaim, UniquePolicy
from offpath.store.programs import gates
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.conclusion import told
from offpath.store.programs.dialect import Queries, in_schema
from offpath.store.programs.gates import state_of
from offpath.store.programs.group_work import GroupWork
from offpath.store.programs.instants import instant, micros, readable
from offpath.store.refusals import (
    id_taken,
    key_held,
    no_gate,
    nothing_to_watch,
    refuse_contributions,
    unknown_state,
)
from offpath.store.sql import Row
from offpath.store.sqlite import groups
from offpath.store.sqlite.job_rows import (
    FINGERPRINT,
    ID,
    KEY,
    RUN_AT,
    STATE,
    NewRow,
    insert_one,
    inserts,
    row_of,
)
from offpath.store.sqlite.ledger_post import together_steps
from offpath.store.sqlite.limits import agreed
from offpath.store.sqlite.mailbox import Writing
from offpath.store.sqlite.parameters import OUTER, batch, later
from offpath.store.sqlite.session import SQL
from offpath.store.sqlite.words import SqliteWording

T = TypeVar("T")


class _KeyHolder(NamedTuple):
    """The job that has a unique key."""

    id: str
    fingerprint: str
    state: str
    run_at: int
    until: int | None = None


class KnownGates(NamedTuple):
    """The facts that a batch of new jobs needs about its gates."""

    deadlines: Mapping[str, int | None]
    watched: Collection[str] = frozenset()
    """The jobs that the new gates watch. One of these that no gate watches in the end does no
    harm.
    """


NO_GATES: Final = KnownGates({})


class Inserted(NamedTuple):
    """The outcome of new jobs."""

    answers: list[Enqueued]
    rooted: frozenset[str] = frozenset()
    """Roots whose group was there before them."""


def enqueue_steps(effects: Effects, now: datetime) -> Queries[list[Enqueued]]:
    """Write ``effects`` at ``now``, inside whatever transaction is open.

    Answers in the order of ``effects.jobs``, then of ``effects.messages``. Raises ``IdConflict``,
    ``UniqueConflict``, ``InvalidArgument`` and ``StoreRejected``, and has then written nothing; an
    operation of the ledger that is declined raises ``LedgerError`` after everything was written.
    """
    refuse_contributions(effects)
    return (yield from effect_steps(effects, micros(now)))


def is_lone_job(effects: Effects) -> bool:
    """True if these are one job and nothing else, for which it does not matter if others were
    written just before it.
    """
    jobs = effects.jobs
    if len(jobs) != 1 or jobs[0].unique is not None or jobs[0].gate is not None:
        return False
    return effects == Effects(jobs=jobs)


def effect_steps(effects: Effects, now: int) -> Queries[list[Enqueued]]:
    """Write as :func:`enqueue_steps` does, effects that may be those of several transitions.

    A declined operation raises ``LedgerError``, with what was written before it in the transaction.
    """
    jobs, messages, log = effects.jobs, effects.messages, effects.log
    # Made first, since it may refuse a message: nothing must be written by then.
    writing = Writing(messages, log, now) if messages or log else None
    known = yield from known_gates(jobs, effects.gates, now)
    # Jobs before gates, which count those that are there.
    inserted = yield from insert_steps(jobs, now, known)
    answers = inserted.answers
    died: list[MovedRow] = []
    if known is not NO_GATES:
        made = yield from gates.add(SqliteWording(now), effects.gates, jobs, answers)
        died = gates.dead(made)
    work = group_work(jobs, inserted)
    if died or work is not None:
        work = work or GroupWork()
        work.end_moved(died)
        left = yield from groups.write_steps(work)
        answers = with_deaths(answers, told(died, left))
    if writing is not None:
        answers = [*answers, *(yield from writing.steps())]
    if effects.operations:
        yield from together_steps(effects.operations, now)
    return answers


def whole(steps: Queries[T]) -> Queries[T]:
    """``steps`` on a caller's connection: where they raise, nothing of them is left behind."""
    yield SQL["transaction_begun"]()
    yield SQL["savepoint"]()
    try:
        answer = yield from steps
        yield SQL["release_savepoint"]()
    except Exception:
        with suppress(Exception):  # the error has ended the transaction, and all is gone with it
            yield SQL["rollback_to_savepoint"]()
            yield SQL["release_savepoint"]()
        raise
    return answer


def on_file(path: Path, schema: str, steps: Queries[T]) -> Queries[T]:
    """``steps`` on the tables of a schema, after making sure that the connection has this file open
    as its main database.

    Raises ``WrongConnection``: a job enqueued into another file would never run.
    """
    databases = yield SQL["databases"]()
    main = next((file for _, name, file in databases if name == "main"), "")
    if not main or Path(main).resolve() != path.resolve():
        found = main or "an in-memory database"
        message = f"the connection given as within= is of {found}, the store's file is {path}"
        raise WrongConnection(message)
    return (yield from in_schema(steps, schema))


def group_work(jobs: Iterable[NewJob], inserted: Inserted) -> GroupWork | None:
    """The changes that new jobs make to groups, new groups of one left out; None: no change."""
    work: GroupWork | None = None
    for job, answer in zip(jobs, inserted.answers, strict=True):
        if not answer.created:
            continue
        if job.group_id is not None and job.group_id != job.id:
            work = work or GroupWork()
            work.more[job.group_id] += 1
        elif job.group_policy is GroupPolicy.FAIL_FAST or job.id in inserted.rooted:
            work = work or GroupWork()
            work.policies[job.id] = job.group_policy
            if job.id in inserted.rooted:
                work.rooted.add(job.id)
                work.more[job.id] += 1
    return work


def insert_steps(
    jobs: Sequence[NewJob], now: int, known: KnownGates = NO_GATES
) -> Queries[Inserted]:
    """The jobs alone, without their gates and the counts of their groups."""
    if not jobs:
        return Inserted([])
    rows = [row_of(job, now, known.deadlines, known.watched) for job in jobs]
    inserted: list[Row] = []
    for query in (insert_one(rows[0], now),) if len(rows) == 1 else inserts(rows, now):
        inserted += yield query
    rooted = _rooted(inserted)
    if inserted:
        yield from agreed(jobs, now)
    if len(inserted) == len(jobs):
        return Inserted(_created(rows), rooted)
    written = {job for job, _ in inserted}
    answers, later_rooted = yield from _resolved(jobs, rows, written, now)
    return Inserted(answers, rooted | later_rooted)


def _rooted(inserted: Iterable[Row]) -> frozenset[str]:
    return frozenset(job for job, rooted in inserted if rooted)


def _created(rows: Sequence[NewRow]) -> list[Enqueued]:
    """The answers of jobs that were written; most are due at the same moment."""
    moments = {at: instant(at) for at in {row[RUN_AT] for row in rows}}
    return [
        Enqueued(id=row[ID], job_id=row[ID], created=True, run_at=moments[row[RUN_AT]])
        for row in rows
    ]


# -- gates -----------------------------------------------------------------------------------------


def known_gates(jobs: Sequence[NewJob], gates: Sequence[NewGate], now: int) -> Queries[KnownGates]:
    """Look at the gates of a batch before it is written. Raises GateError and StoreRejected."""
    named = {job.gate: job.id for job in jobs if job.gate is not None}
    if not named and not gates:
        return NO_GATES
    ids = dict.fromkeys([*named, *(gate.id for gate in gates)])
    rows = yield SQL["known_gates"](ids=batch(list(ids)))
    there = {gate: state_of(gate, state) for gate, state, _ in rows}
    deadlines: dict[str, int | None] = {gate: deadline for gate, _, deadline in rows}
    new: dict[str, NewGate] = {}
    for gate in gates:
        if gate.id not in there and gate.id not in new:
            new[gate.id] = gate
            deadlines[gate.id] = None if gate.timeout is None else later(now, gate.timeout)
    for name, job in named.items():
        if name not in deadlines:
            raise no_gate(job, name)
    yield from _check_watched(new, {job.id for job in jobs})
    return KnownGates(deadlines, {each for gate in new.values() for each in gate.on})


def _check_watched(new: Mapping[str, NewGate], planned: set[str]) -> Queries[None]:
    """Every watched job is there or comes along, or the gate has a timeout."""
    # Raises for an id that cannot be stored, before anything is looked up.
    batch([each for gate in new.values() for each in gate.on])
    wanted = {
        each: gate.id
        for gate in new.values()
        if gate.timeout is None
        for each in gate.on
        if each not in planned
    }
    if not wanted:
        return
    # Without a timeout, a gate over a job that never comes would be open for ever.
    there = {job for job, _ in (yield SQL["states"](ids=batch(list(wanted))))}
    for job, gate in wanted.items():
        if job not in there:
            raise nothing_to_watch(gate, job)


# -- what the database left out --------------------------------------------------------------------


def _resolved(
    jobs: Sequence[NewJob], rows: Sequence[NewRow], inserted: set[str], now: int
) -> Queries[tuple[list[Enqueued], frozenset[str]]]:
    """Some ids or keys were taken: say for each job what became of it, or take all back."""
    left = _left_out(rows, inserted)
    known = yield SQL["same_ids"](ids=batch([rows[at][ID] for at in left]))
    keys = batch([rows[at][KEY] for at in left if rows[at][KEY] is not None])
    held = yield SQL["holders"](keys=keys)
    plan = _Plan(jobs, rows, known, held, now)
    try:
        for at in left:
            plan.meet(at)
    except (IdConflict, UniqueConflict):
        # Before the jobs go, for it asks their rows which of them were announced.
        if any(job.announce for job in jobs):
            yield SQL["undo_announcements"](ids=batch(list(inserted)))
        yield SQL["withdraw"](ids=batch(list(inserted)))
        raise
    rooted = yield from _carried_out(plan, now)
    answers = enumerate(_created(rows))
    return [plan.answers.get(at) or created for at, created in answers], rooted


def _left_out(rows: Sequence[NewRow], inserted: set[str]) -> list[int]:
    """The places of the rows that were not inserted; of a doubled id the first one was."""
    fresh = set(inserted)
    left = []
    for at, row in enumerate(rows):
        if row[ID] in fresh:
            fresh.remove(row[ID])
        else:
            left.append(at)
    return left


def _carried_out(plan: _Plan, now: int) -> Queries[frozenset[str]]:
    rooted: frozenset[str] = frozenset()
    if plan.freed:
        # The unique index refuses the new holder while the lapsed one has the key.
        yield SQL["release_keys"](keys=batch(list(plan.freed)), now=now)
        for query in inserts(plan.second, now):
            rooted |= _rooted((yield query))
    if plan.replaced:
        yield SQL["replace_holders"](batch=batch(list(plan.replaced.values())), now=now)
    yield from agreed(plan.late, now)
    return rooted


class _Plan:
    """The decisions about jobs whose id or unique key is taken; writes nothing."""

    def __init__(
        self,
        jobs: Sequence[NewJob],
        rows: Sequence[NewRow],
        known: Iterable[Row],
        held: Iterable[Row],
        now: int,
    ) -> None:
        self._jobs = jobs
        self._rows = rows
        self._now = now
        self._known: dict[str, Row] = {job: (job, *kept) for job, *kept in known}
        self._holders = {key: _KeyHolder(*holder) for key, *holder in held}
        self.answers: dict[int, Enqueued] = {}
        self.freed: dict[str, None] = {}
        self.second: list[NewRow] = []
        self.replaced: dict[str, NewRow] = {}
        self.late: list[NewJob] = []
        """The jobs of both."""

    def meet(self, at: int) -> None:
        """Decide about the job at this place."""
        job = self._jobs[at]
        # The id before the key: a repeat would otherwise meet itself as the holder of its key.
        known = self._known.get(job.id)
        if known is not None:
            self.answers[at] = _repeated(job, known)
            return
        if job.unique is None:  # only an id or a key can be taken
            message = f"job {job.id} was refused by the database"
            raise AssertionError(message)
        holder = self._holders.get(job.unique.key)
        if holder is None or self._has_lapsed(holder):
            self._take_over(at, job.unique.key)
        else:
            self.answers[at] = self._held(at, job, job.unique, holder)

    def _has_lapsed(self, holder: _KeyHolder) -> bool:
        return holder.until is not None and holder.until <= self._now

    def _take_over(self, at: int, key: str) -> None:
        row = self._rows[at]
        self.freed[key] = None
        self.second.append(row)
        self.late.append(self._jobs[at])
        # Later jobs of the same batch meet this one, by its key and by its id.
        self._holders[key] = _KeyHolder(row[ID], row[FINGERPRINT], row[STATE], row[RUN_AT])
        self._known[row[ID]] = (row[ID], row[FINGERPRINT], row[RUN_AT])

    def _held(self, at: int, job: NewJob, unique: UniqueClaim, holder: _KeyHolder) -> Enqueued:
        if unique.policy is UniquePolicy.ATTACH and holder.fingerprint == job.fingerprint:
            return _joined(job, holder)
        if unique.policy is UniquePolicy.REPLACE and holder.state in _WAITING:
            row = (holder.id, *self._rows[at][ID + 1 :])
            self.replaced[holder.id] = row
            self.late.append(job)
            taken = holder._replace(fingerprint=job.fingerprint, run_at=row[RUN_AT])
            self._holders[unique.key] = taken
            return _joined(job, taken)
        if holder.state not in OUTER:
            raise unknown_state(holder.id, holder.state)
        raise key_held(unique.policy, unique.key, holder=holder.id, state=OUTER[holder.state])


_WAITING: Final = frozenset({"blocked", "scheduled", "ready"})


def _joined(job: NewJob, holder: _KeyHolder) -> Enqueued:
    return Enqueued(id=job.id, job_id=holder.id, created=False, run_at=readable(holder.run_at))


def _repeated(job: NewJob, known: Row) -> Enqueued:
    _, fingerprint, run_at = known
    if fingerprint != job.fingerprint:
        raise id_taken(job.id)
    return Enqueued(id=job.id, job_id=job.id, created=False, run_at=readable(run_at))
