"""Gates: made with the jobs that wait at them, counted by whoever ends a watched job, never polled.

Gate rows are locked after the rows of the jobs that a transaction is about, by their ids. From then
on nothing is waited for but groups: jobs and further gates that somebody else holds are left to
:mod:`offpath.store.programs.waits`, which finds them by small indexes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Final

from offpath.errors import GateError, StoreBusy, StoreError
from offpath.model.gate import Counting, GateState, NewGate, verdict
from offpath.model.job import Enqueued, JobState, NewJob
from offpath.store.postgres.steps import ids_json, job_id, moment, to_json
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.dialect import Queries
from offpath.store.programs.gates import decided as decided_by
from offpath.store.programs.gates import state_of
from offpath.store.refusals import no_gate, nothing_to_watch
from offpath.store.sql import Catalogue, Query

COUNTED: Final = 2
"""The column ``watched`` of a job whose end is counted where it is watched, or is just being so."""

_OUTCOMES = {1: "succeeded", -1: "failed"}
"""The outcomes that gates count, by the standing that ``lock_jobs`` answers."""


def require_gates(
    jobs: Sequence[NewJob], gates: Sequence[NewGate], *, sql: Catalogue
) -> Queries[None]:
    """Raise ``GateError`` for what names a job or a gate that is not there; nothing is written."""
    new = {job.id for job in jobs}
    watched = {each for gate in gates for each in gate.on} - new
    named = {job.gate for job in jobs if job.gate} - {gate.id for gate in gates}
    known: set[str] = set()
    if named or watched:
        looked = sorted({*named, *(gate.id for gate in gates)})
        rows = yield sql["known_gates"](ids=ids_json(looked))
        known = {gate for gate, _, _ in rows}
    for job in jobs:
        if job.gate in named and job_id(job.gate or "") not in known:
            raise no_gate(job.id, job.gate)
    there: set[str] = set()
    if watched:
        # Locked, and not only read: a job that ended between this look and the row of the gate
        # would be counted by neither side.
        rows = yield sql["lock_jobs"](ids=ids_json(watched))
        there = {job for job, _ in rows}
    for gate in gates:
        missing = [each for each in gate.on if each in watched and job_id(each) not in there]
        # With a timeout the gate ends by itself, and a known gate is a repeat whose jobs may have
        # been pruned. Any other gate would wait for ever.
        if missing and gate.timeout is None and job_id(gate.id) not in known:
            raise nothing_to_watch(gate.id, missing[0])


def add_gates(
    gates: Sequence[NewGate],
    jobs: Sequence[NewJob],
    answers: Sequence[Enqueued],
    now: datetime | None,
    *,
    ended: Collection[str] = (),
    sql: Catalogue,
) -> Queries[list[MovedRow]]:
    """Make gates, and let those that are decided at once move their jobs; the jobs that moved.

    ``ended`` are jobs that the same transaction counts next: the gates that watch them are locked
    with the others here, in one order. A gate whose jobs were all there already, or have attached
    to another, is not made: nothing would ever remove it.
    """
    made = {one.job_id for one in answers if one.created}
    named = {job.gate for job in jobs}
    held = {job.gate for job in jobs if job.gate is not None and _named(job.id) in made}
    gates = [gate for gate in gates if gate.id in held or gate.id not in named]
    decided, fresh = yield from _make(gates, answers, made, now, sql)
    decided |= yield from _join(fresh, jobs, made, ended, sql)
    return (yield from follow(decided, None, now, sql=sql))


def count_ends(
    ended: Mapping[str, bool], keep: float | None, now: datetime | None, *, sql: Catalogue
) -> Queries[list[MovedRow]]:
    """Count ended jobs (and whether they succeeded) in their gates; the jobs that moved thereby."""
    if not ended:
        return []
    # Waited for, in the order of ids: nothing of jobs is locked behind this, so no circle can
    # close.
    rows = yield _count("count_gates", ended, sql)
    return (yield from follow(dict(decided_by(rows)), keep, now, sql=sql))


def count_left_ends(
    ended: Mapping[str, bool], keep: float | None, now: datetime | None, *, sql: Catalogue
) -> Queries[list[MovedRow]]:
    """Count as :func:`count_ends` does, where gates may be held already: those that others hold are
    skipped.
    """
    decided = yield from _count_now(ended, sql)
    return (yield from follow(decided, keep, now, sql=sql))


def follow(
    decided: Mapping[str, GateState], keep: float | None, now: datetime | None, *, sql: Catalogue
) -> Queries[list[MovedRow]]:
    """Write what was decided, move the jobs, and so on along the chain; the jobs that moved."""
    moved: list[MovedRow] = []
    while decided:
        batch = [{"id": gate, "state": state.value} for gate, state in sorted(decided.items())]
        # Before their jobs move: a job that is added meanwhile must meet a decided gate. The chain
        # that follows skips gates which others hold, so it never waits behind a gate it holds.
        yield sql["decide_gates"](batch=to_json(batch))
        rows = yield from move_jobs(decided, keep, now, sql=sql)
        moved += rows
        decided = yield from _count_now({row.id: False for row in rows if row.state == "dead"}, sql)
    return moved


def move_jobs(
    decided: Mapping[str, GateState], keep: float | None, now: datetime | None, *, sql: Catalogue
) -> Queries[list[MovedRow]]:
    """Release or end the jobs of these gates, which are held."""
    moved: list[MovedRow] = []
    fired = [gate for gate, state in decided.items() if state is GateState.FIRED]
    over = [gate for gate, state in decided.items() if state is not GateState.FIRED]
    if fired:
        rows = yield sql["release_gated"](now=moment(now), ids=to_json(fired))
        moved += [MovedRow(*row) for row in rows]
    if over:
        rows = yield sql["end_gated"](now=moment(now), ids=to_json(over), keep=keep)
        moved += [MovedRow(*row) for row in rows]
    # Jobs that another transaction holds were skipped. This mark is what the expiry finds them by.
    yield sql["note_behind"](ids=to_json(sorted(decided)))
    return moved


def _make(
    gates: Sequence[NewGate],
    answers: Sequence[Enqueued],
    made: set[str],
    now: datetime | None,
    sql: Catalogue,
) -> Queries[tuple[dict[str, GateState], set[str]]]:
    """Make gates; which of them are decided at once, and which were not there before."""
    if not gates:
        return {}, set()
    holders = {one.id: one.job_id for one in answers}
    watched = {
        gate.id: tuple(dict.fromkeys(holders.get(each) or _named(each) for each in gate.on))
        for gate in gates
    }
    others = {each for on in watched.values() for each in on} - made
    standing: dict[str, int] = {}
    if others:
        rows = yield sql["lock_jobs"](ids=ids_json(others))
        standing = dict(map(tuple, rows))
    missing = others - standing.keys()
    batch = [_new_gate(gate, watched[gate.id], standing) for gate in gates]
    # Two callers that make the same gates meet at them in one order.
    batch.sort(key=lambda one: one["id"])
    rows = yield sql["add_gates"](now=moment(now), batch=to_json(batch))
    new = {gate for (gate,) in rows}
    # A repeat watches nothing again: its jobs may be counted already.
    fresh = [one for one in batch if one["id"] in new]
    if not fresh:
        return {}, set()
    for one in fresh:
        one["known"] = {each: _OUTCOMES[s] for each in one["on"] if (s := standing.get(each))}
        one["known"] |= {each: "early" for each in one["on"] if each in missing}
    yield sql["add_watches"](batch=to_json(fresh))
    if standing:
        # The mark spares the end of every other job the look for gates.
        yield sql["watch_jobs"](ids=ids_json(standing))
    states = {one["id"]: _verdict_of(one) for one in fresh}
    return {gate: one for gate, one in states.items() if one is not GateState.OPEN}, new


def _new_gate(gate: NewGate, on: tuple[str, ...], standing: Mapping[str, int]) -> dict[str, Any]:
    ends = [standing.get(each, 0) for each in on]
    return {
        "id": _named(gate.id),
        "timeout": gate.timeout,
        "need": min(gate.need, len(on)),
        "total": len(on),
        "succeeded": ends.count(1),
        "failed": ends.count(-1),
        "counting": gate.of.value,
        "on": on,
    }


def _verdict_of(one: Mapping[str, Any]) -> GateState:
    return verdict(
        need=one["need"],
        of=Counting(one["counting"]),
        total=one["total"],
        succeeded=one["succeeded"],
        failed=one["failed"],
    )


def _join(
    fresh: set[str],
    jobs: Sequence[NewJob],
    made: set[str],
    ended: Collection[str],
    sql: Catalogue,
) -> Queries[dict[str, GateState]]:
    """New jobs at gates that are there already: one that is decided decides about them, too."""
    joining = {
        job.id: gate
        for job in jobs
        if job.gate and _named(job.id) in made and (gate := _named(job.gate)) not in fresh
    }
    rows: dict[str, str] = {}
    if joining or ended:
        query = sql["lock_gates"](ids=ids_json(joining.values()), watching=ids_json(ended))
        rows = dict(map(tuple, (yield query)))
    if not joining:
        return {}
    try:
        states = _states(set(joining.values()), rows)
    except StoreError:
        yield sql["withdraw"](ids=ids_json(made))
        raise
    yield sql["wait_at_gates"](ids=ids_json(joining))
    return {gate: state for gate, state in sorted(states.items()) if state is not GateState.OPEN}


def _states(joined: AbstractSet[str], rows: Mapping[str, str]) -> dict[str, GateState]:
    """The states of gates that jobs join: of these alone, whatever else was locked with them."""
    if not rows.keys() >= joined:
        raise StoreBusy("a gate went away in this moment: nothing was written, try again")
    return {gate: state_of(gate, rows[gate]) for gate in joined}


def _count_now(ended: Mapping[str, bool], sql: Catalogue) -> Queries[dict[str, GateState]]:
    if not ended:
        return {}
    rows = yield _count("count_gates_now", ended, sql)
    # Not where a gate was skipped: an ended job without the mark is counted by the next expiry.
    yield sql["note_counted"](ids=ids_json(ended))
    return dict(decided_by(rows))


def _count(name: str, ended: Mapping[str, bool], sql: Catalogue) -> Query:
    succeeded = sorted(job for job, well in ended.items() if well)
    failed = sorted(job for job, well in ended.items() if not well)
    return sql[name](succeeded=to_json(succeeded), failed=to_json(failed))


def _named(text: str) -> str:
    """An id as the database says it; one that is not an id is a gate that cannot be."""
    known = job_id(text)
    if known is None:
        raise GateError(
            f"a gate and the jobs that it watches are named by UUIDs, not {text[:60]!r}"
        )
    return known


def released(rows: Iterable[MovedRow]) -> set[JobState]:
    """The states that moved jobs have reached, for the hints."""
    return {JobState.DEAD if row.state == "dead" else JobState.QUEUED for row in rows}
