"""The telling of what was committed, by each part of the store: here, and in other processes.

There the first notice goes at once, and those behind it together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from offpath.model.effects import Effects
from offpath.model.job import TERMINAL, JobState
from offpath.runtime.clock import Clock
from offpath.store.hints import Hint, Hints, hints_of
from offpath.store.postgres.session import Database
from offpath.store.programs.dialect import Announced
from offpath.store.sql import Catalogue
from offpath.store.wakes.port import NotSent, WakeLine

_log = logging.getLogger("offpath.store.postgres")

PAUSE: Final = 0.002
"""Seconds between two notices. A notice takes a lock on the whole database, and wakes everybody who
listens, so what is told in between is told once."""


class Announcer:
    """Sends hints, after what they tell of was committed, and joins those that come close together.

    Never raises, and nobody waits for it: polling suffices.
    """

    def __init__(self, line: WakeLine) -> None:
        self._line = line
        self._pending: set[Hint] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._quiet_until = 0.0
        """The end of the pause behind the last notice. A timer is set only where one is due then:
        otherwise who enqueues one job after the other would pay for a timer each."""

    def announce(self, hint: Hint) -> None:
        """Tell the others now, or when the pause behind the last notice is over."""
        self._pending.add(hint)
        if self._timer is not None or self._connecting is not None:
            return
        if asyncio.get_running_loop().time() < self._quiet_until:
            self._flush_later()
        else:
            self._flush()

    async def close(self) -> None:
        """Say what is left to be said, then end."""
        if self._connecting is not None:
            # It sends what is pending once the line stands. To close the line under it would lose
            # that.
            await asyncio.wait([self._connecting])
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending and self._line.ready:
            with contextlib.suppress(NotSent):
                self._line.send(sorted(self._pending))
        await self._line.close()

    def _flush(self) -> None:
        self._timer = None
        if not self._pending:
            return
        if self._line.ready:
            with contextlib.suppress(NotSent):
                self._send()
                return
        # A server that was restarted has cut the line while it rested: a new one takes the notice.
        self._connecting = asyncio.create_task(self._connect(), name="offpath-announce")

    def _send(self) -> None:
        """Send what is pending, unless the line is busy, and pause. Raises ``NotSent``."""
        sent = self._line.send(sorted(self._pending))
        # Also where the line is busy: the next try needs a time ahead, or it would come at once.
        self._quiet_until = asyncio.get_running_loop().time() + PAUSE
        if sent:
            self._pending.clear()
        else:
            self._flush_later()

    def _flush_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_at(self._quiet_until, self._flush)

    async def _connect(self) -> None:
        try:
            await self._line.connect()
            self._send()
        except NotSent as error:
            # once for each notice: a server that hangs up at once is not called without end
            self._give_up(error)
        finally:
            self._connecting = None

    def _give_up(self, error: NotSent) -> None:
        """Forget what was not sent: others find it by polling, and the next notice tries again."""
        self._pending.clear()
        _log.debug("a wake-up was not sent (%s): others find it by polling", error)


class PostgresPart:
    """A part of the store; the store sets what is named here, and has all parts."""

    _database: Database
    _sql: Catalogue
    _clock: Clock | None
    _hints: Hints
    _announcer: Announcer

    def _now(self) -> datetime | None:
        """The time that was given; None is the database's own."""
        return None if self._clock is None else self._clock.now()

    def _tell(self, *hints: Hint) -> None:
        """Tell of what was committed, here and in other processes."""
        for hint in hints:
            if self._hints.subscribers:
                self._hints.emit(hint)
            self._announcer.announce(hint)

    def _tell_effects(self, effects: Effects) -> None:
        self._tell(*hints_of(effects))

    def _tell_states(self, states: Iterable[JobState], otherwise: Hint) -> None:
        """Ended jobs are told about as such, others as ``otherwise``."""
        hints = {Hint.ENDED if state in TERMINAL else otherwise for state in states}
        self._tell(*sorted(hints))

    @contextlib.contextmanager
    def _telling(self) -> Iterator[Announced]:
        """Tell of messages about announced jobs once what is inside has been written."""
        announced = Announced()
        try:
            yield announced
        finally:
            # Also where the outcome is unknown: a hint too much does no harm.
            self._tell(*announced.hints())
