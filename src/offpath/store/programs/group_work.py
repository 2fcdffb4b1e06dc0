"""The changes of a transaction to groups: gathered while it runs, written last and in one order.

A lone job is its own group and has no row, unless there is more to say than its own row does. The
row comes with the second job and stays until the last one is gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from offpath.model.group import Contribution, GroupPolicy
from offpath.model.ledger.decision import LedgerOp
from offpath.store.programs.answers import MovedRow
from offpath.store.refusals import fold_raised
from offpath.store.sql import Row


class Value(NamedTuple):
    """The value that a group has made so far."""

    payload: str | None = None
    final: bool = False

    def given(self, contributions: Iterable[Contribution]) -> Value:
        """The value after these. Raises ``StoreRejected`` when a fold raises."""
        value = self
        for one in contributions:
            # A final value stays, whatever members give after it.
            if value.final:
                break
            value = Value(_folded(value.payload, one), one.final)
        return value


class Left(NamedTuple):
    """The state of a group after a change: its open jobs, and a mark at its first end."""

    open: int
    closing: bool
    done: bool


@dataclass(slots=True)
class GroupWork:
    """The changes to be written about groups, by their ids."""

    more: Counter[str] = field(default_factory=Counter)
    """New open members. A group that is named here has a row from then on."""
    failed_before: Counter[str] = field(default_factory=Counter)
    """Roots that had failed before they got company."""
    policies: dict[str, GroupPolicy] = field(default_factory=dict)
    values: dict[str, str | None] = field(default_factory=dict)
    """The values that roots had made before they got company."""
    done: set[str] = field(default_factory=set)
    """Groups that had been done before they get a row."""
    rooted: set[str] = field(default_factory=set)
    """Groups that had a row before their root, which is new."""
    open_roots: set[str] = field(default_factory=set)
    """Roots that were open when this transaction began, and have ended in it."""
    closing: set[str] = field(default_factory=set)
    ended: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    given: defaultdict[str, list[Contribution]] = field(default_factory=lambda: defaultdict(list))
    moved: list[MovedRow] = field(default_factory=list)
    """Jobs that gates moved as they were made."""
    operations: dict[int, tuple[LedgerOp, ...]] = field(default_factory=dict)
    """Operations, by the number of the effects that they belong to: decided after all else."""

    def end(self, group: str, *, failed: bool, job: str | None = None) -> None:
        """A member that is counted has ended."""
        self.ended[group] += 1
        self.failed[group] += failed
        if job == group:
            self.open_roots.add(group)

    def give(self, group: str, given: Iterable[Contribution]) -> None:
        """Note what a group is given: of values that follow each other the last one counts."""
        kept = self.given[group]
        for one in given:
            if kept and _plain(one) and _plain(kept[-1]):
                kept[-1] = one
            else:
                kept.append(one)

    def end_moved(self, rows: Iterable[MovedRow]) -> None:
        """Take in jobs that gates or time have moved."""
        for row in rows:
            # A released job is open as before, so its group has nothing to count.
            if row.grouped and row.state in _FAILED:
                self.end(row.group_id, failed=True, job=row.id)

    def join_root(self, row: Row, settled: frozenset[str]) -> None:
        """A root gets company. What ends in this transaction gives its value by itself."""
        root, standing, result, redrives = row
        self.more[root] += max(standing, 0)
        if standing < 0:
            self.failed_before[root] += 1
        if standing == 0 and root not in settled:
            self.values[root] = result
        # It has reported the end of its group while it was alone; a second report would be wrong.
        if redrives > 0 or (standing <= 0 and root not in settled):
            self.done.add(root)

    def groups(self) -> list[str]:
        """Every group that is written to, in the order of locking."""
        return sorted({*self.more, *self.ended, *self.given, *self.closing})


_FAILED: Final = frozenset({"dead", "cancelled"})


def _plain(one: Contribution) -> bool:
    return one.fold is None and not one.final


def _folded(so_far: str | None, given: Contribution) -> str:
    if given.fold is None:
        return given.payload
    try:
        return given.fold(so_far, given.payload)
    except Exception as error:
        raise fold_raised(error) from error
