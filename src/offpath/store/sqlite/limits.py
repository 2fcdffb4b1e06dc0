"""Limits by key: who is admitted, who is held, and how many may go next.

How many of a key are ready or running is counted by a trigger, whatever moves a job; so is the
rule that a limited job becomes ready by admission only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from offpath.model.job import JobState, NewJob
from offpath.model.joined_limits import first_of, keys_of, with_parts
from offpath.model.limit import Admitted, LimitPart, LimitSpec, RateSpec
from offpath.model.rate import decode_state, encode_state, take
from offpath.model.settlement import Settled, Settlement, SettleStatus, Snoozed
from offpath.store.programs.dialect import Queries
from offpath.store.sql import Query
from offpath.store.sqlite.held_keys import (
    UNTAKEN,
    HeldKey,
    Last,
    Took,
    behind,
    held_key,
    next_turn,
    rate_of,
)
from offpath.store.sqlite.joined_limits import JoinedPass
from offpath.store.sqlite.parameters import batch, later
from offpath.store.sqlite.session import SQL, Session
from offpath.store.unreadable import UNREADABLE

# Whoever settles holds the write lock meanwhile.
AT_ONCE: Final = 1_000
"""Jobs that a settlement's own pass admits at most."""
_COUNTED: Final = 1_000_000
"""Microseconds between looks whether a full key is counted rightly."""
_KEPT: Final = 3_600_000_000
"""Microseconds between looks whether a key is still needed."""

_encode = msgspec.json.Encoder().encode


def agreed(jobs: Iterable[NewJob], now: int) -> Iterator[Query]:
    """The statements that keep what new jobs say of their keys; none when they say nothing."""
    specs = {job.limit.key: job.limit for job in jobs if job.limit is not None}
    if not specs:
        return
    kept = now + _KEPT
    lines = [spec for spec in specs.values() if spec.parts]
    said: list[LimitSpec | LimitPart] = [spec for spec in specs.values() if not spec.parts]
    said += [part for spec in lines for part in spec.parts]
    rows = {
        one.key: (one.key, one.max_running, None if one.rate is None else _text(one.rate))
        for one in said
    }
    yield SQL["make_limits"](specs=batch(list(rows.values())), forget_at=kept)
    if lines:
        parts = [(part.key, spec.key, part.cost) for spec in lines for part in spec.parts]
        # The parts first: what a line takes follows by them.
        yield SQL["make_parts"](parts=batch(parts))
        yield SQL["make_lines"](lines=batch([spec.key for spec in lines]), forget_at=kept)


def _text(rate: RateSpec) -> str:
    return _encode(rate).decode()


# -- admission -------------------------------------------------------------------------------------


class Admitting:
    """The workers' passes over one file. Counts that may be wrong are looked at once a second."""

    __slots__ = ("_counted_at",)

    def __init__(self) -> None:
        self._counted_at: int | None = None

    def nothing(self, session: Session, now: int) -> Admitted | None:
        """The answer when nothing is held, or every key that holds a job is full; otherwise None.

        A settlement has admitted whoever could go, so this is what most passes find: it takes one
        statement, and no lock where the pass is alone in its transaction.
        """
        # Below zero, too: behind a clock that was set back the next count would be far away.
        counting = self._counted_at is None or not 0 <= now - self._counted_at < _COUNTED
        if counting:
            self._counted_at = now
        query = SQL["admission_idle"](now=now, before=now - UNTAKEN, counting=int(counting))
        if session.run(query):
            return Admitted(jobs=0)
        if counting:  # not seen by the pass itself yet, which asks again
            self._counted_at = None
        return None

    def admit(self, session: Session, now: int, limit: int, keys: Sequence[str]) -> Admitted:
        """Make held jobs ready, up to the room of their keys, and repair what hinders it."""
        # Asked again under the write lock: the look without it may have been overtaken.
        idle = self.nothing(session, now)
        if idle is not None:
            return idle
        names = sorted(set(keys)) or [key for (key,) in session.run(SQL["held_keys"]())]
        return _AdmissionPass(session, now, limit).run(names, repair=True)


def following(
    session: Session,
    now: int,
    settlements: Sequence[Settlement],
    settle: Callable[[Session, int, Sequence[Settlement]], list[Settled]],
) -> list[Settled]:
    """Settle a batch; then close the keys that are to cool down, and give the room that became
    free to the next of each key.
    """
    answers = settle(session, now, settlements)
    keys = {one.job.limit_key for one in settlements if one.job.limit_key is not None}
    if keys:
        for one, answer in zip(settlements, answers, strict=True):
            # Before the pass: a key that cools down admits nothing of the room that came back.
            _cool_down(session, now, one, answer)
        # Without the repairs: the passes of workers make them.
        if _AdmissionPass(session, now, AT_ONCE).run(with_parts(keys), repair=False).jobs:
            session.released = True
    return answers


