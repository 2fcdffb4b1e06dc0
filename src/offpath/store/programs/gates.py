"""Gates: made with the jobs that wait at them, counted by whoever ends a watched job, never polled.

Gate rows are locked after the rows of the jobs that a transaction is about, by their ids. From then
on nothing is waited for but groups: jobs and further gates that somebody else holds are left to
:mod:`offpath.store.programs.waits`, which finds them by small indexes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath.errors import GateError, StoreBusy, StoreError
from offpath.model.gate import Counting, GateRecord, GateState, NewGate, verdict
from offpath.model.job import Enqueued, JobState, NewJob
from offpath.store.programs.aftermath import KEPT_FAILURES, FailedAttempt, Overdue, given_up
from offpath.store.programs.answers import GateRow, MovedRow
from offpath.store.programs.dialect import Dialect, Queries, Steps, Wording, one, said
from offpath.store.programs.instants import readable
from offpath.store.refusals import unknown_gate
from offpath.store.sql import Row
from offpath.store.unreadable import Shape, mark

_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_KNOWN: Final = frozenset(Counting)


# -- making ----------------------------------------------------------------------------------------


def add(
    w: Wording,
    gates: Sequence[NewGate],
    jobs: Sequence[NewJob],
    answers: Sequence[Enqueued],
    *,
    ended: Collection[str] = (),
) -> Queries[list[MovedRow]]:
    """Make gates, and let those that are decided at once move their jobs; the jobs that moved.

    ``ended`` are jobs that the same transaction counts next: the gates that watch them are locked
    with the others here, in one order. A gate whose jobs were all there already, or have attached
    to another, is not made: nothing would ever remove it.
    """
    made = {one.job_id for one in answers if one.created}
    named = {job.gate for job in jobs}
    held = {job.gate for job in jobs if job.gate is not None and _named(w, job.id) in made}
    gates = [gate for gate in gates if gate.id in held or gate.id not in named]
    decided, fresh = yield from _make(w, gates, answers, made)
    decided |= yield from _join(w, fresh, jobs, made, ended)
    return (yield from follow(w, decided, None))


def _make(
    w: Wording, gates: Sequence[NewGate], answers: Sequence[Enqueued], made: set[str]
) -> Queries[tuple[dict[str, GateState], set[str]]]:
    """Make gates; which of them are decided at once, and which were not there before."""
    if not gates:
        return {}, set()
    # A job that attached to the holder of its key has no row: its gate watches the holder.
    holders = {one.id: one.job_id for one in answers}
    watched = {
        # Once each: an end counts once, though two named jobs attached to one holder.
        gate.id: tuple(dict.fromkeys(holders.get(each) or _named(w, each) for each in gate.on))
        for gate in gates
    }
    others = {each for on in watched.values() for each in on} - made
    standing: dict[str, int] = {}
    if others:
        rows = yield w.sql["lock_jobs"](ids=w.ids(others))
        standing = dict(map(tuple, rows))
    batch = [_new(w, gate, watched[gate.id], standing) for gate in gates]
    # Two callers that make the same gates meet at them in one order.
    batch.sort(key=lambda one: one.id)
    rows = yield w.sql["add_gates"](now=w.now, batch=w.batch(batch))
    new = {gate for (gate,) in rows}
    # A repeat watches nothing again: its jobs may be counted already.
    fresh = [one for one in batch if one.id in new]
    if not fresh:
        return {}, set()
    known = {each: _OUTCOMES[ended] for each, ended in standing.items() if ended}
    # These may be added by somebody else in this moment: they are noted, to be looked for again.
    known |= dict.fromkeys(others - standing.keys(), "early")
    watches = [
        _Watches(one.id, one.led, [(job, known.get(job)) for job in one.on]) for one in fresh
    ]
    yield w.sql["add_watches"](batch=w.batch(watches))
    # The mark spares the end of every other job the look for gates. New jobs were written with it,
    # unless a gate came to them by another id: that of a job which attached to one of these.
    asked = {each for gate in gates for each in gate.on}
    marked = {one.job_id for one in answers if one.created and one.id in asked}
    if (
        unmarked := {each for on in watched.values() for each in on} & made - marked
        | standing.keys()
    ):
        yield w.sql["watch_jobs"](ids=w.ids(unmarked))
    states = {one.id: one.verdict() for one in fresh}
    return {gate: one for gate, one in states.items() if one is not GateState.OPEN}, new


def hold_led(w: Wording, led: Mapping[str, Sequence[Enqueued]]) -> Queries[None]:
    """Hold the jobs that those of :func:`lead_on` attached to: they may end in this moment."""
    if others := {one.job_id for each in led.values() for one in each if not one.created}:
        yield w.sql["lock_jobs"](ids=w.ids(others))


def lead_on(
    w: Wording,
    led: Mapping[str, Sequence[Enqueued]],
    jobs: Sequence[NewJob],
    ended: Collection[str],
) -> Queries[None]:
    """Have gates that wait for descendants watch what jobs queue that succeed here (``led``).

    Before these, which are among ``ended``, are counted: their gates would fire without the others.
    ``jobs`` are all new ones.
    """
    # A look without locks: nearly no gate waits for descendants.
    if not led or not (yield w.sql["gates_led_on"](ids=w.ids(led))):
        return
    # All gates of this transaction at once, in one order.
    joined = {_named(w, job.gate) for job in jobs if job.gate}
    yield w.sql["lock_gates"](ids=w.ids(joined), watching=w.ids(ended))
    # Asked again under the locks: a gate may have been decided since the first look.
    rows = yield w.sql["gates_led_on"](ids=w.ids(led))
    if batch := [_Led(gate, one.job_id) for gate, job in rows for one in led[job]]:
        yield w.sql["watch_jobs"](ids=w.ids(one.job for one in batch))
        yield w.sql["lead_on"](batch=w.batch(batch))
        yield w.sql["sum_watches"](ids=w.ids(one.gate for one in batch))


class _Led(Struct, frozen=True):
    """A new job that a gate watches, as ``lead_on`` takes it."""

    gate: str
    job: str


_OUTCOMES: Final = {1: "succeeded", -1: "failed"}
"""The outcomes that gates count, by the standing that ``lock_jobs`` answers."""


class _New(Struct, frozen=True, kw_only=True):
    """A new gate, as ``add_gates`` takes it."""

    id: str
    timeout: Any
    need: int
    total: int
    succeeded: int
    failed: int
    counting: str
    on: tuple[str, ...]
    led: bool

    def verdict(self) -> GateState:
        """The state that it has by the jobs that had ended before it was made."""
        return verdict(
            need=self.need,
            of=Counting(self.counting),
            total=self.total,
            succeeded=self.succeeded,
            failed=self.failed,
        )


def _new(w: Wording, gate: NewGate, on: tuple[str, ...], standing: Mapping[str, int]) -> _New:
    ends = [standing.get(each, 0) for each in on]
    return _New(
        id=_named(w, gate.id),
        timeout=w.span(gate.timeout),
        # Several named jobs may be one holder: with a higher need it could never fire.
        need=min(gate.need, len(on)),
        total=len(on),
        succeeded=ends.count(1),
        failed=ends.count(-1),
        counting=gate.of.value,
        on=on,
        led=gate.descendants,
    )


class _Watches(Struct, frozen=True):
    """The jobs of a gate in their order, each with what is known, as ``add_watches`` takes them."""

    id: str
    led: bool
    jobs: list[tuple[str, str | None]]


def _join(
    w: Wording, fresh: set[str], jobs: Sequence[NewJob], made: set[str], ended: Collection[str]
) -> Queries[dict[str, GateState]]:
    """New jobs at gates that are there already: one that is decided decides about them, too."""
    joining = {
        job.id: gate
        for job in jobs
        if job.gate and _named(w, job.id) in made and (gate := _named(w, job.gate)) not in fresh
    }
    rows: dict[str, str] = {}
    if joining or ended:
        query = w.sql["lock_gates"](ids=w.ids(joining.values()), watching=w.ids(ended))
        rows = dict(map(tuple, (yield query)))
    if not joining:
        return {}
    try:
        states = _states(set(joining.values()), rows)
    except StoreError:
        # A caller's transaction may go on after the error: the new jobs must not stay in it.
        yield w.sql["withdraw"](ids=w.ids(made))
        raise
    yield from said(w.sql["wait_at_gates"](ids=w.ids(joining)))
    return {gate: state for gate, state in sorted(states.items()) if state is not GateState.OPEN}


def _states(joined: AbstractSet[str], rows: Mapping[str, str]) -> dict[str, GateState]:
    """The states of gates that jobs join: of these alone, whatever else was locked with them."""
    if not rows.keys() >= joined:
        raise StoreBusy("a gate went away in this moment: nothing was written, try again")
    return {gate: state_of(gate, rows[gate]) for gate in joined}


def state_of(gate: str, state: str) -> GateState:
    """The state of a gate that somebody names. Raises ``StoreRejected`` for one written by hand."""
    try:
        return GateState(state)
    except ValueError:
        raise unknown_gate(gate, state) from None


def _named(w: Wording, text: str) -> str:
    """An id as the database says it; one that is not an id is a gate that cannot be."""
    known = w.id(text)
    if known is None:
        raise GateError(
            f"a gate and the jobs that it watches are named by UUIDs, not {text[:60]!r}"
        )
    return known


# -- counting --------------------------------------------------------------------------------------


def count_ends(
    w: Wording, ended: Mapping[str, bool], keep: float | None
) -> Queries[list[MovedRow]]:
    """Count ended jobs (and whether they succeeded) in their gates; the jobs that moved thereby."""
    if not ended:
        return []
    rows = yield from w.tally(ended, wait=True)
    return (yield from follow(w, _decided(rows), keep))


def _count_left_ends(
    w: Wording, ended: Mapping[str, bool], keep: float | None
) -> Queries[list[MovedRow]]:
    """Count as :func:`count_ends` does, where gates may be held already: those that others hold are
    skipped.
    """
    return (yield from follow(w, (yield from _count_now(w, ended)), keep))


def catch_up(w: Wording, overdue: Overdue, keep: float | None) -> Queries[list[MovedRow]]:
    """Count ends that nobody counted, and move the jobs of decided gates that were skipped."""
    moved = yield from _count_left_ends(w, overdue.uncounted, keep)
    rows = yield w.sql["behind_gates"](limit=overdue.limit, fired=w.ids(overdue.fired))
    if rows:
        behind = yield from _move(w, {gate: GateState(state) for gate, state in rows}, keep)
        moved += behind
        # A job that died behind its gate may be watched by another one.
        moved += yield from _count_left_ends(w, _watched_deaths(behind), keep)
    return moved


def _move(
    w: Wording, decided: Mapping[str, GateState], keep: float | None
) -> Queries[list[MovedRow]]:
    """Release or end the jobs of these gates, which are held."""
    moved: list[MovedRow] = []
    fired = [gate for gate, state in decided.items() if state is GateState.FIRED]
    over = [gate for gate, state in decided.items() if state is not GateState.FIRED]
    if fired:
        rows = yield w.sql["release_gated"](now=w.now, ids=w.batch(fired))
        moved += [MovedRow(*row) for row in rows]
    if over:
        rows = yield w.sql["end_gated"](now=w.now, ids=w.batch(over), keep=w.span(keep))
        died = [MovedRow(*row) for row in rows]
        yield from _record(w, died)
        moved += died
    # Jobs that another transaction holds were skipped. This mark is what the expiry finds them by.
    yield from said(w.sql["note_behind"](ids=w.batch(sorted(decided))))
    return moved


def follow(
    w: Wording, decided: Mapping[str, GateState], keep: float | None
) -> Queries[list[MovedRow]]:
    """Write what was decided, move the jobs, and so on along the chain; the jobs that moved."""
    moved: list[MovedRow] = []
    # It ends, since circles of gates are refused.
    while decided:
        batch = [{"id": gate, "state": state.value} for gate, state in sorted(decided.items())]
        # Before their jobs move: a job that is added meanwhile must meet a decided gate. The chain
        # that follows skips gates which others hold, so it never waits behind a gate it holds.
        yield w.sql["decide_gates"](batch=w.batch(batch))
        rows = yield from _move(w, decided, keep)
        moved += rows
        decided = yield from _count_now(w, _watched_deaths(rows))
    return moved


def _count_now(w: Wording, ended: Mapping[str, bool]) -> Queries[dict[str, GateState]]:
    if not ended:
        return {}
    rows = yield from w.tally(ended, wait=False)
    # Not where a gate was skipped: an ended job without the mark is counted by the next expiry.
    yield w.sql["note_counted"](ids=w.ids(ended))
    return _decided(rows)


def _record(w: Wording, died: Sequence[MovedRow]) -> Queries[None]:
    """Write why they died, unless the statement that ended them has."""
    if w.failures_first or not died:
        return
    # Such a database keeps the failures of a job in their order, and asks for no delivery.
    failures = [
        FailedAttempt(job.id, 0, given_up(job.reason or "", job.attempt)) for job in sorted(died)
    ]
    yield w.sql["add_failures"](batch=w.batch(failures), now=w.now)
    ids = w.ids(job.id for job in died)
    yield w.sql["trim_failures"](ids=ids, keep=KEPT_FAILURES)


def _decided(rows: Iterable[Row]) -> dict[str, GateState]:
    """The gates that are decided by these counts.

    One that counts in a way which nobody knows, written by hand, stays as it is: the jobs that it
    watches end all the same.
    """
    states = [
        (
            gate,
            verdict(
                need=need, of=Counting(counting), total=total, succeeded=succeeded, failed=failed
            ),
        )
        for gate, need, counting, total, succeeded, failed in rows
        if counting in _KNOWN
    ]
    return {gate: state for gate, state in states if state is not GateState.OPEN}


def _watched_deaths(rows: Iterable[MovedRow]) -> dict[str, bool]:
    """The moved jobs that died and may be watched, as the next gates count them."""
    return {row.id: False for row in dead(rows) if row.watched}


def dead(rows: Iterable[MovedRow]) -> list[MovedRow]:
    """The rows of jobs that have died."""
    return [row for row in rows if row.state == JobState.DEAD.value]


def released(moved: Iterable[MovedRow]) -> set[JobState]:
    """The states that moved jobs have reached, for the hints."""
    return {JobState.DEAD if row.state == "dead" else JobState.QUEUED for row in moved}


# -- as they are looked at -------------------------------------------------------------------------


def listed(d: Dialect, ids: Sequence[str]) -> Steps[list[GateRecord]]:
    """The gates of these ids that exist."""
    return _RECORDS.all((yield from one(d.sql["gates"](ids=d.ids(ids)))))


def watched(d: Dialect, job_id: str) -> Steps[list[str]]:
    """The jobs that the gate of this one watches, in their order."""
    return [job for (job,) in (yield from one(d.sql["watched_for"](id=job_id)))]


def _read(row: GateRow) -> GateRecord:
    return GateRecord(
        id=row.id,
        state=GateState(row.state),
        need=row.need,
        of=Counting(row.counting),
        succeeded=row.succeeded,
        failed=row.failed,
        on=_texts(row.on),
        deadline=readable(row.deadline),
    )


_RECORDS: Final = Shape.of(
    GateRow("", "open", 0, "succeeded", 0, 0, "[]", None),
    _read,
    lambda gate, bad: replace(gate, unreadable=mark(bad)),
)
