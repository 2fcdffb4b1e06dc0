"""The last writes of a transaction on Postgres: the rows of its groups, in one order.

They are where the members of a large group meet, so they are held for the shortest time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from offpath.store.postgres.ledger_post import OperationsFailed, carry_embedded, carry_steps
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.dialect import Queries, Send, Steps, ask
from offpath.store.programs.group_work import GroupWork, Left, Value
from offpath.store.sql import Catalogue, Query, Row


def queries(work: GroupWork, now: datetime | None, *, sql: Catalogue) -> tuple[Query, ...]:
    """The statements, when no value depends on the one so far."""
    counts = _counts(work, {group: Value().given(work.given[group]) for group in work.given})
    more = (_add(work, now, sql),) if work.more else ()
    if not counts:
        return more
    count = sql["count_groups"](now=moment(now), batch=to_json(counts))
    # up first, or a group could seem done in between; and all are locked in one order
    return (_lock(work, sql), *more, count) if more else (count,)


def lasting(work: GroupWork, now: datetime | None, *, sql: Catalogue) -> Steps[dict[str, Left]]:
    """Write it all, as the last of a transaction of our own; how each group is left.

    Raises ``OperationsFailed``, and then nothing may be committed.
    """
    left = yield from _last(work, now, sql)
    if work.operations:
        yield from carry_steps(work.operations, now, sql=sql)
    return left


def writing(work: GroupWork, now: datetime | None, *, sql: Catalogue) -> Queries[dict[str, Left]]:
    """Write it all in anybody's transaction; how each group that lost members is left.

    Raises ``LedgerError`` for an operation that does not go, and then nothing may be committed.
    """
    rows: Sequence[Row] = ()
    for query in queries(work, now, sql=sql):
        rows = yield query
    if work.operations:
        try:
            yield from carry_embedded(work.operations, now, sql=sql)
        except OperationsFailed as failed:
            raise failed.first from failed.first.__cause__
    return _left(rows) if work.ended else {}


def _last(work: GroupWork, now: datetime | None, sql: Catalogue) -> Steps[dict[str, Left]]:
    if any(one.fold for given in work.given.values() for one in given):
        # The value so far must be read under the lock, or two ends could fold into the same
        # value.
        return (yield from _fold(work, now, sql))
    last = queries(work, now, sql=sql)
    if not last:
        return {}
    answers = yield Send(last, last=not work.operations)
    return _left(answers[-1])


def _fold(work: GroupWork, now: datetime | None, sql: Catalogue) -> Steps[dict[str, Left]]:
    """Folds are called while the rows are held: one more round trip."""
    first = (_lock(work, sql), _add(work, now, sql)) if work.more else (_lock(work, sql),)
    rows = (yield Send(first))[0]
    values = {group: Value(value) for group, value in work.values.items()}
    values |= {group: Value(value, bool(final)) for group, value, final in rows}
    given = {group: values.get(group, Value()).given(some) for group, some in work.given.items()}
    batch = to_json(_counts(work, given))
    count = sql["count_groups"](now=moment(now), batch=batch)
    return _left((yield from ask(count, last=not work.operations)))


def _lock(work: GroupWork, sql: Catalogue) -> Query:
    # All of them, also those that only grow: a row that is locked later would break the order.
    return sql["lock_groups"](ids=to_json(work.groups()))


def _add(work: GroupWork, now: datetime | None, sql: Catalogue) -> Query:
    # In one order: two transactions that make the same groups would wait for each other otherwise.
    batch = [
        {
            "id": group,
            "more": more,
            "failed": work.failed_before[group],
            "policy": work.policies.get(group),
            "closing": group in work.closing,
            "value": work.values.get(group),
            "done": group in work.done,
        }
        for group, more in sorted(work.more.items())
    ]
    return sql["add_groups"](now=moment(now), batch=to_json(batch))


def _counts(work: GroupWork, values: dict[str, Value]) -> list[dict[str, Any]]:
    none = Value()
    return [
        {
            "id": group,
            "ended": work.ended[group],
            "failed": work.failed[group],
            "given": group in values,
            "value": values.get(group, none).payload,
            "final": values.get(group, none).final,
            "closing": group in work.closing,
        }
        # By id, as all that lock rows of groups.
        for group in sorted({*work.ended, *values, *work.closing})
    ]


def _left(rows: Iterable[Row]) -> dict[str, Left]:
    return {
        group: Left(is_open, bool(closing), bool(done)) for group, is_open, closing, done in rows
    }
