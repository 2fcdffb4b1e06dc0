"""Gates, without I/O: who waits for whom, and what an end of the watched makes of those who wait.

Counting is set-based: a batch of ends is a few statements, however many gates watch them, and each
step of a chain of gates is a few more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from offpath.model.changes import ChangedJob
from offpath.model.gate import GateState, NewGate
from offpath.model.job import DeadReason, Enqueued, JobState, NewJob
from offpath.store.programs.dialect import Queries
from offpath.store.programs.gates import decided, state_of
from offpath.store.programs.waits import given_up
from offpath.store.refusals import no_gate, nothing_to_watch
from offpath.store.sql import Row
from offpath.store.sqlite.parameters import batch, failure_steps, later
from offpath.store.sqlite.session import SQL

End = tuple[str, str]
"""The id of a watched job and what it counts as: ``succeeded`` or ``failed``."""

_REASONS: Final = {
    GateState.UNSATISFIABLE: DeadReason.UNSATISFIABLE,
    GateState.TIMED_OUT: DeadReason.GATE_TIMEOUT,
}


class GateDeath(NamedTuple):
    """A job that died of its waiting."""

    id: str
    seq: int
    task: str
    queue: str
    group_id: str
    attempt: int
    parent: str | None
    announce: int
    watched: int
    redrives: int
    reason: str
    gate: str | None

    def told(self, *, group_done: bool = False) -> ChangedJob:
        """The report of it."""
        return ChangedJob(
            id=self.id,
            task=self.task,
            queue=self.queue,
            group_id=self.group_id,
            was=JobState.BLOCKED,
            state=JobState.DEAD,
            attempt=self.attempt,
            parent=self.parent,
            group_done=group_done,
            reason=DeadReason(self.reason),
        )


class Known(NamedTuple):
    """The facts that a batch of new jobs needs about its gates."""

    new: Mapping[str, NewGate]
    states: Mapping[str, GateState]
    deadlines: Mapping[str, int | None]
    watched: Collection[str] = frozenset()
    """The jobs that the new gates watch. One of these that no gate watches in the end does no
    harm.
    """


NO_GATES: Final = Known({}, {}, {})


class Following:
    """The consequences of ends of watched jobs, along the chains of gates, at one moment."""

    __slots__ = ("_now", "causes", "deaths", "expires_at", "released", "stirred")

    def __init__(self, now: int, expires_at: int | None = None) -> None:
        self._now = now
        self.expires_at = expires_at
        self.deaths: list[tuple[GateDeath, str]] = []
        """Jobs that died, each with the id of the job whose end or gate was the cause."""
        self.causes: dict[str, str] = {}
        """A gate to the job that decided it."""
        self.released = False
        """True if jobs were let go."""
        self.stirred = False
        """True if a job that moved announces that."""

    def count(self, ends: Sequence[End]) -> Queries[None]:
        """Count these ends in the open gates that watch the jobs, and go on until all is told."""
        roots: dict[str, str] = {}
        while ends:
            # A job that dies of its gate may be watched in turn, and so on along the chain. It
            # ends, since circles of gates are refused.
            rows = yield SQL["count_watches"](ends=batch(ends))
            order = {each: place for place, (each, _) in enumerate(ends)}
            # In the order of the ends: the last one that a gate counts is named as its cause.
            counted = sorted((order[job], gate, job) for job, gate, _ in rows)
            for _, gate, job in counted:
                self.causes[gate] = roots.get(job) or job
            found = yield from self._add(rows)
            deaths = yield from self.decided(found)
            roots = {each.id: cause for each, cause in deaths}
            ends = [(each.id, "failed") for each, _ in deaths if each.watched]

    def _add(self, rows: Sequence[Row]) -> Queries[list[tuple[str, GateState]]]:
        counts: dict[str, list[int]] = {}
        for _, gate, outcome in rows:
            counts.setdefault(gate, [0, 0])[outcome == "failed"] += 1
        if not counts:
            return []
        changes = [(gate, *numbers) for gate, numbers in sorted(counts.items())]
        return decided((yield SQL["count_gates"](batch=batch(changes))))

    def decided(
        self, states: Sequence[tuple[str, GateState]]
    ) -> Queries[list[tuple[GateDeath, str]]]:
        """Tell the jobs of gates that were decided; those that died."""
        deaths: list[tuple[GateDeath, str]] = []
        if not states:
            return deaths
        yield SQL["decide_gates"](batch=batch(states))
        fired = [gate for gate, state in states if state is GateState.FIRED]
        if fired:
            rows = yield SQL["release_gated"](ids=batch(fired), now=self._now)
            self.released = self.released or bool(rows)
            self.stirred = self.stirred or any(announce for (announce,) in rows)
        for state, reason in _REASONS.items():
            gates = [gate for gate, each in states if each is state]
            if gates:
                rows = yield SQL["end_gated"](
                    gates=batch(gates),
                    reason=reason.value,
                    now=self._now,
                    expires_at=self.expires_at,
                )
                deaths += yield from self._died(rows)
        return deaths

    def _died(self, rows: Sequence[Row]) -> Queries[list[tuple[GateDeath, str]]]:
        """Jobs that have just died of their waiting, with their histories."""
        dead = sorted((GateDeath(*row) for row in rows), key=_by_id)
        yield from failure_steps(
            self._now, [(job.seq, given_up(job.reason, job.attempt)) for job in dead]
        )
        self.stirred = self.stirred or any(job.announce for job in dead)
        caused = [(job, self.causes.get(job.gate or "", job.id)) for job in dead]
        self.deaths += caused
        return caused

    def told(self, done: Collection[str]) -> list[ChangedJob]:
        """The report of the jobs that died; ``done`` are those that ended their groups."""
        return [each.told(group_done=each.id in done) for each, _ in self.deaths]

    def made(
        self, known: Known, jobs: Sequence[NewJob], answers: Sequence[Enqueued]
    ) -> Queries[None]:
        """File new gates beside the jobs that were just written; decide those that can be.

        One whose jobs were all there already, or have attached to another, is not filed: nothing
        would ever remove it.
        """
        held = {job.gate for job in jobs}
        kept = {job.gate for job, one in zip(jobs, answers, strict=True) if one.created}
        new = {each: gate for each, gate in known.new.items() if each in kept or each not in held}
        known = known._replace(new=new)
        states = [(gate, state) for gate, state in known.states.items() if _is_over(state)]
        if known.new:
            states += yield from self._file(known, answers)
        states = [(gate, state) for gate, state in states if gate in held or gate in new]
        deaths = yield from self.decided(states)
        yield from self.count([(each.id, "failed") for each, _ in deaths if each.watched])

    def _file(
        self, known: Known, answers: Sequence[Enqueued]
    ) -> Queries[list[tuple[str, GateState]]]:
        # A job that attached to the holder of its key has no row: its gate watches the holder.
        holders = {each.id: each.job_id for each in answers}
        gates: list[tuple[Any, ...]] = []
        watches: list[tuple[str, str, int]] = []
        for gate in known.new.values():
            on = tuple(dict.fromkeys(holders.get(each, each) for each in gate.on))
            need = min(gate.need, len(on))
            gates.append((gate.id, need, gate.of.value, len(on), known.deadlines[gate.id]))
            watches += [(job, gate.id, place) for place, job in enumerate(on)]
        yield SQL["add_gates"](batch=batch(gates))
        if watches:
            yield SQL["add_watches"](batch=batch(watches))
            # Ends are counted for marked jobs only. New ones were written with the mark.
            written = {each.id for each in answers if each.created}
            others = dict.fromkeys(job for job, _, _ in watches if job not in written)
            if others:
                yield SQL["watch_jobs"](ids=batch(list(others)))
        # Watched jobs may have ended before the gate was made, and will not tell of it again.
        return decided((yield SQL["recount_gates"](ids=batch(list(known.new)))))


def known_steps(jobs: Sequence[NewJob], gates: Sequence[NewGate], now: int) -> Queries[Known]:
    """Look at the gates of a batch before it is written. Raises GateError and StoreRejected."""
    named = {job.gate: job.id for job in jobs if job.gate is not None}
    if not named and not gates:
        return NO_GATES
    ids = dict.fromkeys([*named, *(gate.id for gate in gates)])
    rows = yield SQL["known_gates"](ids=batch(list(ids)))
    states = {gate: state_of(gate, state) for gate, state, _ in rows}
    deadlines: dict[str, int | None] = {gate: deadline for gate, _, deadline in rows}
    new: dict[str, NewGate] = {}
    for gate in gates:
        if gate.id not in states and gate.id not in new:
            new[gate.id] = gate
            deadlines[gate.id] = None if gate.timeout is None else later(now, gate.timeout)
    for name, job in named.items():
        if name not in deadlines:
            raise no_gate(job, name)
    yield from _check_watched(new, {job.id for job in jobs})
    return Known(new, states, deadlines, {each for gate in new.values() for each in gate.on})


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


def _by_id(job: GateDeath) -> str:
    return job.id


def _is_over(state: GateState) -> bool:
    return state is not GateState.OPEN
