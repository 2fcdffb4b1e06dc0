"""Admission of jobs that have several limits, and of those that share a limit with them.

A job takes of all of its limits or of none. Jobs with the same limits stand in one line; the best
of all lines goes first, and a line that does not fit is passed over as a whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from offpath.model.joined_limits import Room, admitted, costs_of, keys_of
from offpath.model.limit import Admitted
from offpath.model.rate import decode_state, encode_state
from offpath.store.sqlite.held_keys import (
    UNTAKEN,
    HeldKey,
    Last,
    Took,
    behind,
    held_key,
    next_turn,
)
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session

_SECOND: Final = 1_000_000


class JoinedPass:
    """One pass over lines, and over the keys that share a limit with them."""

    def __init__(
        self,
        session: Session,
        now: int,
        limit: int,
        keys: Sequence[HeldKey],
        lanes: Mapping[str, Sequence[str]],
    ) -> None:
        self._session = session
        self._now = now
        self._limit = limit
        self._keys = keys
        self._lanes = lanes
        self._limits: dict[str, HeldKey] = {}

    def run(self, *, repair: bool) -> Admitted:
        """Admit the best of all lines."""
        self._read()
        if repair and (full := self._full()):
            # Repairs come before the choice, which is made by the counts that they correct.
            lines = self._recount(full)
            # Read anew after each repair: the counts that the next step decides by have changed.
            self._read()
            self._send_untaken_behind([*full, *lines])
            self._read()
        rooms = {name: self._room(each) for name, each in self._limits.items()}
        picked = self._picked()
        at = admitted((line for *_, line, _ in picked), rooms, self._limit)
        chosen = [picked[each] for each in at]
        if chosen:
            jobs = batch([seq for *_, seq in chosen])
            self._session.run(SQL["admit_jobs"](jobs=jobs, now=self._now))
        waits = self._saved(rooms, {line for *_, line, _ in chosen})
        return Admitted(jobs=len(chosen), next_in=min(waits, default=None))

    def _read(self) -> None:
        names = sorted({name for each in self._keys for name in keys_of(each.name)})
        rows = self._session.run(SQL["part_rooms"](keys=batch(names)))
        self._limits = {key.name: key for key in (held_key(tuple(row)) for row in rows)}

    def _room(self, key: HeldKey) -> Room:
        if key.is_closed(self._now):
            return Room(0)
        left = math.inf if key.max_running is None else max(key.max_running - key.admitted, 0)
        return Room.of(left, key.rate, decode_state(key.rate_state), self._now / _SECOND)

    def _full(self) -> list[str]:
        return sorted(name for name, each in self._limits.items() if each.allowed(1) == 0)

    def _recount(self, full: Sequence[str]) -> list[str]:
        """The counts of limits without room may be wrong, and so may those of their lines."""
        lines = [line for (line,) in self._session.run(SQL["lines_of"](keys=batch(full)))]
        running = dict(map(tuple, self._session.run(SQL["running_by_limit"]())))
        numbers = [(name, running.get(name, 0)) for name in (*full, *lines)]
        self._session.run(SQL["recount_limits"](keys=batch(numbers)))
        self._session.run(SQL["recount_shared"](keys=batch(full)))
        return lines

    def _send_untaken_behind(self, names: Sequence[str]) -> None:
        """Take back jobs that nobody took, where others wait for a full limit of theirs."""
        full = set(self._full())
        near = [each.name for each in self._keys if not full.isdisjoint(keys_of(each.name))]
        names = [name for name in names if not full.isdisjoint(keys_of(name))]
        query = SQL["untaken_jobs"](
            keys=batch(names), before=self._now - UNTAKEN, limit=self._limit
        )
        untaken = [seq for _, seq in self._session.run(query)]
        lanes = [(name, queue) for name in near for queue in self._lanes[name]]
        if not untaken or not lanes:
            return
        others = len(self._session.run(SQL["pick_held"](lanes=batch(lanes), limit=self._limit)))
        last = self._session.run(SQL["held_last"](lanes=batch(lanes)))
        lasts = [Last(*rest) for _, *rest in last]
        # No more than others can use: a job is not sent behind for nothing.
        back = [(seq, *behind(lasts, self._now)) for seq in untaken[:others]]
        self._session.run(SQL["hold_untaken"](jobs=batch(back), now=self._now))

    def _picked(self) -> list[tuple[int, int, str, str, int]]:
        """The first held jobs of each line, as many as there may be room for, the best first."""
        by_wanted: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for each in self._keys:
            if wanted := self._wanted(each.name):
                by_wanted[wanted] += [(each.name, queue) for queue in self._lanes[each.name]]
        rows = [
            tuple(row)
            for wanted, lanes in by_wanted.items()
            for row in self._session.run(SQL["pick_held"](lanes=batch(lanes), limit=wanted))
        ]
        return sorted((priority, at, job, line, seq) for line, priority, at, job, seq in rows)

    def _wanted(self, line: str) -> int:
        """The number of jobs that its limits have room for, the rates aside."""
        fits = [
            0 if limit is None else limit.room(self._now, self._limit * cost) // cost
            for limit, cost in ((self._limits.get(key), cost) for key, cost in costs_of(line))
        ]
        return min(fits)

    def _saved(self, rooms: Mapping[str, Room], served: set[str]) -> list[float]:
        """Note what the rates remember and whose turn is over; the waits until more may go."""
        waits = [
            (each.closed_until - self._now) / _SECOND
            for each in self._limits.values()
            if each.closed_until is not None and each.is_closed(self._now) and not each.paused
        ]
        turn = next_turn(self._now, self._keys)
        took = [
            Took(each.name, None, turn) for each in self._keys if each.line and each.name in served
        ]
        for name, room in rooms.items():
            if after := room.after(self._now / _SECOND):
                took.append(Took(name, encode_state(after.state), self._limits[name].turn))
            if (wait := room.wait(self._now / _SECOND)) is not None:
                waits.append(wait)
        if took:
            self._session.run(SQL["save_limits"](keys=batch(took)))
        return waits
