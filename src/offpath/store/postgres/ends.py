"""A batch of settlements, and what became of it: what is still to be written, what is answered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from offpath.model.changes import ChangedJob
from offpath.model.effects import NOTHING, Effects
from offpath.model.group import Contribution
from offpath.model.job import TERMINAL, Enqueued, JobState, NewJob
from offpath.model.settlement import (
    Released,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.store.postgres.steps import from_micros, public
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.conclusion import told
from offpath.store.programs.group_work import GroupWork, Left
from offpath.store.sql import Row

_COUNTED: Final = 2
"""The column ``watched`` of a job whose end is counted where it is watched, or is just being so."""

_WANTED: Final = (Succeeded, Snoozed, Waiting)
"""Outcomes whose effects are carried out."""


class EndedRow(NamedTuple):
    """The answer of the statement about one settlement that it applied."""

    state: JobState
    run_at: int
    group: str | None
    """The group that counts it."""
    announce: int
    watched: bool
    has_undo: bool
    redrives: int
    over: bool
    """Asked again and again, and for each job."""

    @classmethod
    def of(cls, row: Row) -> tuple[int, EndedRow]:
        """The settlement's place and what is said of it, from a row of the statement."""
        n, text, run_at, group, announce, watched, has_undo, redrives, _ = row
        state, counted = public(text), watched == _COUNTED
        over = state in TERMINAL
        return n, cls(state, run_at, group, announce, counted, bool(has_undo), redrives, over)

    @property
    def failed(self) -> bool:
        """True if gates are to count it as a failure."""
        return self.over and self.watched and self.state is not JobState.SUCCEEDED


