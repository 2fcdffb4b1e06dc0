"""Gates as they are looked at, and waits that are over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from offpath.model.changes import ChangedJob
from offpath.model.gate import GateState
from offpath.model.job import DeadReason, JobState
from offpath.store.programs.answers import WokenRow
from offpath.store.sql import Row
from offpath.store.sqlite.aftermath import aftermath_steps
from offpath.store.sqlite.gating import Following
from offpath.store.sqlite.instants import later
from offpath.store.sqlite.keys import in_turns
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.rows import OUTER
from offpath.store.sqlite.session import SQL, Session

_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode

_DIES: Final = {
    GateState.TIMED_OUT.value: DeadReason.GATE_TIMEOUT,
    GateState.UNSATISFIABLE.value: DeadReason.UNSATISFIABLE,
}
"""The end of a blocked job whose time is over."""


def _call(session: Session, now: int, target: str, event: str) -> list[ChangedJob]:
    """Wake who waits longest for a signal that is there, if anybody does."""
    return _woken(session, session.run(SQL["wake_sleeper"](target=target, event=event, now=now)))


def _wake(session: Session, now: int, jobs: Sequence[int]) -> list[ChangedJob]:
    return _woken(session, session.run(SQL["blocked_wake"](jobs=batch(list(jobs)), now=now)))


def _woken(session: Session, found: Sequence[Row]) -> list[ChangedJob]:
    rows = [WokenRow(*row) for row in found]
    session.released = session.released or bool(rows)
    session.stirred = session.stirred or any(row.announce for row in rows)
    return [
        ChangedJob(
            id=row.id,
            task=row.task,
            queue=row.queue,
            group_id=row.group_id,
            was=JobState.BLOCKED,
            state=JobState.QUEUED,
            attempt=row.attempt,
            parent=row.parent,
        )
        for row in rows
    ]


# -- waits that are over ---------------------------------------------------------------------------


def nothing_is_up(session: Session, now: int) -> list[ChangedJob] | None:
    """An empty list when there is nothing to give up, to repair or to remove; else None."""
    probes = (
        SQL["deadlines_over"](now=now, limit=1),
        SQL["blocked_due"](now=now, limit=1),
        SQL["gates_late"](now=now, limit=1),
        SQL["uncounted"](limit=1),
        SQL["signals_over"](now=now),
        SQL["signals_left"](limit=1),
    )
    return None if any(session.run(probe) for probe in probes) else []


def expire_blocked(session: Session, now: int, limit: int, keep: float | None) -> list[ChangedJob]:
    """Give up waits whose time is over."""
    following = Following(now, None if keep is None else later(now, keep))
    late = [(gate, GateState.TIMED_OUT.value) for (gate,) in _late(session, now, limit)]
    if late:
        session.run(SQL["gate_end"](states=batch(late)))
    overdue = session.run(SQL["deadlines_over"](now=now, limit=max(limit, 0)))
    deadline = [(seq, DeadReason.DEADLINE) for seq, _ in overdue]
    queued = {seq for seq, queued in overdue if queued}
    fallen = _give_up(session, now, following, deadline, queued)
    left = max(limit - len(overdue), 0)
    up = session.run(SQL["blocked_due"](now=now, limit=left))
    fallen += _give_up(
        session, now, following, [(seq, _DIES[fate]) for seq, fate, _ in up if fate in _DIES]
    )
    woken = _wake(session, now, [seq for seq, fate, _ in up if fate == "signal"])
    fired = {gate for _, fate, gate in up if fate == GateState.FIRED.value}
    if fired:  # they were left behind
        session.drive(following.decided([(gate, GateState.FIRED) for gate in sorted(fired)]))
    missed = _uncounted(session, limit)
    after, _ = session.drive(aftermath_steps(following, (), watched=[*fallen, *missed]))
    session.stirred = session.stirred or following.stirred
    session.released = session.released or following.released
    session.run(SQL["signal_expire"](now=now, limit=limit))
    woken += _pass_on(session, now, left - len(up))
    return [*woken, *after.all_along()]


def _pass_on(session: Session, now: int, limit: int) -> list[ChangedJob]:
    """Wake the next ones for signals that were left by whom they had woken."""
    left = session.run(SQL["signals_left"](limit=max(limit, 0)))
    if not left:
        return []
    addresses = batch([(target, event) for target, event in left])
    session.run(SQL["signals_passed_on"](addresses=addresses))
    there = session.run(SQL["signals_there"](wanted=addresses, now=now))
    return [each for target, event in there for each in _call(session, now, target, event)]


def _late(session: Session, now: int, limit: int) -> list[Row]:
    return session.run(SQL["gates_late"](now=now, limit=limit))


def _give_up(
    session: Session,
    now: int,
    following: Following,
    up: Sequence[tuple[int, DeadReason]],
    queued: Collection[int] = (),
) -> list[tuple[str, str]]:
    """Jobs that die now, some of which were ``queued``; those of them that are watched, as ends."""
    if not up:
        return []
    rows = in_turns(
        session,
        [(seq, reason.value) for seq, reason in up],
        lambda rows: SQL["wait_fail"](jobs=rows, now=now, expires_at=following.expires_at),
        seq=1,
    )
    dead = session.drive(following.fell(rows, queued))
    return [(job.id, "failed") for job, _ in dead if job.watched]


def _uncounted(session: Session, limit: int) -> list[tuple[str, str]]:
    """Ends of watched jobs that a worker of the version before did not count."""
    rows = session.run(SQL["uncounted"](limit=limit))
    if rows:
        session.run(SQL["counted"](jobs=batch([seq for seq, _, _ in rows])))
    return [
        (job, "succeeded" if OUTER[state] is JobState.SUCCEEDED else "failed")
        for _, job, state in rows
    ]
