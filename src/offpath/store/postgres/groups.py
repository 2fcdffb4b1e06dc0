"""The changes of a transaction to groups: gathered while it runs, written last and in one order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from offpath.model.group import Contribution, GroupPolicy
from offpath.model.ledger.decision import LedgerOp
from offpath.store.postgres.ledger_post import OperationsFailed, carry_embedded, carry_steps
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.dialect import Queries, Send, Steps, ask
from offpath.store.refusals import fold_raised
from offpath.store.sql import Catalogue, Query, Row


class Value(NamedTuple):
    """The value that a group has made so far."""

    payload: str | None = None
    final: bool = False

    def given(self, contributions: Iterable[Contribution]) -> Value:
        """The value after these. Raises ``StoreRejected`` when a fold raises."""
        value = self
        for one in contributions:
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
    closing: set[str] = field(default_factory=set)
    ended: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    given: defaultdict[str, list[Contribution]] = field(default_factory=lambda: defaultdict(list))
    moved: list[MovedRow] = field(default_factory=list)
    """Jobs that gates moved as they were made."""
    operations: dict[int, tuple[LedgerOp, ...]] = field(default_factory=dict)
    """Operations, by the number of the effects that they belong to: decided after all else."""

    def end(self, group: str, *, failed: bool) -> None:
        """A member that is counted has ended."""
        self.ended[group] += 1
        self.failed[group] += failed

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
            if row.grouped and row.state in _FAILED:
                self.end(row.group_id, failed=True)

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

    def queries(self, now: datetime | None, *, sql: Catalogue) -> tuple[Query, ...]:
        """The statements, when no value depends on the one so far."""
        counts = self._counts({group: Value().given(self.given[group]) for group in self.given})
        more = (self._add(now, sql),) if self.more else ()
        if not counts:
            return more
        count = sql["count_groups"](now=moment(now), batch=to_json(counts))
        # up first, or a group could seem done in between; and all are locked in one order
        return (self._lock(sql), *more, count) if more else (count,)

    def lasting(self, now: datetime | None, *, sql: Catalogue) -> Steps[dict[str, Left]]:
        """Write it all, as the last of a transaction of our own; how each group is left.

        Raises ``OperationsFailed``, and then nothing may be committed.
        """
        left = yield from self._last(now, sql)
        if self.operations:
            yield from carry_steps(self.operations, now, sql=sql)
        return left

    def writing(self, now: datetime | None, *, sql: Catalogue) -> Queries[dict[str, Left]]:
        """Write it all in anybody's transaction; how each group that lost members is left.

        Raises ``LedgerError`` for an operation that does not go, and then nothing may be committed.
        """
        rows: Sequence[Row] = ()
        for query in self.queries(now, sql=sql):
            rows = yield query
        if self.operations:
            try:
                yield from carry_embedded(self.operations, now, sql=sql)
            except OperationsFailed as failed:
                raise failed.first from failed.first.__cause__
        return _left(rows) if self.ended else {}

    def _last(self, now: datetime | None, sql: Catalogue) -> Steps[dict[str, Left]]:
        if any(one.fold for given in self.given.values() for one in given):
            # The value so far must be read under the lock, or two ends could fold into the same
            # value.
            return (yield from self._fold(now, sql))
        queries = self.queries(now, sql=sql)
        if not queries:
            return {}
        answers = yield Send(queries, last=not self.operations)
        return _left(answers[-1])

    def _fold(self, now: datetime | None, sql: Catalogue) -> Steps[dict[str, Left]]:
        """Folds are called while the rows are held: one more round trip."""
        first = (self._lock(sql), self._add(now, sql)) if self.more else (self._lock(sql),)
        rows = (yield Send(first))[0]
        values = {group: Value(value) for group, value in self.values.items()}
        values |= {group: Value(value, bool(final)) for group, value, final in rows}
        given = {
            group: values.get(group, Value()).given(some) for group, some in self.given.items()
        }
        batch = to_json(self._counts(given))
        count = sql["count_groups"](now=moment(now), batch=batch)
        return _left((yield from ask(count, last=not self.operations)))

    def _lock(self, sql: Catalogue) -> Query:
        return sql["lock_groups"](ids=to_json(self.groups()))

    def _add(self, now: datetime | None, sql: Catalogue) -> Query:
        batch = [
            {
                "id": group,
                "more": more,
                "failed": self.failed_before[group],
                "policy": self.policies.get(group),
                "closing": group in self.closing,
                "value": self.values.get(group),
                "done": group in self.done,
            }
            for group, more in sorted(self.more.items())
        ]
        return sql["add_groups"](now=moment(now), batch=to_json(batch))

    def _counts(self, values: dict[str, Value]) -> list[dict[str, Any]]:
        none = Value()
        return [
            {
                "id": group,
                "ended": self.ended[group],
                "failed": self.failed[group],
                "given": group in values,
                "value": values.get(group, none).payload,
                "final": values.get(group, none).final,
                "closing": group in self.closing,
            }
            for group in sorted({*self.ended, *values, *self.closing})
        ]


_FAILED = frozenset({"dead", "cancelled"})


def _left(rows: Iterable[Row]) -> dict[str, Left]:
    return {
        group: Left(is_open, bool(closing), bool(done)) for group, is_open, closing, done in rows
    }


def _plain(one: Contribution) -> bool:
    return one.fold is None and not one.final


def _folded(so_far: str | None, given: Contribution) -> str:
    if given.fold is None:
        return given.payload
    try:
        return given.fold(so_far, given.payload)
    except Exception as error:
        raise fold_raised(error) from error
