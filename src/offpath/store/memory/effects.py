"""Everything that one commit brings into being: decided as a whole, then filed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.changes import with_deaths
from offpath.model.effects import Effects
from offpath.model.gate import NewGate
from offpath.model.job import Enqueued, JobState, NewJob
from offpath.model.ledger.changes import Changes
from offpath.model.ledger.decision import LedgerOp, decide_together
from offpath.store.memory import gates
from offpath.store.memory.enqueue import NewJobs
from offpath.store.memory.ledger_book import book_for
from offpath.store.memory.log import LogPlan
from offpath.store.memory.mailbox import MailPlan
from offpath.store.memory.tables import Tables
from offpath.store.refusals import refuse_contributions


class PlannedEffects:
    """The effects of one transition as they will be. Nothing is filed before :meth:`apply`."""

    __slots__ = (
        "_changes",
        "_gates",
        "_led",
        "_log",
        "_mail",
        "_now",
        "_operations",
        "_tables",
        "answers",
        "jobs",
    )

    def __init__(self, tables: Tables, now: datetime) -> None:
        self._tables = tables
        self._now = now
        self.jobs = NewJobs(tables, now)
        self.answers: list[Enqueued] = []
        """The answers about the jobs, then about the messages."""
        self._mail = MailPlan(tables.mailbox, now)
        self._log = LogPlan(tables.log, now)
        self._gates: list[tuple[NewGate, tuple[str, ...]]] = []
        self._led: list[tuple[NewJob, str]] = []
        """New jobs, each with the id of the job that it is or has attached to."""
        self._operations: list[LedgerOp] = []
        self._changes: Changes | None = None

    def add(self, effects: Effects, group_id: str | None = None) -> None:
        """Decide about all of these. Raises Conflict, Gate, LedgerError kinds and StoreRejected."""
        new_gates = {each.id for each in effects.gates}
        # Jobs before gates: a gate watches the holder that a job of the same call has attached to.
        enqueued = [self.jobs.add(new, group_id, gates=new_gates) for new in effects.jobs]
        holders = {each.id: each.job_id for each in enqueued}
        named = {each.gate for each in effects.jobs}
        made = {new.gate for new, one in zip(effects.jobs, enqueued, strict=True) if one.created}
        for gate in effects.gates:
            on = gates.watched(self._tables, gate, holders, self.jobs.ids())
            if gate.id in made or gate.id not in named:  # else nothing would ever remove it
                self._gates.append((gate, on))
        self._led += zip(effects.jobs, (each.job_id for each in enqueued), strict=True)
        self.answers += enqueued
        self.answers += [self._mail.add(new) for new in effects.messages]
        for event in effects.log:
            self._log.add(event)
        if effects.operations:
            self._decide(effects.operations)

    def _decide(self, operations: Sequence[LedgerOp]) -> None:
        """Decide all of the ledger's operations so far; what they leave is filed with the rest."""
        self._operations += operations
        book = book_for(self._tables.ledger, self._now, self._operations)
        decide_together(book, self._operations)
        self._changes = book.changes()
        # Now, while nothing is filed: what is filed cannot fail.
        self._tables.ledger.check(self._changes)
        for message in self._changes.messages:
            self._mail.add(message)

    def apply(self, last: str | None = None) -> bool:
        """File it all, the job ``last`` after all others; True when that ended its group."""
        # Gates before jobs: a job that waits at one is filed at its row.
        for gate, on in self._gates:
            self._tables.gates.add(gate, on, self._now, self._tables.jobs)
        if last is not None and self.jobs.record(last).state is JobState.SUCCEEDED:
            # Before it is filed: its gates would fire without the jobs that it leads to.
            led = [(job_id, new.gate) for new, job_id in self._led]
            self._tables.gates.lead_on(last, led, self._tables.jobs)
        group_done = self.jobs.apply(last)
        self._mail.apply()
        self._log.apply()
        if self._changes is not None:
            self._tables.ledger.apply(self._changes)
        return group_done

    def carry_out(self) -> list[Enqueued]:
        """File it all, with what follows at gates that are decided at once; what is answered."""
        self.apply()
        died = gates.died(gates.follow(self._tables, self._now, None))
        return with_deaths(self.answers, died)


def commit(tables: Tables, now: datetime, effects: Effects) -> list[Enqueued]:
    """Write all of these or none."""
    refuse_contributions(effects)
    writing = PlannedEffects(tables, now)
    writing.add(effects)
    return writing.carry_out()


def compensate(tables: Tables, now: datetime, job_id: str, effects: Effects) -> bool:
    """Commit the effects once, and forget what the job had recorded."""
    if job_id not in tables.steps.to_undo:
        return False
    # In this order: a commit that is refused must leave what is to be undone.
    commit(tables, now, effects)
    tables.steps.forget(job_id)
    return True
