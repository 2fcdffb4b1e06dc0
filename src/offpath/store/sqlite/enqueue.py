"""Enqueueing, without I/O: the same steps on our own connection and on the caller's.

:func:`enqueue_steps` yields statements and is sent their rows. It makes no savepoint, because on a
caller's connection that could end up as a commit of its own; what it has inserted before it finds
a conflict it takes back itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from offpath.errors import IdConflict, InvalidArgument, UniqueConflict, WrongConnection
from offpath.model.changes import with_deaths
from offpath.model.effects import Effects
from offpath.model.gate import NewGate
from offpath.model.group import GroupPolicy
from offpath.model.job import (
    BlockReason,
    Enqueued,
    JobState,
    NewJob,
    UniqueClaim,
    UniquePolicy,
)
from offpath.model.new import NewLogEvent, NewMessage
from offpath.store.sql import Query, Row
from offpath.store.sqlite import gating
from offpath.store.sqlite.groups import Ended, Joined, count_steps
from offpath.store.sqlite.instants import instant, later, micros, span
from offpath.store.sqlite.limits import agreed
from offpath.store.sqlite.parameters import batch, texts
from offpath.store.sqlite.session import SQL, Steps
from offpath.store.sqlite.writing import Writing

T = TypeVar("T")

_COLUMNS: Final = (
    "id",
    "task",
    "queue",
    "state",
    "priority",
    "run_at",
    "group_id",
    "parent",
    "deadline",
    "deadline_in",
    "unique_key",
    "unique_slot",
    "unique_states",
    "unique_until",
    "fingerprint",
    "dependents",
    "tags",
    "options",
    "input",
    "announce",
    "reason",
    "gate",
    "gated_delay",
    "blocked_until",
    "limit_key",
    "fair_key",
)
_ID, _TASK, _STATE, _RUN_AT, _KEY, _FINGERPRINT = 0, 1, 3, 5, 10, 14
"""Places in a row of ``job_insert``."""

_PLAIN: Final = _COLUMNS.index("reason")
_NOTHING_MORE: Final = (None,) * (len(_COLUMNS) - _PLAIN)
"""Places from which on plain jobs have nothing."""

_INNER: Final = {
    state: "scheduled,ready" if state is JobState.QUEUED else state.value for state in JobState
}
"""States as they are kept: queued is two of them."""


class _Holder(NamedTuple):
    """Who has a unique key."""

    id: str
    fingerprint: str
    state: str
    run_at: int
    until: int | None = None


class Inserted(NamedTuple):
    """What became of new jobs."""

    answers: list[Enqueued]
    rooted: frozenset[str] = frozenset()
    """Roots whose group was there before them."""


def enqueue_steps(effects: Effects, now: datetime) -> Steps[list[Enqueued]]:
    """Write ``effects`` at ``now``, inside whatever transaction is open.

    Answers in the order of ``effects.jobs``, then of ``effects.messages``. Raises ``IdConflict``,
    ``UniqueConflict``, ``InvalidArgument`` and ``StoreRejected``, and has then written nothing.
    """
    refuse_contributions(effects)
    return (
        yield from effect_steps(
            effects.jobs, effects.messages, effects.log, micros(now), gates=effects.gates
        )
    )


def refuse_contributions(*all_effects: Effects) -> None:
    """Raise InvalidArgument when somebody gives to a group without being a member that ends."""
    if any(effects.contributions for effects in all_effects):
        message = (
            "only a settled job can contribute to the value of its group: "
            "put the contribution into the effects of a settlement"
        )
        raise InvalidArgument(message)


def effect_steps(
    jobs: Sequence[NewJob],
    messages: Sequence[NewMessage],
    log: Sequence[NewLogEvent],
    now: int,
    *,
    gates: Sequence[NewGate] = (),
) -> Steps[list[Enqueued]]:
    """As :func:`enqueue_steps`, of effects that may be those of several transitions."""
    writing = Writing(messages, log, now) if messages or log else None
    known = yield from gating.known_steps(jobs, gates, now)
    inserted = yield from insert_steps(jobs, now, known)
    answers = inserted.answers
    following = gating.Following(now)
    if known is not gating.NO_GATES:
        yield from following.made(known, jobs, answers)
    fallen = [Ended(each.id, each.group_id, "dead", each.redrives) for each, _ in following.fallen]
    joined = joining(jobs, inserted)
    if fallen or joined is not None:
        closed = yield from count_steps(fallen, joined)
        answers = with_deaths(answers, following.told(closed.done))
    if writing is not None:
        answers = [*answers, *(yield from writing.steps())]
    return answers


def on_file(path: Path, steps: Steps[T]) -> Steps[T]:
    """``steps``, after making sure that the connection has this file open as its main database.

    Raises ``WrongConnection``: a job enqueued into another file would never run.
    """
    databases = yield SQL["databases"]()
    main = next((file for _, name, file in databases if name == "main"), "")
    if not main or Path(main).resolve() != path.resolve():
        found = main or "an in-memory database"
        message = f"the connection given as within= is of {found}, the store's file is {path}"
        raise WrongConnection(message)
    return (yield from steps)


def joining(jobs: Iterable[NewJob], inserted: Inserted) -> Joined | None:
    """What new jobs add to groups, new groups of one left out; None: nothing."""
    added: Counter[str] = Counter()
    roots: list[str] = []
    fail_fast: list[str] = []
    for job, answer in zip(jobs, inserted.answers, strict=True):
        if not answer.created:
            continue
        if job.group_id is not None and job.group_id != job.id:
            added[job.group_id] += 1
            continue
        if job.group_policy is GroupPolicy.FAIL_FAST:
            fail_fast.append(job.id)
        if job.id in inserted.rooted:
            roots.append(job.id)
    return Joined(added, roots, fail_fast) if added or roots or fail_fast else None


def insert_steps(
    jobs: Sequence[NewJob], now: int, gates: gating.Known = gating.NO_GATES
) -> Steps[Inserted]:
    """The jobs alone, without their gates and the counts of their groups."""
    if not jobs:
        return Inserted([])
    rows = [_row(job, now, gates.deadlines) for job in jobs]
    agree = agreed(jobs, now)
    if len(rows) == 1:
        inserted = yield SQL["job_insert_one"](**_named(rows[0]), now=now)
    else:
        inserted = yield _insert(rows, now)
    rooted = _rooted(inserted)
    if agree is not None and inserted:
        yield agree
    if len(inserted) == len(jobs):
        return Inserted([_created(row) for row in rows], rooted)
    written = {row[0] for row in inserted}
    answers, later_rooted = yield from _resolved(jobs, rows, written, now)
    return Inserted(answers, rooted | later_rooted)


def _insert(rows: Sequence[tuple[Any, ...]], now: int) -> Query:
    """Of plain jobs the columns that only few have are not even sent."""
    rich = any(row[_PLAIN:] != _NOTHING_MORE for row in rows)
    sent = rows if rich else [row[:_PLAIN] for row in rows]
    return SQL["job_insert"](batch=batch(sent), rich=int(rich), now=now)


def _rooted(inserted: Iterable[Row]) -> frozenset[str]:
    return frozenset(row[0] for row in inserted if row[1])


def _named(row: tuple[Any, ...]) -> dict[str, Any]:
    """A row as parameters of ``job_insert_one``."""
    if any("\0" in value for value in row if isinstance(value, str)):
        batch([row])  # raises: one job is refused for what would be refused among others
    return dict(zip(_COLUMNS, row, strict=True))


def _created(row: Sequence[Any]) -> Enqueued:
    return Enqueued(id=row[_ID], job_id=row[_ID], created=True, run_at=instant(row[_RUN_AT]))


def _row(job: NewJob, now: int, gates: Mapping[str, int | None]) -> tuple[Any, ...]:
    run_at = later(now, job.delay) if job.run_at is None else micros(job.run_at)
    deadline_in = span(job.deadline_in)
    deadline = _deadline(job, now)
    waits = job.gate is not None or job.limit is not None
    return (
        job.id,
        job.task,
        job.queue,
        "scheduled" if run_at > now and job.gate is None else _BLOCKED if waits else "ready",
        job.priority,
        run_at,
        job.group_id or job.id,
        job.parent,
        deadline,
        deadline_in,
        *(_NO_KEY if job.unique is None else _key_columns(job.unique, now)),
        job.fingerprint,
        texts(job.dependents),
        texts(job.tags),
        job.options,
        job.input,
        job.announce,
        *(_wait_columns(job, run_at <= now, deadline, gates) if waits else _NO_WAIT),
        None if job.limit is None else job.limit.key,
        job.fair_key or None,
    )


_BLOCKED: Final = JobState.BLOCKED.value
_NO_KEY: Final = (None, None, None, None)
_NO_WAIT: Final = (None, None, None, None)


def _wait_columns(
    job: NewJob, due: bool, deadline: int | None, gates: Mapping[str, int | None]
) -> tuple[Any, ...]:
    """Reason, gate, the delay that counts from its release, and when the wait is over."""
    if job.gate is None:
        return (BlockReason.LIMIT.value, None, None, deadline) if due else _NO_WAIT
    ends = [at for at in (deadline, gates.get(job.gate)) if at is not None]
    delay = span(job.delay) if job.run_at is None else None
    return BlockReason.GATE.value, job.gate, delay, min(ends, default=None)


def _deadline(job: NewJob, now: int) -> int | None:
    """At a gate, one that counts from now counts from the release."""
    if job.deadline is not None:
        return micros(job.deadline)
    return None if job.deadline_in is None or job.gate is not None else later(now, job.deadline_in)


def _key_columns(unique: UniqueClaim, now: int) -> tuple[str, str | None, str, int | None]:
    """Key, slot, states and end of the period."""
    held = JobState.QUEUED in unique.states
    until = None if unique.period is None else later(now, unique.period)
    states = ",".join(_INNER[state] for state in unique.states)
    return unique.key, unique.key if held else None, states, until


# -- what the database left out --------------------------------------------------------------------


def _resolved(
    jobs: Sequence[NewJob], rows: Sequence[tuple[Any, ...]], inserted: set[str], now: int
) -> Steps[tuple[list[Enqueued], frozenset[str]]]:
    """Some ids or keys were taken: say for each job what became of it, or take all back."""
    left = _left_out(rows, inserted)
    known = yield SQL["job_same"](ids=batch([rows[at][_ID] for at in left]))
    keys = batch([rows[at][_KEY] for at in left if rows[at][_KEY] is not None])
    held = yield SQL["slot_holders"](keys=keys)
    plan = _Plan(jobs, rows, known, held, now)
    try:
        for at in left:
            plan.meet(at)
    except (IdConflict, UniqueConflict):
        if any(job.announce for job in jobs):
            yield SQL["announcement_undo"](ids=batch(list(inserted)))
        yield SQL["job_undo"](ids=batch(list(inserted)))
        raise
    rooted = yield from _carried_out(plan, now)
    return [plan.answers.get(at) or _created(row) for at, row in enumerate(rows)], rooted


def _left_out(rows: Sequence[tuple[Any, ...]], inserted: set[str]) -> list[int]:
    """The places of the rows that were not inserted; of a doubled id the first one was."""
    fresh = set(inserted)
    left = []
    for at, row in enumerate(rows):
        if row[_ID] in fresh:
            fresh.remove(row[_ID])
        else:
            left.append(at)
    return left


def _carried_out(plan: _Plan, now: int) -> Steps[frozenset[str]]:
    rooted: frozenset[str] = frozenset()
    if plan.freed:
        yield SQL["slot_free"](keys=batch(list(plan.freed)), now=now)
        rooted = _rooted((yield _insert(plan.second, now)))
    if plan.replaced:
        yield SQL["job_replace"](batch=batch(list(plan.replaced.values())), now=now)
    return rooted


class _Plan:
    """What to do with the jobs whose id or unique key is taken; decides, writes nothing."""

    def __init__(
        self,
        jobs: Sequence[NewJob],
        rows: Sequence[tuple[Any, ...]],
        known: Iterable[Row],
        held: Iterable[Row],
        now: int,
    ) -> None:
        self._jobs = jobs
        self._rows = rows
        self._now = now
        self._known: dict[str, Row] = {row[0]: row for row in known}
        self._holders = {row[0]: _Holder(*row[1:]) for row in held}
        self.answers: dict[int, Enqueued] = {}
        self.freed: dict[str, None] = {}
        self.second: list[tuple[Any, ...]] = []
        self.replaced: dict[str, tuple[Any, ...]] = {}

    def meet(self, at: int) -> None:
        """Decide about the job at this place."""
        job = self._jobs[at]
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

    def _has_lapsed(self, holder: _Holder) -> bool:
        return holder.until is not None and holder.until <= self._now

    def _take_over(self, at: int, key: str) -> None:
        row = self._rows[at]
        self.freed[key] = None
        self.second.append(row)
        self._holders[key] = _Holder(row[_ID], row[_FINGERPRINT], row[_STATE], row[_RUN_AT])
        self._known[row[_ID]] = (row[_ID], row[_FINGERPRINT], row[_RUN_AT])

    def _held(self, at: int, job: NewJob, unique: UniqueClaim, holder: _Holder) -> Enqueued:
        if unique.policy is UniquePolicy.ATTACH and holder.fingerprint == job.fingerprint:
            return _joined(job, holder)
        if unique.policy is UniquePolicy.REPLACE and holder.state in _WAITING:
            row = (holder.id, *self._rows[at][_TASK:])
            self.replaced[holder.id] = row
            taken = holder._replace(fingerprint=job.fingerprint, run_at=row[_RUN_AT])
            self._holders[unique.key] = taken
            return _joined(job, taken)
        message = _CONFLICTS[unique.policy].format(id=holder.id, state=_shown(holder.state))
        raise UniqueConflict(message, key=unique.key, holder=holder.id)


_WAITING: Final = frozenset({"blocked", "scheduled", "ready"})

_CONFLICTS: Final[Mapping[UniquePolicy, str]] = {
    UniquePolicy.ATTACH: (
        "the unique key is held by job {id} ({state}) with another input: "
        "use another key, or wait until that job has ended"
    ),
    UniquePolicy.REPLACE: (
        "the unique key is held by job {id}, which is {state} and cannot be replaced: "
        "wait until it has ended, or cancel it"
    ),
    UniquePolicy.REFUSE: (
        "the unique key is held by job {id} ({state}): wait until it has ended, or cancel it"
    ),
}


def _shown(state: str) -> str:
    return "queued" if state in {"scheduled", "ready"} else state


def _joined(job: NewJob, holder: _Holder) -> Enqueued:
    return Enqueued(id=job.id, job_id=holder.id, created=False, run_at=instant(holder.run_at))


def _repeated(job: NewJob, known: Row) -> Enqueued:
    if known[1] != job.fingerprint:
        message = (
            f"job {job.id} exists with another task or input: give the new job an id of its own"
        )
        raise IdConflict(message)
    return Enqueued(id=job.id, job_id=job.id, created=False, run_at=instant(known[2]))
