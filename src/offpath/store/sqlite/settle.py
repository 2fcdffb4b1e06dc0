"""The end of attempts: a batch is a few statements; one that cannot be stored is isolated."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

from msgspec.structs import replace

from offpath.model.changes import ChangedJob
from offpath.model.group import Contribution
from offpath.model.job import BlockReason, Enqueued, Failure, JobState, LeasedJob, NewJob
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.store.death_faults import deaths
from offpath.store.programs import gates
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.conclusion import is_done, told
from offpath.store.programs.group_work import GroupWork, Left
from offpath.store.programs.instants import instant, micros
from offpath.store.sqlite import groups, limits
from offpath.store.sqlite.enqueue import NO_GATES, group_work, insert_steps, known_gates
from offpath.store.sqlite.isolation import isolating
from offpath.store.sqlite.ledger_post import together_steps
from offpath.store.sqlite.mailbox import Writing
from offpath.store.sqlite.parameters import OUTER, batch, failure_steps, later
from offpath.store.sqlite.session import SQL, Session
from offpath.store.sqlite.words import SqliteWording

_CANCELLED: Final = JobState.CANCELLED.value
_SUCCEEDED: Final = JobState.SUCCEEDED.value

_ENDING: Final = 7
"""Columns of a settlement that ends its job; the others have more."""
_WAITING: Final = 8
"""Columns of a settlement after which the job waits for its time."""


_ID: Final = 0
_RUN_AT: Final = 4
"""Columns of one that does not end its job."""

_ENDED: Final = frozenset({_SUCCEEDED, JobState.DEAD.value, _CANCELLED})


class _Applied(NamedTuple):
    """A job that was moved on."""

    id: str
    seq: int
    state: str
    group_id: str
    announce: int
    watched: int
    has_undo: int
    redrives: int
    frees: int
    """True if others may have waited for it to give its unique key up."""

    @property
    def ended(self) -> bool:
        """True if it will not run again."""
        return self.state in _ENDED


def settle(session: Session, now: int, settlements: Sequence[Settlement]) -> list[Settled]:
    """Settle a batch; the answers are in its order."""
    return [
        answer
        for run in _runs(session, settlements)
        for answer in isolating(
            session, run, lambda part: _Batch(session, now, part).settle(), _refused
        )
    ]


def _runs(session: Session, settlements: Sequence[Settlement]) -> Iterator[list[Settlement]]:
    """Parts of a batch in which order cannot matter.

    It matters where unique keys change hands: a key given up by one settlement is free for the
    next, not for the one before. Such settlements stand alone; all others go together. And of
    several settlements of one job, stale ones among them, only the one whose fence holds counts.
    """
    # A job that runs without its key may take it again as it waits, so each end may then change
    # who holds a key.
    alone = bool(session.run(SQL["keyless_running"]()))
    run: dict[str, Settlement] = {}
    for one in settlements:
        if alone or any(job.unique is not None for job in one.effects.jobs):
            yield list(run.values())
            yield [one]
            run = {}
            continue
        # One statement would apply either of two ends of a job. In two parts the fence of the
        # second one fails, as it must.
        if one.job.id in run:
            yield list(run.values())
            run = {}
        run[one.job.id] = one
    yield list(run.values())


def _lost(settlement: Settlement) -> Settled:
    return Settled(id=settlement.job.id, status=SettleStatus.LEASE_LOST)


def _refused(settlement: Settlement, error: Exception) -> Settled:
    return Settled(id=settlement.job.id, status=SettleStatus.REFUSED, error=error)


class _Batch:
    """One attempt to settle some settlements; raises when one of them cannot be stored."""

    def __init__(self, session: Session, now: int, settlements: list[Settlement]) -> None:
        self._session = session
        self._now = now
        self._wording = SqliteWording(now)
        self._settlements = settlements
        self._applied: dict[str, _Applied] = {}
        self._enqueued: dict[str, tuple[Enqueued, ...]] = {}
        self._moved: list[MovedRow] = []
        self._last: dict[str, str] = {}
        """The last job of each group that ends here."""

    def settle(self) -> list[Settled]:
        """Write it all; the groups come last, but for the ledger, which may refuse."""
        # Jobs first: the update checks each fence, and nothing that a lost lease asked for may be
        # carried out.
        due = self._write_jobs()
        mine = [one for one in self._settlements if one.job.id in self._applied]
        self._write_failures(mine)
        # New jobs come behind the ends, which have given up their unique keys: a handler may
        # enqueue a job with the key of its own.
        work = self._carry(mine)
        self._forget_undo()
        ended = self._ended(mine)
        watched = {each.id: each.state == _SUCCEEDED for each in ended if each.watched}
        count = gates.count_ends(self._wording, watched, _kept(self._settlements))
        self._moved += self._session.drive(count)
        self._hear()
        self._count(work, mine, ended)
        left = self._session.drive(groups.count_steps(work))
        self._contribute(work, mine, left)
        along = self._along(ended, left)
        # Behind all the rest: a declined operation raises, and then nothing of this batch stays.
        self._post(mine)
        return [self._answer(one, due, left, along) for one in self._settlements]

    def _ended(self, mine: Iterable[Settlement]) -> list[_Applied]:
        return [each for one in mine if (each := self._applied[one.job.id]).ended]

    def _hear(self) -> None:
        """Note what gates have done to other jobs."""
        session, moved = self._session, self._moved
        session.stirred = session.stirred or any(row.announce for row in moved)
        session.released = session.released or JobState.QUEUED in gates.released(moved)

    def _count(
        self, work: GroupWork, mine: Sequence[Settlement], ended: Iterable[_Applied]
    ) -> None:
        """Note what the groups have lost."""
        for each in ended:
            work.end(each.group_id, failed=each.state != _SUCCEEDED, job=each.id)
            self._last[each.group_id] = each.id
        work.end_moved(self._moved)
        for one in mine:
            if self._needs_row(one):
                work.more[one.job.group_id] += 0

    def _contribute(
        self, work: GroupWork, mine: Iterable[Settlement], left: Mapping[str, Left]
    ) -> None:
        """Give what these made to the groups that have a row: most are lone and have none."""
        for one in mine:
            if one.job.group_id in left and self._carries(one):
                work.give(one.job.group_id, _contributions(one))
        if work.given:
            self._session.drive(groups.give_steps(work, left))

    def _along(
        self, ended: Sequence[_Applied], left: Mapping[str, Left]
    ) -> dict[str, list[ChangedJob]]:
        """Jobs that died, by their reporters: the job that made them, or the last that failed."""
        if not self._moved:
            return {}
        made = {
            each.job_id: maker
            for maker, some in self._enqueued.items()
            for each in some
            if each.created
        }
        failed = [each.id for each in ended if each.watched and each.state != _SUCCEEDED]
        other = failed[-1] if failed else next(iter(made.values()), "")
        along: dict[str, list[ChangedJob]] = {}
        for each in told(gates.dead(self._moved), left, elsewhere=self._last):
            along.setdefault(made.get(each.id, other), []).append(each)
        return along

    def _write_jobs(self) -> dict[str, int | None]:
        """Move the jobs on; returns when those that wait again are due."""
        # Under the write lock, so no signal can come between this look and the wait.
        there = self._signals()
        # A job that was given back is ready at once. If its key is closed, no admission would look
        # at it again, and it would start.
        shut = self._shut()
        # The width of a row says by which statement it is written: one statement for each kind of
        # end.
        rows = [_columns(one, self._now, there, shut) for one in self._settlements]
        kinds = (
            ("settle_ended", [row for row in rows if len(row) == _ENDING]),
            ("settle_waiting", [row for row in rows if len(row) == _WAITING]),
            ("settle_blocked", [row for row in rows if len(row) > _WAITING]),
        )
        for name, some in kinds:
            if some:
                query = SQL[name](batch=batch(some), now=self._now)
                found = list(map(_Applied._make, self._session.run(query)))
                self._applied.update({job.id: job for job in found})
                if any(job.announce for job in found):
                    self._session.stirred = True
                if any(job.frees for job in found):
                    self._session.released = True
        if there:
            self._call(there)
        return {row[_ID]: row[_RUN_AT] for row in rows if len(row) > _ENDING}

    def _signals(self) -> set[tuple[str, str]]:
        """The signals that are there already, of those that these settlements wait for."""
        outcomes = (one.outcome for one in self._settlements)
        wanted = {(each.target, each.event) for each in outcomes if isinstance(each, Waiting)}
        if not wanted:
            return set()
        query = SQL["signals_there"](wanted=batch(sorted(wanted)), now=self._now)
        return {(target, event) for target, event in self._session.run(query)}

    def _shut(self) -> set[str]:
        """The closed keys among those whose jobs are given back."""
        given_back = (one for one in self._settlements if isinstance(one.outcome, Released))
        return limits.shut(self._session, self._now, [one.job.limit_key for one in given_back])

    def _call(self, there: Container[tuple[str, str]]) -> None:
        """Let the jobs run whose signal is there already: they have it to take."""
        called = [
            (one.job.id, one.outcome.target, one.outcome.event)
            for one in self._settlements
            if isinstance(one.outcome, Waiting)
            and (one.outcome.target, one.outcome.event) in there
            and one.job.id in self._applied
        ]
        self._session.run(SQL["catch_signals"](jobs=batch(called)))

    def _write_failures(self, mine: list[Settlement]) -> None:
        failures = [
            (self._applied[one.job.id].seq, one.outcome.failure)
            for one in mine
            if isinstance(one.outcome, Retry | Dead | Cancelled) and one.outcome.failure is not None
        ]
        record_failures(self._session, self._now, failures)
        if faults := deaths(mine):
            self._session.run(SQL["note_faults"](batch=batch(faults)))

    def _forget_undo(self) -> None:
        # What undoes a success is never run, and would keep the job from being pruned.
        done = [
            each.id for each in self._applied.values() if each.has_undo and each.state == _SUCCEEDED
        ]
        if done:
            self._session.run(SQL["unmark_undo"](ids=batch(done)))
            self._session.run(SQL["forget_undo"](ids=batch(done)))

    def _carry(self, mine: list[Settlement]) -> GroupWork:
        """The effects of all, in one go; returns what the groups have more."""
        carriers = [one for one in mine if one.effects and self._carries(one)]
        if not carriers:
            return GroupWork()
        jobs = [job for one in carriers for job in _children(one)]
        made = [gate for one in carriers for gate in one.effects.gates]
        drive = self._session.drive
        known = drive(known_gates(jobs, made, self._now))
        inserted = drive(insert_steps(jobs, self._now, known))
        left = iter(inserted.answers)
        for one in carriers:
            self._enqueued[one.job.id] = tuple(next(left) for _ in one.effects.jobs)
        self._lead_on(mine, jobs)
        if known is not NO_GATES:
            self._moved += drive(gates.add(self._wording, made, jobs, inserted.answers))
        self._write(carriers)
        if any(job.announce for job in jobs):
            self._session.stirred = True
        return group_work(jobs, inserted) or GroupWork()

    def _lead_on(self, mine: Sequence[Settlement], jobs: Sequence[NewJob]) -> None:
        """Have gates that wait for descendants watch the new jobs of those that succeed here."""
        watched = {each.id: each for each in self._ended(mine) if each.watched}
        led = {
            one.job.id: new
            for one in mine
            if (each := watched.get(one.job.id)) is not None and each.state == _SUCCEEDED
            if (new := self._enqueued.get(one.job.id))
        }
        self._session.drive(gates.lead_on(self._wording, led, jobs, watched))

    def _write(self, carriers: list[Settlement]) -> None:
        """The messages and events of all."""
        messages = [new for one in carriers for new in one.effects.messages]
        log = [new for one in carriers for new in one.effects.log]
        if not messages and not log:
            return
        self._session.stirred = True
        left = iter(self._session.drive(Writing(messages, log, self._now).steps()))
        for one in carriers:
            self._enqueued[one.job.id] += tuple(next(left) for _ in one.effects.messages)

    def _carries(self, settlement: Settlement) -> bool:
        """True if the effects are to be carried out: not those of a failed or cancelled attempt."""
        return (
            isinstance(settlement.outcome, Succeeded | Snoozed | Waiting)
            # A job that was asked to stop ends as cancelled, whatever its handler returned.
            and self._applied[settlement.job.id].state != _CANCELLED
        )

    def _needs_row(self, settlement: Settlement) -> bool:
        """True if a lone job's group needs a row, for more than the job's result."""
        outcome = settlement.outcome
        withheld = (
            isinstance(outcome, Succeeded)
            and not outcome.contributes
            and outcome.result is not None
        )
        return (withheld or bool(settlement.effects.contributions)) and self._carries(settlement)

    def _post(self, mine: list[Settlement]) -> None:
        """Decide the operations of all, in order; one that does not go raises."""
        operations = [each for one in mine if self._carries(one) for each in one.effects.operations]
        if operations:
            wrote = self._session.drive(together_steps(operations, self._now))
            self._session.stirred = self._session.stirred or wrote

    def _answer(
        self,
        settlement: Settlement,
        due: dict[str, int | None],
        left: Mapping[str, Left],
        along: Mapping[str, Sequence[ChangedJob]],
    ) -> Settled:
        job_id = settlement.job.id
        applied = self._applied.get(job_id)
        if applied is None:
            return _lost(settlement)
        state, group = OUTER[applied.state], applied.group_id
        return Settled(
            id=job_id,
            status=SettleStatus.APPLIED,
            state=state,
            run_at=instant(due[job_id]) if state is JobState.QUEUED else None,
            enqueued=self._enqueued.get(job_id, ()),
            # Of several members that end at once the last one tells the end of the group.
            group_done=self._last.get(group) == job_id
            and is_done(left, group, redrives=applied.redrives),
            closing=(there := left.get(group)) is not None and there.closing,
            along=tuple(along.get(job_id, ())),
        )


def _kept(settlements: Iterable[Settlement]) -> float | None:
    """The time for which jobs that die along with these are kept: the longest of them."""
    keeps = [one.keep for one in settlements]
    longest = [keep for keep in keeps if keep is not None]
    # One that is kept for ever (None) outlasts every number.
    return max(longest) if longest and len(longest) == len(keeps) else None


def _contributions(settlement: Settlement) -> list[Contribution]:
    """The explicit contributions, then the result."""
    given = list(settlement.effects.contributions)
    outcome = settlement.outcome
    if isinstance(outcome, Succeeded) and outcome.contributes and outcome.result is not None:
        given.append(Contribution(payload=outcome.result))
    return given


def _children(settlement: Settlement) -> Iterable[NewJob]:
    group = settlement.job.group_id
    for job in settlement.effects.jobs:
        yield job if job.group_id is not None else replace(job, group_id=group)


def _columns(
    settlement: Settlement,
    now: int,
    there: Container[tuple[str, str]],
    shut: Container[str],
) -> tuple[Any, ...]:
    """Id, worker, deliveries, state, result or run time, reason, expiry, and the attempt's step."""
    job = settlement.job
    expires = None if settlement.keep is None else later(now, settlement.keep)
    head = (job.id, job.worker, job.deliveries)
    outcome = settlement.outcome
    # Only a retry spends an attempt: a snooze, a wait and a release are nobody's failure.
    match outcome:
        case Succeeded(result=result):
            return (*head, "succeeded", result, None, expires)
        case Dead(reason=why):
            return (*head, "dead", None, why.value, expires)
        case Cancelled():
            return (*head, _CANCELLED, None, _CANCELLED, expires)
        case Retry(delay=delay):
            return (*head, *_due(job, now, later(now, delay)), expires, 1)
        case Snoozed(delay=delay, until=until, reason=reason):
            due = later(now, delay) if until is None else micros(until)
            return (*head, *_due(job, now, due, reason), expires, 0)
        case Waiting(target=target, event=event):
            if (target, event) in there:
                return (*head, *_due(job, now, now), expires, 0)
            wait = (target, event, _until(job, outcome, now))
            return (*head, "blocked", None, BlockReason.SIGNAL.value, expires, *wait)
        case Released(reason=reason):
            return (*head, *given_back(job, now, shut, reason), expires, 0)
        case other:
            assert_never(other)