@dataclass(slots=True)
class AppliedBatch:
    """Settlements, and what became of those that were applied, by their places."""

    settlements: Sequence[Settlement]
    ended: dict[int, EndedRow]
    applied: list[int]
    """The places of those that came out as they wanted to, in order."""
    groups: dict[int, str | None] = field(default_factory=dict)
    """The groups whose rows count them, once these are known."""

    @classmethod
    def of(cls, settlements: Sequence[Settlement], rows: Iterable[Row]) -> AppliedBatch:
        """The batch, from the rows of the statement."""
        ended = dict(map(EndedRow.of, rows))
        applied = [
            n
            for n, one in sorted(ended.items())
            # A job that was cancelled meanwhile carries out none of its effects, whatever its
            # handler reported.
            if isinstance(settlements[n].outcome, _WANTED) and one.state is not JobState.CANCELLED
        ]
        return cls(settlements, ended, applied)

    def ids(self) -> frozenset[str]:
        """The jobs."""
        return frozenset(self.settlements[n].job.id for n in self.ended)

    def carried(self) -> dict[int, Effects]:
        """The effects to carry out."""
        carried = {}
        for n in self.applied:
            one = self.settlements[n]
            if one.effects is not NOTHING and one.effects:
                jobs = tuple(_member(job, one) for job in one.effects.jobs)
                carried[n] = msgspec.structs.replace(one.effects, jobs=jobs)
        return carried

    def makers(self, carried: Mapping[int, Effects]) -> list[str]:
        """Lone jobs whose group has a value other than their result: it needs a row."""
        return [
            self.settlements[n].job.id
            for n in self.applied
            if self.ended[n].group is None
            and (
                (n in carried and carried[n].contributions) or _keeps_to_itself(self.settlements[n])
            )
        ]

    def given_back(self) -> list[str]:
        """The limits of those that were given back as they were: these keep their room."""
        return [
            key
            for n, one in self.ended.items()
            if one.state is JobState.QUEUED
            and isinstance(self.settlements[n].outcome, Released)
            and (key := self.settlements[n].job.limit_key) is not None
        ]

    def hold(self, jobs: Collection[str]) -> None:
        """Note that the limits of these jobs hold them again."""
        for n, one in self.ended.items():
            if self.settlements[n].job.id in jobs:
                self.ended[n] = one._replace(state=JobState.BLOCKED)

    def watched(self) -> dict[str, bool]:
        """Jobs that gates watch and that have ended; whether they succeeded."""
        return {
            self.settlements[n].job.id: one.state is JobState.SUCCEEDED
            for n, one in self.ended.items()
            if one.watched and one.over
        }

    def leading(self) -> dict[int, str]:
        """The numbers of those that gates watch and that have succeeded, with their jobs."""
        return {
            n: self.settlements[n].job.id
            for n, one in self.ended.items()
            if one.watched and one.state is JobState.SUCCEEDED
        }

    def keep(self) -> float | None:
        """The time for which jobs that die of these ends are kept: the longest of what failed."""
        keeps = [
            self.settlements[n].keep
            for n, one in self.ended.items()
            if one.over and one.state is not JobState.SUCCEEDED
        ]
        known = [one for one in keeps if one is not None]
        # One that is kept for ever (None) outlasts every number.
        return max(known) if known and len(known) == len(keeps) else None

    def count(self, work: GroupWork, moved: Sequence[MovedRow]) -> None:
        """Note what the groups have lost, and what they were given."""
        self.groups = {n: self._group_with_row(n, work) for n in self.ended}
        over = [one for one in self.ended.values() if one.over]
        work.ended.update(one.group for one in over if one.group)
        failed = (one for one in over if one.state is not JobState.SUCCEEDED)
        work.failed.update(one.group for one in failed if one.group)
        for n in self.applied:
            group = self.groups[n]
            if group is None:
                continue
            if given := _given(self.settlements[n]):
                work.give(group, given)
            # Its group has got a row in this transaction, so its end has to be counted there.
            elif self.ended[n].group is None:
                work.give(group, ())  # its end may be that of the group
        work.end_moved(moved)

    def answers(
        self,
        enqueued: Mapping[int, tuple[Enqueued, ...]],
        left: Mapping[str, Left],
        died: Sequence[MovedRow],
    ) -> list[Settled]:
        """The answer to each. Jobs that died at gates are reported by the last that failed."""
        groups = self.groups
        # Of several members that end at once one tells the end of the group: the last, so that it
        # is told once.
        last = {groups[n]: n for n, one in sorted(self.ended.items()) if one.over}
        along = self._along(told(died, left, elsewhere={one for one in last if one}), enqueued)
        applied = SettleStatus.APPLIED
        answers = []
        for n, settlement in enumerate(self.settlements):
            if (one := self.ended.get(n)) is None:
                answers.append(_lost(settlement))
                continue
            group = groups[n]
            there = None if group is None else left.get(group)
            answer = Settled(
                id=settlement.job.id,
                status=applied,
                state=one.state,
                run_at=from_micros(one.run_at) if one.state is JobState.QUEUED else None,
                enqueued=enqueued.get(n, ()),
                group_done=one.over
                and (
                    one.redrives == 0
                    if group is None
                    else there is not None and there.done and last[group] == n
                ),
                closing=there is not None and there.closing,
                along=tuple(along.get(n, ())),
            )
            answers.append(answer)
        return answers

    def _along(
        self, died: Sequence[ChangedJob], enqueued: Mapping[int, tuple[Enqueued, ...]]
    ) -> dict[int, list[ChangedJob]]:
        """The reporters of jobs that died, by place: the settlement that made them, or the last
        that failed.
        """
        makers = {one.job_id: n for n, some in enqueued.items() for one in some if one.created}
        failed = max((n for n, one in self.ended.items() if one.failed), default=None)
        other = failed if failed is not None else min(makers.values(), default=None)
        along: dict[int, list[ChangedJob]] = {}
        for one in died:
            n = makers.get(one.id, other)
            if n is not None:
                along.setdefault(n, []).append(one)
        return along

    def _group_with_row(self, n: int, work: GroupWork) -> str | None:
        # its new children keep a group open that had no row before
        group = self.settlements[n].job.group_id
        return self.ended[n].group or (group if group in work.more else None)


def _keeps_to_itself(one: Settlement) -> bool:
    """True if its result is not its group's value."""
    outcome = one.outcome
    return isinstance(outcome, Succeeded) and not outcome.contributes and outcome.result is not None


def _given(one: Settlement) -> tuple[Contribution, ...]:
    """The contributions to its group's value, in order."""
    outcome = one.outcome
    if isinstance(outcome, Succeeded) and outcome.contributes and outcome.result is not None:
        return (*one.effects.contributions, Contribution(payload=outcome.result))
    return one.effects.contributions


def _member(job: NewJob, one: Settlement) -> NewJob:
    """A new job joins the group of the job that made it."""
    if job.group_id is not None:
        return job
    return msgspec.structs.replace(job, group_id=one.job.group_id)


def _lost(one: Settlement) -> Settled:
    return Settled(id=one.job.id, status=SettleStatus.LEASE_LOST)