def _cool_down(session: Session, now: int, settlement: Settlement, answer: Settled) -> None:
    outcome, key = settlement.outcome, settlement.job.limit_key
    if key is None or not isinstance(outcome, Snoozed) or outcome.cool_down is None:
        return
    if answer.status is SettleStatus.APPLIED and answer.state is not JobState.CANCELLED:
        close(session, now, first_of(key), later(now, outcome.cool_down))


class _AdmissionPass:
    """One pass of admission over some keys."""

    def __init__(self, session: Session, now: int, limit: int) -> None:
        self._session = session
        self._now = now
        self._limit = max(limit, 0)
        self._keys: list[HeldKey] = []
        self._lanes: dict[str, list[str]] = {}
        self._untaken: dict[str, list[int]] = {}
        self._held: dict[str, list[int]] = {}
        self._waits: list[float] = []
        self._of_lines = 0

    def run(self, names: Sequence[str], *, repair: bool) -> Admitted:
        """Admit from these keys, each in its turn."""
        self._find(names)
        if not self._keys:
            return Admitted(jobs=0, next_in=min(self._waits, default=None))
        if any(each.line for each in self._keys):
            self._admit_lines(repair=repair)
        if repair:
            # Repairs come before the choice, which is made by the counts that they correct.
            self._recount()
            self._find_untaken()
        self._find_held()
        if repair:
            self._send_behind()
        chosen = self._choose()
        if chosen:
            self._session.run(SQL["admit_jobs"](jobs=batch(chosen), now=self._now))
        done = len(chosen) + self._of_lines
        return Admitted(
            jobs=done,
            more=done >= self._limit > 0,
            next_in=min(self._waits, default=None),
        )

    def _admit_lines(self, *, repair: bool) -> None:
        """First the jobs that have several limits, and those that share a limit with them."""
        lines = [each for each in self._keys if each.line]
        limits = {name for each in lines for name in keys_of(each.name)}
        near = [each for each in self._keys if each.line or each.name in limits]
        self._keys = [each for each in self._keys if each not in near]
        lanes = {each.name: self._lanes[each.name] for each in near}
        done = JoinedPass(self._session, self._now, self._limit, near, lanes).run(repair=repair)
        self._of_lines = done.jobs
        self._limit -= done.jobs
        self._waits += [] if done.next_in is None else [done.next_in]

    def _find(self, names: Sequence[str]) -> None:
        """The keys with held jobs in queues that are not paused, the next one first."""
        query = SQL["held_rooms"](keys=batch(names), now=self._now)
        keys: dict[str, HeldKey] = {}
        lanes: dict[str, list[str]] = defaultdict(list)
        for queue, is_paused, until, *row in self._session.run(query) if names else ():
            key = held_key(row)
            if not is_paused:
                lanes[key.name].append(queue)
                keys[key.name] = key
            elif until is not None:
                self._waits.append((until - self._now) / 1_000_000)
        self._lanes = dict(lanes)
        self._keys = sorted(keys.values(), key=lambda key: (key.turn, key.name))

    def _recount(self) -> None:
        """The counts of keys without room may be wrong."""
        full = [each.name for each in self._keys if each.allowed(1) == 0]
        if full:
            running = dict(map(tuple, self._session.run(SQL["running_by_limit"]())))
            numbers = [(name, running.get(name, 0)) for name in full]
            rows = self._session.run(SQL["recount_limits"](keys=batch(numbers)))
            counts: dict[str, int] = {key: number for key, number in rows}  # noqa: C416 - typed rows
            for each in self._keys:
                each.admitted = counts.get(each.name, each.admitted)

    def _find_untaken(self) -> None:
        names = [each.name for each in self._keys if not each.is_closed(self._now)]
        query = SQL["untaken_jobs"](
            keys=batch(names), before=self._now - UNTAKEN, limit=self._limit
        )
        for key, seq in self._session.run(query) if names else []:
            self._untaken.setdefault(key, []).append(seq)

    def _find_held(self) -> None:
        """The first held jobs of each key, as many as there may be room for."""
        wanted = {
            each.name: each.room(self._now, self._limit) + len(self._untaken.get(each.name, ()))
            for each in self._keys
        }
        lanes = [(key, queue) for key, n in wanted.items() if n for queue in self._lanes[key]]
        if not lanes:
            return
        query = SQL["pick_held"](lanes=batch(lanes), limit=max(wanted.values()))
        for key, *_, seq in sorted(map(tuple, self._session.run(query))):
            self._held.setdefault(key, []).append(seq)

    def _send_behind(self) -> None:
        """Take back jobs that nobody took, as far as others could go instead."""
        back: dict[str, list[int]] = {}
        for each in self._keys:
            others = len(self._held.get(each.name, ()))
            # Only where others could not go without it: a job is not sent behind for nothing.
            if each.room(self._now, self._limit) < others and each.name in self._untaken:
                back[each.name] = self._untaken[each.name][:others]
        if not back:
            return
        lanes = [(key, queue) for key in back for queue in self._lanes[key]]
        lasts: dict[str, list[Last]] = defaultdict(list)
        for key, *last in self._session.run(SQL["held_last"](lanes=batch(lanes))):
            lasts[key].append(Last(*last))
        rows = [(seq, *behind(lasts[key], self._now)) for key in back for seq in back[key]]
        self._session.run(SQL["hold_untaken"](jobs=batch(rows), now=self._now))
        for each in self._keys:
            each.admitted -= len(back.get(each.name, ()))

    def _choose(self) -> list[int]:
        """The jobs that are admitted: key by key, until the pass is full."""
        chosen: list[int] = []
        took: list[Took] = []
        turn = next_turn(self._now, self._keys)
        # In turns: what is left of a pass for one key is what the keys before it have not used.
        for each in self._keys:
            held = self._held.get(each.name, [])
            room = min(each.room(self._now, self._limit), self._limit - len(chosen))
            granted = self._by_rate(each, min(room, len(held)))
            chosen += held[:granted]
            if each.is_closed(self._now) and not each.paused and each.closed_until is not None:
                self._waits.append((each.closed_until - self._now) / 1_000_000)
            if granted:
                took.append(Took(each.name, each.rate_state, turn))
        # Turns matter where a pass is full; where every key got its share, only rates remember it.
        noted = took if len(chosen) >= self._limit else [one for one in took if one.rate_state]
        if noted:
            self._session.run(SQL["save_limits"](keys=batch(noted)))
        return chosen

    def _by_rate(self, key: HeldKey, wanted: int) -> int:
        """The number of these that may start now; notes when the next one may."""
        if key.rate is None or wanted <= 0:
            return max(wanted, 0)
        taken = take(key.rate, decode_state(key.rate_state), self._now / 1_000_000, wanted)
        key.rate_state = encode_state(taken.state)
        if taken.next_in > 0 and self._could_go_on(key, taken.granted):
            self._waits.append(taken.next_in)
        return taken.granted

    def _could_go_on(self, key: HeldKey, granted: int) -> bool:
        """True if only the rate keeps back more."""
        return granted < min(len(self._held[key.name]), key.room(self._now, self._limit))