def _until(job: LeasedJob, outcome: Waiting, now: int) -> int | None:
    """The end of a wait: its own, or the job's deadline."""
    ends = [] if outcome.timeout is None else [later(now, outcome.timeout)]
    if job.deadline is not None:
        ends.append(micros(job.deadline))
    return min(ends, default=None)


def _due(
    job: LeasedJob, now: int, run_at: int, reason: str | None = None
) -> tuple[str, int, str | None]:
    """State, run time and reason of a job that waits again; the room of a limit is given back."""
    if run_at > now:
        return "scheduled", run_at, reason
    if job.limit_key is not None:
        return "blocked", run_at, BlockReason.LIMIT.value
    return "ready", run_at, reason


def given_back(
    job: LeasedJob, now: int, shut: Container[str], reason: str | None = None
) -> tuple[str, int, str | None]:
    """The same of a job whose turn is not over: it keeps its room, unless its key is closed."""
    run_at = micros(job.run_at)
    if run_at > now:
        return "scheduled", run_at, reason
    if job.limit_key is not None and job.limit_key in shut:
        return "blocked", run_at, BlockReason.LIMIT.value
    return "ready", run_at, reason


def record_failures(session: Session, now: int, failures: Sequence[tuple[int, Failure]]) -> None:
    """Add failures to the histories of jobs, named by ``seq``; the oldest give way."""
    session.drive(failure_steps(now, failures))
