"""Ended jobs that are put back, and what follows: gates over them that can fire again.

A join that died since its gate could not fire waits at its gate again as soon as the gate could
fire by what the jobs that it watches are now; so does one that is asked for itself. That goes on
along the chain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from offpath.errors import StoreBusy
from offpath.model.changes import ChangedJob
from offpath.model.gate import Counting, GateState, verdict
from offpath.model.job import JobState
from offpath.store.programs import gates
from offpath.store.programs.answers import STATES, HeldRow, RecountedRow, RedrivenRow
from offpath.store.programs.dialect import Dialect, Send, Steps, ask, embed
from offpath.store.programs.held import changed, held
from offpath.store.protocol import JobRedrive

_UNDONE: Final = frozenset({"dead", "cancelled"})


class _Put(msgspec.Struct):
    """A job that is put back, as ``redrive`` and ``wait_again`` take it."""

    id: str
    delay: int | float


class _More(msgspec.Struct):
    """A group with more open jobs, as ``reopen_groups`` takes it."""

    id: str
    more: int


class _Counts(msgspec.Struct):
    """A gate that is counted afresh, as ``reopen_gates`` takes it."""

    id: str
    opens: bool
    succeeded: int
    failed: int


def redrive(d: Dialect, redrives: Sequence[JobRedrive]) -> Steps[list[ChangedJob]]:
    """Put ended jobs back, and make waiting ones due; count those that are open again up."""
    # By the id as the database writes it: its answers are looked up here.
    asked = {known: one for one in redrives if (known := d.id(one.id)) is not None}
    before, over = yield from _hold(d, asked)
    behind = {
        job: one.delay
        for job, one in asked.items()
        if job in before and not one.past_gate and _waits(before[job], over)
    }
    # only what is held: a job that is committed after that look was not there to be put back
    chosen = [
        (job, one.delay)
        for job, one in sorted(asked.items())
        if job in before and job not in behind
    ]
    answers = yield Send(
        (
            # Before jobs are open again, since it counts those that are open.
            d.sql["restore_groups"](ids=d.ids(before), now=d.now),
            *d.told_the_time(),
            d.sql["redrive"](
                batch=d.batch([_Put(job, d.span(delay)) for job, delay in chosen]), now=d.now
            ),
        )
    )
    rows = sorted(RedrivenRow(*row) for row in answers[-1])
    # A waiting job that was made due has been counted as open all the time.
    opened = [job for row in rows if STATES[(job := before[row.id]).state].terminal]
    returned, released = yield from _bring_back(d, opened, behind, before)
    yield from _reopen_groups(d, [*opened, *returned])
    d.announced.hear(before[row.id].announce for row in rows)
    d.announced.hear(job.announce for job in returned)
    if rows or released:
        d.announced.moved.add(JobState.QUEUED)
    again = [changed(before[row.id], STATES[row.state], attempt=row.attempt) for row in rows]
    return again + [_back(job, released) for job in returned]


def _back(job: HeldRow, released: Collection[str]) -> ChangedJob:
    state = JobState.QUEUED if job.id in released else JobState.BLOCKED
    return changed(job, state, attempt=1)


def _hold(d: Dialect, asked: Iterable[str]) -> Steps[tuple[dict[str, HeldRow], dict[str, str]]]:
    """Hold these jobs, with all that may come back because of them, then the gates over them."""
    ids = d.ids(asked)
    # A look without locks: what is held below is what counts.
    line = {job for (job,) in (yield from ask(d.sql["jobs_in_line"](ids=ids)))}
    whole = d.ids(line)
    *_, rows, over, again = yield Send(
        (
            # a holder whose period is over stands in nobody's way
            d.sql["lapse_keys"](ids=whole, now=d.now),
            d.sql["hold_jobs"](ids=whole),
            # Behind the jobs, as rows of gates are locked; none of them is decided meanwhile.
            d.sql["lock_over_line"](ids=ids),
            d.sql["jobs_in_line"](ids=ids),
        )
    )
    yield from _hold_late(d, {job for (job,) in again} - line)
    return {job.id: job for job in held(rows)}, dict(map(tuple, over))


def _hold_late(d: Dialect, late: Collection[str]) -> Steps[None]:
    """Hold jobs that another redrive has put back meanwhile, so that none of them ends uncounted.

    Rows of jobs are not waited for behind those of gates. Raises ``StoreBusy`` if one is not free,
    or has ended: then a gate was made meanwhile.
    """
    if not late:
        return
    rows = yield from ask(d.sql["hold_free_live"](ids=d.ids(late)))
    if len(rows) < len(late):
        raise StoreBusy("somebody else puts the same workflow back just now: try again")


def _waits(job: HeldRow, over: Mapping[str, str]) -> bool:
    """True if the job never came past its gate, and the gate may yet fire."""
    return bool(job.at_gate) and job.state in _UNDONE and job.gate in over


# -- gates -----------------------------------------------------------------------------------------


def _bring_back(
    d: Dialect,
    opened: Sequence[HeldRow],
    behind: Mapping[str, float],
    before: Mapping[str, HeldRow],
) -> Steps[tuple[list[HeldRow], set[str]]]:
    """Let jobs wait at their gates again: those that were asked for, and those that had died at
    gates over jobs that are open again. The jobs, and the ids of those that were released at once.
    """
    returned: list[HeldRow] = []
    released: set[str] = set()
    front, left = opened, behind
    while (watched := [job for job in front if job.watched]) or left:
        own = {gate for job in left if (gate := before[job].gate)}
        reopened = yield from _reopen_gates(d, watched, own)
        came = {job: delay for job, delay in left.items() if before[job].gate not in reopened.shut}
        left = {job: delay for job, delay in left.items() if job not in came}
        jobs = {job.id: job for job in reopened.died} | {job: before[job] for job in came}
        front = yield from _wait_again(d, jobs, came)
        returned += front
        if reopened.fired:
            fired = dict.fromkeys(reopened.fired, GateState.FIRED)
            moved = yield from embed(gates.follow(d, fired, None))
            released |= {row.id for row in moved}
        if not front:  # those that are left wait for jobs that stay as they are
            break
    return returned, released


class _Reopened(NamedTuple):
    """The gates over some jobs, counted afresh."""

    fired: Sequence[str] = ()
    """Gates that are open again and fire at once."""
    shut: Collection[str] = ()
    """Gates that still cannot fire."""
    died: Sequence[HeldRow] = ()
    """The jobs that had died at those that are open again."""


def _reopen_gates(d: Dialect, opened: Sequence[HeldRow], own: Collection[str]) -> Steps[_Reopened]:
    """Open gates that could not fire and can: those over jobs that are open again, and ``own``."""
    ids = d.ids(job.id for job in opened)
    *_, rows = yield Send(
        (
            d.sql["uncount_gates"](ids=ids),
            d.sql["uncount_watches"](ids=ids),
            d.sql["recount_gates"](ids=ids, gates=d.batch(sorted(own))),
        )
    )
    counts = [RecountedRow(*row) for row in rows]
    states = {row.id: _verdict(row) for row in counts}
    shut = {gate for gate, state in states.items() if state is GateState.UNSATISFIABLE}
    if not counts:
        return _Reopened()
    # those that stay shut, too: what a gate has counted is what its watches say
    batch = [_Counts(row.id, row.id not in shut, row.succeeded, row.failed) for row in counts]
    *_, died = yield Send(
        (
            d.sql["recount_watches"](ids=d.ids(states)),
            d.sql["reopen_gates"](batch=d.batch(batch), now=d.now),
            d.sql["died_at_gates"](ids=d.ids(states.keys() - shut)),
        )
    )
    fired = sorted(gate for gate, state in states.items() if state is GateState.FIRED)
    return _Reopened(fired, shut, held(died))


def _verdict(row: RecountedRow) -> GateState:
    return verdict(
        need=row.need,
        of=Counting(row.counting),
        total=row.total,
        succeeded=row.succeeded,
        failed=row.failed,
    )


def _wait_again(
    d: Dialect, jobs: Mapping[str, HeldRow], delays: Mapping[str, float]
) -> Steps[list[HeldRow]]:
    """Let these ended jobs wait at their gates; those that do."""
    if not jobs:
        return []
    # Jobs that died along were not asked for, so they have no delay of their own.
    batch = [_Put(job, d.span(delays.get(job, 0.0))) for job in sorted(jobs)]
    rows = yield from ask(d.sql["wait_again"](batch=d.batch(batch), now=d.now))
    return [jobs[job] for job in sorted(job for (job,) in rows)]


# -- groups ----------------------------------------------------------------------------------------


def _reopen_groups(d: Dialect, jobs: Sequence[HeldRow]) -> Steps[None]:
    """Jobs that had ended are open again: their groups count them so, as the last of all."""
    if opened := Counter(job.group_id for job in jobs if job.grouped):
        groups = [_More(group, more) for group, more in sorted(opened.items())]
        yield Send((d.sql["reopen_groups"](batch=d.batch(groups)),), last=True)