# -- an operator's calls ---------------------------------------------------------------------------


def close(session: Session, now: int, key: str, until: int | None) -> int:
    """Admit nothing of a key, until a time or for good; how many ready jobs are held again."""
    end = until if until is not None and until > now else None
    paused = int(until is None)
    session.run(SQL["close_limits"](key=key, until=end, paused=paused, forget_at=now + _KEPT))
    if until is not None and until <= now:
        return 0
    return len(session.run(SQL["hold_closed"](keys=batch([key]), now=now)))


def shut(session: Session, now: int, keys: Iterable[str | None]) -> set[str]:
    """The keys among these that are closed now, or have a limit that is."""
    names = {key for key in keys if key is not None}
    limits = sorted({name for key in names for name in keys_of(key)})
    rows = session.run(SQL["closed_limits"](keys=batch(limits), now=now)) if names else []
    closed = {key for (key,) in rows}
    return {key for key in names if not closed.isdisjoint(keys_of(key))}


def reopen(session: Session, now: int, key: str) -> bool:
    """End a pause and a cool-down; False: there was none."""
    return bool(session.run(SQL["open_limit"](key=key, now=now)))


# -- upkeep ----------------------------------------------------------------------------------------


def prune_steps(now: int, limit: int) -> Queries[None]:
    """Remove keys without a job that are not closed and whose rate remembers nothing."""
    rows = yield SQL["idle_limits"](now=now, limit=max(limit, 0))
    if not rows:
        return
    kept = {key for key, rate, state, used in rows if used or _remembers(rate, state, now)}
    gone = [key for key, *_ in rows if key not in kept]
    if kept:
        yield SQL["keep_limits"](keys=batch(sorted(kept)), forget_at=now + _KEPT)
    if gone:
        yield SQL["drop_limits"](keys=batch(gone))


def _remembers(rate: str | None, state: str | None, now: int) -> bool:
    """True if the starts that a rate has let in still count."""
    try:
        known = decode_state(state)
        if rate is None or known is None:
            return False
        return now / 1e6 - known.at < 2 * rate_of(rate).per
    except UNREADABLE:
        # To drop it would forget what it has let in, which nobody can read now.
        return True
