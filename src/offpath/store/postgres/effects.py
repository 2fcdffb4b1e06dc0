"""The effects of one commit: new jobs, then messages, then events of the log, group counts last.

Rows are only added, so that nothing here waits for what a settlement has locked; see the lock order
in ``docs/architecture.md``. Events are sent in an order that is the same for everybody who writes
the same ids, with their places in the order of writing beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from offpath.model.changes import with_deaths
from offpath.model.effects import Effects
from offpath.model.gate import NewGate
from offpath.model.job import Enqueued, NewJob
from offpath.model.new import NewLogEvent
from offpath.store.postgres import groups
from offpath.store.postgres.enqueue import add_jobs, independent, join_roots, replacing_keys
from offpath.store.postgres.mailbox import add_messages, require_keys
from offpath.store.postgres.steps import chunks, ids_json, job_id, moment, to_json
from offpath.store.postgres.words import PostgresWording
from offpath.store.programs import gates
from offpath.store.programs.conclusion import told
from offpath.store.programs.dialect import Queries
from offpath.store.programs.group_work import GroupWork
from offpath.store.refusals import no_gate, nothing_to_watch, refuse_contributions
from offpath.store.sql import Catalogue, Query

T = TypeVar("T")


class _Event(Struct, frozen=True, omit_defaults=True):
    n: int
    id: str
    domain: str
    type: str
    stream: str
    payload: str
    key: str | None = None
    slot: int = 0
    headers: str | None = None


def commit_steps(
    effects: Effects, now: datetime | None, *, sql: Catalogue
) -> Queries[list[Enqueued]]:
    """Write ``effects``; answers for the jobs, then for the messages.

    Raises ``Conflict`` kinds after taking back what it wrote, so that a caller's transaction may go
    on. All of it happens in the transaction that runs it, or none.
    """
    # Before the first statement, so that nothing has to be taken back.
    refuse_contributions(effects)
    answers, work = yield from carry_out({0: effects}, now, sql=sql)
    left = yield from groups.writing(work, now, sql=sql)
    return with_deaths(answers[0], told(gates.dead(work.moved), left))


def commit_within_steps(
    effects: Effects, now: datetime | None, *, sql: Catalogue
) -> Queries[list[Enqueued]]:
    """The same in a caller's transaction, who may go on after an error: nothing stays of it.

    The caller's path of names is put aside meanwhile: what lies in it may shadow what we call.
    """
    # Noted, and not only set back to the default: the caller may have set a path of their own.
    ((path, _),) = yield sql["borrow_path"]()
    back = sql["return_path"](path=path)
    steps = commit_steps(effects, now, sql=sql)
    try:
        return (yield from (_plain if _is_lone_job(effects) else _apart)(steps, back, sql))
    except Exception:
        with suppress(Exception):  # a failed transaction: its rollback gives the path back
            yield back
        raise


def with_own_path(steps: Queries[T], *, sql: Catalogue) -> Queries[T]:
    """Steps that only read, in a caller's transaction, with the names that are ours."""
    ((path, _),) = yield sql["borrow_path"]()
    back = sql["return_path"](path=path)
    try:
        answer = yield from steps
    except Exception:
        with suppress(Exception):  # as above
            yield back
        raise
    yield back
    return answer


def _plain(steps: Queries[T], back: Query, _: Catalogue) -> Queries[T]:
    """One statement, of which nothing stays when it fails."""
    answers = yield from steps
    yield back
    return answers


def _apart(steps: Queries[T], back: Query, sql: Catalogue) -> Queries[T]:
    """Statements in a savepoint, to which the transaction is taken back when one fails."""
    yield sql["savepoint"]()
    try:
        answers = yield from _plain(steps, back, sql)
        yield sql["release_savepoint"]()
    except Exception:
        with suppress(Exception):  # a cut connection: all is gone with its transaction
            yield sql["rollback_to_savepoint"]()
            yield sql["release_savepoint"]()
        raise
    return answers


def _is_lone_job(effects: Effects) -> bool:
    others = effects.messages or effects.log or effects.gates or effects.operations
    return not others and len(effects.jobs) == 1 and independent(effects.jobs)


