"""The end of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from offpath.errors import Conflict, InvalidArgument, StoreRejected
from offpath.model.changes import ChangedJob
from offpath.model.group import Contribution
from offpath.model.job import BlockReason, JobRecord, JobState
from offpath.model.ledger.faults import LedgerError
from offpath.model.settlement import (
    Released,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.store.death_faults import deaths
from offpath.store.memory import gates, groups, limits
from offpath.store.memory.effects import PlannedEffects
from offpath.store.memory.group_rows import MemoryValue
from offpath.store.memory.tables import Tables
from offpath.store.memory.waits import MemoryWait
from offpath.store.rows.instants import later, maybe_later
from offpath.store.rows.jobs import applied, settled, woken


class BatchAnswers(Struct, kw_only=True):
    """The answers to a batch of settlements, and what it left behind."""

    answers: list[Settled]
    ended: bool = False
    waiting: bool = False


def settle(tables: Tables, now: datetime, settlements: Sequence[Settlement]) -> BatchAnswers:
    """Settle each; one that cannot be holds back none of the others."""
    batch = BatchAnswers(answers=[])
    for settlement in settlements:
        batch.answers.append(_settle_one(tables, now, settlement, batch))
    # The room that these ends make is given away in the same step, so nobody waits for the next
    # pass.
    keys = {each.job.limit_key for each in settlements if each.job.limit_key is not None}
    if keys and limits.admit(tables, now, limits.AT_ONCE, sorted(keys)).jobs:
        batch.waiting = True
    return batch


def _settle_one(
    tables: Tables, now: datetime, settlement: Settlement, batch: BatchAnswers
) -> Settled:
    held = tables.held_by(settlement.job)
    if held is None:
        return Settled(id=settlement.job.id, status=SettleStatus.LEASE_LOST)
    end = _SettlementEnd(tables, now, held, settlement)
    try:
        end.decide()
    except (Conflict, StoreRejected, InvalidArgument, LedgerError) as error:
        return Settled(id=held.id, status=SettleStatus.REFUSED, error=error)
    return end.apply(batch)


class _SettlementEnd:
    """One settlement: decided as a whole, which may be refused, then filed."""

    __slots__ = (
        "_expires_at",
        "_held",
        "_job",
        "_now",
        "_outcome",
        "_settlement",
        "_tables",
        "_value",
        "_wait",
        "_writing",
    )

    def __init__(
        self, tables: Tables, now: datetime, held: JobRecord, settlement: Settlement
    ) -> None:
        self._tables = tables
        self._now = now
        self._held = held
        self._settlement = settlement
        self._outcome = settlement.outcome
        self._expires_at: datetime | None = None
        self._job = held
        self._wait: MemoryWait | None = None
        self._value: MemoryValue | None = None
        self._writing: PlannedEffects | None = None

    def decide(self) -> None:
        """Say what will be. Raises what makes it refused."""
        self._expires_at = maybe_later(self._now, self._settlement.keep)
        self._job = settled(self._held, self._outcome, self._now, self._expires_at)
        # None of its effects: whoever has cancelled a job must not see it make new ones.
        if self._held.cancel_requested:
            return
        if isinstance(self._outcome, Released):
            self._job = limits.given_back(self._tables, self._now, self._job)
        if isinstance(self._outcome, Waiting):
            self._decide_wait(self._outcome)
        if isinstance(self._outcome, Snoozed) and self._outcome.cool_down is not None:
            # For its error alone: what leads to no time is refused while nothing is filed.
            later(self._now, self._outcome.cool_down)
        if not isinstance(self._outcome, Succeeded | Snoozed | Waiting):
            return
        self._decide_value(self._settlement.effects.contributions)
        if self._settlement.effects:
            self._writing = PlannedEffects(self._tables, self._now)
            # The effects see the job as it will be: a unique key that this end frees may go to one
            # of them.
            self._writing.jobs.becomes(self._job)
            self._writing.add(self._settlement.effects, self._job.group_id)
            self._job = self._writing.jobs.record(self._job.id)  # its own effects may rewrite it

    def _decide_wait(self, outcome: Waiting) -> None:
        until = maybe_later(self._now, outcome.timeout)
        address = outcome.target, outcome.event
        self._wait = MemoryWait(address, until)
        # The signal may have come before who waits for it, and nobody would send it again.
        if self._tables.signals.first(address, self._now) is not None:
            self._job = woken(self._job, self._now)

    def _decide_value(self, given: Sequence[Contribution]) -> None:
        outcome = self._outcome
        result = outcome.result if isinstance(outcome, Succeeded) else None
        contributes = isinstance(outcome, Succeeded) and outcome.contributes
        gives = result if contributes else None
        known = self._job.group_id in self._tables.groups.rows
        alone = not known and not self._settlement.effects.jobs
        if not given and (gives is None if known else alone and gives == result):
            return  # nothing is given, or a lone job's record says it all
        value = groups.value_of(self._tables, self._job.group_id)
        for each in given:
            value = value.with_one(each)
        self._value = value if gives is None else value.with_plain(gives)

    def apply(self, batch: BatchAnswers) -> Settled:
        """File what was decided, and what follows from it."""
        tables, job = self._tables, self._job
        if job.state is JobState.DEAD:
            tables.fault_keys.update((each.id, each.key) for each in deaths([self._settlement]))
        if self._value is not None:
            root = tables.root_of(job.group_id)
            tables.groups.row(job.group_id, root).value = self._value
        if self._wait is not None:
            self._await(job, self._wait)
        # Its children join the group before it leaves, or the group would seem done in between.
        write = self._writing
        group_done = tables.file(job, self._now) if write is None else write.apply(last=job.id)
        self._cool_down()
        ended = job.state.terminal
        batch.ended |= ended
        batch.waiting |= not ended or bool(self._settlement.effects.jobs)
        batch.waiting |= job.unique_key is not None  # others may have waited for it to be free
        along: Sequence[ChangedJob] = ()
        if tables.gates.decided:
            done, along = self._follow(batch)
            group_done |= done
        return self._answer(along, group_done=group_done)

    def _await(self, job: JobRecord, wait: MemoryWait) -> None:
        signals = self._tables.signals
        signals.called.pop(job.id, None)
        if job.reason == BlockReason.SIGNAL.value:
            self._tables.waits.ask(job.id, wait)
        else:
            signals.call(job.id, wait.address)

    def _follow(self, batch: BatchAnswers) -> tuple[bool, list[ChangedJob]]:
        """Follow the ends at gates: True if that ended the job's group, and the jobs that died of
        it.
        """
        moved = gates.follow(self._tables, self._now, self._expires_at)
        batch.ended |= any(each.state.terminal for each in moved)
        batch.waiting |= any(not each.state.terminal for each in moved)
        return gates.of_group(self._job.group_id, gates.died(moved))

    def _cool_down(self) -> None:
        outcome, key = self._outcome, self._held.limit_key
        if isinstance(outcome, Snoozed) and outcome.cool_down is not None and key is not None:
            until = later(self._now, outcome.cool_down)
            if not self._held.cancel_requested:
                limits.close(self._tables, self._now, key, until)

    def _answer(self, along: Sequence[ChangedJob], *, group_done: bool) -> Settled:
        job, row = self._job, self._tables.groups.rows.get(self._job.group_id)
        return applied(
            job,
            () if self._writing is None else self._writing.answers,
            group_done=group_done,
            closing=row is not None and row.closing,
            along=along,
        )
