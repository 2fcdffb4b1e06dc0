"""The last writes of a transaction on SQLite: its groups, counted up and down in one sum."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from offpath.model.group import GroupPolicy
from offpath.store.programs.dialect import Queries
from offpath.store.programs.group_work import GroupWork, Left, Value
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL


def write_steps(work: GroupWork) -> Queries[dict[str, Left]]:
    """Write it all; how each group is left that has a row.

    Raises ``StoreRejected`` when a fold raises.
    """
    left = yield from count_steps(work)
    yield from give_steps(work, left)
    return left


def count_steps(work: GroupWork) -> Queries[dict[str, Left]]:
    """Count and mark; how each group is left that has a row."""
    closing = (yield from _there(work.closing)) if work.closing else []
    yield from _ensure(work, closing)
    # A row that is only needed, for a value or a mark, is of a group that nothing has left.
    left = dict.fromkeys([*work.more, *closing], Left(1, closing=False, done=False))
    if changes := _changes(work):
        rows = yield SQL["count_groups"](batch=batch(changes))
        left |= {
            group: Left(still, bool(closes), done == 1 and still == 0)
            for group, still, done, closes in rows
        }
    # Behind the counts, for a group may have got its row only there.
    if closing:
        yield SQL["mark_groups"](ids=batch(closing))
    return left


def _there(groups: Iterable[str]) -> Queries[list[str]]:
    """The groups among these that have a job."""
    rows = yield SQL["groups_there"](ids=batch(sorted(groups)))
    return [group for (group,) in rows]


def _ensure(work: GroupWork, closing: Iterable[str]) -> Queries[None]:
    """Make the rows that are missing. A root that has ended just now was open when this began,
    which is what a new row starts with.
    """
    fast = {root for root, policy in work.policies.items() if policy is GroupPolicy.FAIL_FAST}
    groups = dict.fromkeys([*work.more, *sorted(fast), *closing])
    rows = [
        (
            group,
            1 if group in work.open_roots else None,
            (GroupPolicy.FAIL_FAST if group in fast else GroupPolicy.SETTLE_ALL).value,
        )
        for group in groups
        if group not in work.rooted
    ]
    if rows:
        yield SQL["add_groups"](batch=batch(rows))
    if adopted := sorted(work.rooted & fast):
        yield SQL["adopt_groups"](ids=batch(adopted))


def _changes(work: GroupWork) -> list[tuple[str, int, int, int, int]]:
    joining = {group for group, number in work.more.items() if number}
    # Both in one sum: counted out before they are counted in, a group could seem done in between.
    return [
        (
            group,
            work.more[group] - work.ended[group],
            work.failed[group],
            int(group in joining),
            0,
        )
        for group in sorted(joining | work.ended.keys())
    ]


def give_steps(work: GroupWork, rows: Collection[str]) -> Queries[None]:
    """Give to the values of groups that have a row, each in its order.

    Behind the counts, which make the rows. Raises ``StoreRejected`` when a fold raises.
    """
    given = {group: some for group, some in work.given.items() if some and group in rows}
    folding = [group for group, some in given.items() if any(one.fold for one in some)]
    known: Mapping[str, Value] = {}
    if folding:
        found = yield SQL["lock_groups"](ids=batch(folding))
        known = {group: Value(value, bool(final)) for group, value, final in found}
    values = [
        (group, *before.given(some))
        for group, some in sorted(given.items())
        if not (before := known.get(group, Value())).final
    ]
    if values:
        yield SQL["give_to_groups"](batch=batch(values))
