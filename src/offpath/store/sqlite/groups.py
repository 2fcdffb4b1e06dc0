"""Counting the open jobs of groups, and what they make.

A lone job is its own group and has no row, unless there is more to say than its own row does; the
row comes with the second job and stays until the last one is gone. Groups are the last write of a
transition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from offpath.model.changes import ChangedJob
from offpath.model.group import Contribution, GroupPolicy
from offpath.model.job import DeadReason
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.dialect import Queries
from offpath.store.refusals import fold_raised
from offpath.store.sqlite.parameters import OUTER, batch
from offpath.store.sqlite.session import SQL, Session

_FAILED = frozenset({"dead", "cancelled"})


class EndedJob(NamedTuple):
    """A job that has ended."""

    id: str
    group_id: str
    state: str
    redrives: int = 0


def ended_job(row: MovedRow) -> EndedJob:
    """A job that a gate or time has ended."""
    return EndedJob(row.id, row.group_id, row.state, row.redrives)


def told(died: Iterable[MovedRow], done: Collection[str]) -> list[ChangedJob]:
    """The report of jobs that died; ``done`` are those that ended their groups."""
    return [
        ChangedJob(
            id=each.id,
            task=each.task,
            queue=each.queue,
            group_id=each.group_id,
            was=OUTER[each.was],
            state=OUTER[each.state],
            attempt=each.attempt,
            parent=each.parent,
            group_done=each.id in done,
            reason=None if each.reason is None else DeadReason(each.reason),
        )
        for each in died
    ]


class JoinedGroups(NamedTuple):
    """The change that new jobs make to groups."""

    added: Mapping[str, int] = {}
    """The number of open jobs."""
    roots: Sequence[str] = ()
    """Groups that were there before their root."""
    fail_fast: Sequence[str] = ()
    """Groups whose new root has that policy."""


class Closed(NamedTuple):
    """The result of a count."""

    done: set[str]
    """The jobs that ended their groups: of each group the last one that was given."""
    rows: Mapping[str, bool]
    """The groups among those that were counted that have a row: whether they are closing."""


def count_steps(
    ended: Sequence[EndedJob],
    joined: JoinedGroups | None = None,
    ensured: Collection[str] = (),
) -> Queries[Closed]:
    """Count jobs that ended out of their groups, and added ones in.

    A root that has ended just now was open when this began, which is what a new row starts with.
    ``ensured`` are groups that need a row, too.
    """
    joined = joined or JoinedGroups()
    yield from _ensure(joined, ended, ensured)
    known = dict.fromkeys(ensured, False)
    changes = _changes(ended, joined)
    if not changes:
        return Closed(set(), known)
    rows = yield SQL["count_groups"](batch=batch(changes))
    ends = {group: done == 1 and still == 0 for group, still, done, _ in rows}
    # Of several members that end at once one tells the end of the group: the last, so that it is
    # told once.
    last = {each.group_id: each for each in ended}
    done = {each.id for group, each in last.items() if ends.get(group, each.redrives == 0)}
    return Closed(done, known | {group: bool(closing) for group, _, _, closing in rows})


def _ensure(
    joined: JoinedGroups, ended: Sequence[EndedJob], ensured: Collection[str]
) -> Queries[None]:
    fast = set(joined.fail_fast)
    groups = dict.fromkeys([*joined.added, *joined.fail_fast, *ensured])
    for root in joined.roots:
        groups.pop(root, None)
    if groups:
        were_open = {each.id for each in ended}
        rows = [
            (
                group,
                1 if group in were_open else None,
                (GroupPolicy.FAIL_FAST if group in fast else GroupPolicy.SETTLE_ALL).value,
            )
            for group in groups
        ]
        yield SQL["add_groups"](batch=batch(rows))
    adopted = [root for root in joined.roots if root in fast]
    if adopted:
        yield SQL["adopt_groups"](ids=batch(adopted))


def _changes(
    ended: Sequence[EndedJob], joined: JoinedGroups
) -> list[tuple[str, int, int, int, int]]:
    opened = Counter(joined.added)
    opened.update(joined.roots)
    joining = set(opened)
    # Both in one sum: counted out before they are counted in, a group could seem done in between.
    opened.subtract(each.group_id for each in ended)
    failed = Counter(each.group_id for each in ended if each.state in _FAILED)
    return [
        (group, number, failed[group], int(group in joining), 0)
        for group, number in sorted(opened.items())
    ]


def there_steps(groups: Sequence[str]) -> Queries[list[str]]:
    """The groups among these that have a job."""
    rows = yield SQL["groups_there"](ids=batch(list(groups)))
    return [group for (group,) in rows]


# -- the value -------------------------------------------------------------------------------------


def contribute(session: Session, given: Mapping[str, Sequence[Contribution]]) -> None:
    """Give to the values of groups that have a row, each in this order.

    Raises ``StoreRejected`` when a fold raises.
    """
    folding = [group for group, each in given.items() if any(one.fold for one in each)]
    known: dict[str, tuple[str | None, bool]] = {}
    if folding:
        rows = session.run(SQL["lock_groups"](ids=batch(folding)))
        known = {group: (value, bool(final)) for group, value, final in rows}
    values = []
    for group, contributions in sorted(given.items()):
        value, locked = known.get(group, (None, False))
        final = False
        for one in () if locked else contributions:
            value, final = _folded(value, one), one.final
            if final:
                break
        if not locked and contributions:
            values.append((group, value, int(final)))
    if values:
        session.run(SQL["give_to_groups"](batch=batch(values)))


def _folded(so_far: str | None, given: Contribution) -> str:
    if given.fold is None:
        return given.payload
    try:
        value = given.fold(so_far, given.payload)
    except Exception as error:
        raise fold_raised(error) from error
    return value
