"""Everything that one commit brings into being: decided as a whole, then filed."""

from __future__ import annotations

from datetime import datetime

from offpath.model.effects import Effects
from offpath.model.job import Enqueued
from offpath.store.memory.enqueue import Plan
from offpath.store.memory.log import LogPlan
from offpath.store.memory.mailbox import MailPlan
from offpath.store.memory.tables import Tables


class Writing:
    """The effects of one transition as they will be. Nothing is filed before :meth:`apply`."""

    __slots__ = ("_log", "_mail", "answers", "jobs")

    def __init__(self, tables: Tables, now: datetime) -> None:
        self.jobs = Plan(tables, now)
        self.answers: list[Enqueued] = []
        """What becomes of the jobs, then of the messages."""
        self._mail = MailPlan(tables.mailbox, now)
        self._log = LogPlan(tables.log, now)

    def add(self, effects: Effects, group_id: str | None = None) -> None:
        """Decide about all of these. Raises Conflict kinds and StoreRejected."""
        self.answers += [self.jobs.add(new, group_id) for new in effects.jobs]
        self.answers += [self._mail.add(new) for new in effects.messages]
        for event in effects.log:
            self._log.add(event)

    def apply(self, last: str | None = None) -> bool:
        """File it all, the job ``last`` after all others; True when that ended its group."""
        group_done = self.jobs.apply(last)
        self._mail.apply()
        self._log.apply()
        return group_done


def commit(tables: Tables, now: datetime, effects: Effects) -> list[Enqueued]:
    """Write all of these or none."""
    writing = Writing(tables, now)
    writing.add(effects)
    writing.apply()
    return writing.answers