def carry_out(
    carried: Mapping[int, Effects],
    now: datetime | None,
    *,
    settled: frozenset[str] = frozenset(),
    ended: Collection[str] = (),
    leading: Mapping[int, str] | None = None,
    joining: Iterable[str] = (),
    sql: Catalogue,
) -> Queries[tuple[dict[int, tuple[Enqueued, ...]], GroupWork]]:
    """Write the effects of several settlements; answers by their numbers.

    Also returns what is still to be written about groups. ``settled`` are the jobs that this
    transaction is ending, ``ended`` those of them that it will count in gates, ``leading`` those of
    these that succeed, by the numbers of their effects; those of ``joining`` get a group with a
    row, company or not.
    """
    # Before the first statement: what is refused without a look must leave nothing to take back.
    require_keys(one for effects in carried.values() for one in effects.messages)
    jobs = [job for effects in carried.values() for job in effects.jobs]
    made = [gate for effects in carried.values() for gate in effects.gates]
    gated = bool(made) or any(job.gate is not None for job in jobs)
    # A settlement has locked these with its own jobs. And a plain job waits for nobody who could
    # wait for a root, so it is spared the round trip.
    holding = bool(settled)
    if not settled and (gated or any(job.unique for job in jobs)):
        holding = yield from _hold_others(jobs, made, sql)
    if gated:
        yield from _require_gates(jobs, made, sql=sql)
    answers, work = yield from add_jobs(jobs, now, made, holding=holding, sql=sql)
    w, told_of = PostgresWording(sql, now), _by_number(carried, answers)
    led = {job: told_of[n] for n, job in (leading or {}).items() if told_of.get(n)}
    yield from gates.hold_led(w, led)
    work.more.update(dict.fromkeys(joining, 0))
    work.operations = {n: one.operations for n, one in carried.items() if one.operations}
    # Rows of jobs still come before messages and gates: see the lock order.
    yield from join_roots(work, settled, sql=sql)
    written = yield from add_messages(
        [one for effects in carried.values() for one in effects.messages], now, sql=sql
    )
    yield from add_log([one for effects in carried.values() for one in effects.log], now, sql=sql)
    yield from gates.lead_on(w, led, jobs, ended)
    if gated:
        work.moved += yield from gates.add(w, made, jobs, answers, ended=ended)
        work.end_moved(work.moved)
    of_messages = iter(written)
    return {
        n: (*told_of[n], *(next(of_messages) for _ in effects.messages))
        for n, effects in carried.items()
    }, work


def _by_number(
    carried: Mapping[int, Effects], answers: Iterable[Enqueued]
) -> dict[int, tuple[Enqueued, ...]]:
    of_jobs = iter(answers)
    return {n: tuple(next(of_jobs) for _ in effects.jobs) for n, effects in carried.items()}


def _hold_others(jobs: Sequence[NewJob], gates: Sequence[NewGate], sql: Catalogue) -> Queries[bool]:
    """Lock the roots that get company, with the watched jobs and the holders to be replaced, in one
    order; True if known jobs are locked, by this or by the look at the watched ones.
    """
    # What this call adds has no row yet that could be locked.
    new = {job.id for job in jobs}
    roots = {job.group_id for job in jobs if job.group_id is not None} - new
    known = roots.union(*(gate.on for gate in gates)) - new
    replaced = replacing_keys(jobs)
    if roots or (known and replaced):
        yield sql["lock_jobs_and_holders"](ids=ids_json(known), keys=to_json(replaced))
    return bool(known)


def _require_gates(
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


def add_log(
    events: Sequence[NewLogEvent], now: datetime | None, *, sql: Catalogue
) -> Queries[None]:
    """Append events in their order; those whose id is there already are left out."""
    for piece in chunks(events):
        batch = [_event(n, one) for n, one in enumerate(piece, 1)]
        # Writers of the same events meet at their ids in one order; ``n`` keeps the order of
        # writing.
        batch.sort(key=lambda one: (one.id, one.n))
        yield sql["add_log"](now=moment(now), count=len(piece), batch=to_json(batch))


def _event(n: int, one: NewLogEvent) -> _Event:
    return _Event(
        n, one.id, one.domain, one.type, one.stream, one.payload, one.key, one.slot, one.headers
    )
