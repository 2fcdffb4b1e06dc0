"""Counting the open jobs of groups, and what they make.

A lone job is its own group and has no row, unless there is more to say than its own row does; the
row comes with the second job and stays until the last one is gone. Groups are the last write of a
transition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from offpath.model.group import Contribution, GroupPolicy
from offpath.store.programs.dialect import Queries
from offpath.store.refusals import fold_raised
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session

_FAILED = frozenset({"dead", "cancelled"})


class Ended(NamedTuple):
    """A job that has ended."""

    id: str
    group_id: str
    state: str
    redrives: int = 0


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


def count(
    session: Session,
    ended: Sequence[Ended],
    joined: JoinedGroups | None = None,
    ensured: Collection[str] = (),
) -> Closed:
    """Count as :func:`count_steps` does, on our own connection."""
    return session.drive(count_steps(ended, joined, ensured))


def count_steps(
    ended: Sequence[Ended],
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
    rows = yield SQL["group_change"](changes=batch(changes))
    ends = {group: done == 1 and still == 0 for group, still, done, _ in rows}
    last = {each.group_id: each for each in ended}
    done = {each.id for group, each in last.items() if ends.get(group, each.redrives == 0)}
    return Closed(done, known | {group: bool(closing) for group, _, _, closing in rows})


def _ensure(
    joined: JoinedGroups, ended: Sequence[Ended], ensured: Collection[str]
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
        yield SQL["group_ensure"](groups=batch(rows))
    adopted = [root for root in joined.roots if root in fast]
    if adopted:
        yield SQL["group_adopt"](groups=batch(adopted))


def _changes(ended: Sequence[Ended], joined: JoinedGroups) -> list[tuple[str, int, int, int, int]]:
    opened = Counter(joined.added)
    opened.update(joined.roots)
    joining = set(opened)
    opened.subtract(each.group_id for each in ended)
    failed = Counter(each.group_id for each in ended if each.state in _FAILED)
    return [
        (group, number, failed[group], int(group in joining), 0)
        for group, number in sorted(opened.items())
    ]


def reopen(session: Session, groups: Iterable[str]) -> None:
    """Count failed jobs in that are open again; closing ends with that."""
    changes = [(group, n, -n, 0, 1) for group, n in sorted(Counter(groups).items())]
    if changes:
        session.run(SQL["group_change"](changes=batch(changes)))


def forget(session: Session, gone: Iterable[str]) -> None:
    """Jobs of these groups are gone: a group goes with the last one, and says till then what it
    was told of the others.
    """
    if groups := sorted(set(gone)):
        session.run(SQL["group_forget"](groups=batch(groups)))


# -- the value -------------------------------------------------------------------------------------


def contribute(session: Session, given: Mapping[str, Sequence[Contribution]]) -> None:
    """Give to the values of groups that have a row, each in this order.

    Raises ``StoreRejected`` when a fold raises.
    """
    folding = [group for group, each in given.items() if any(one.fold for one in each)]
    known: dict[str, tuple[str | None, bool]] = {}
    if folding:
        rows = session.run(SQL["group_values"](groups=batch(folding)))
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
        session.run(SQL["group_give"](values=batch(values)))


def _folded(so_far: str | None, given: Contribution) -> str:
    if given.fold is None:
        return given.payload
    try:
        value = given.fold(so_far, given.payload)
    except Exception as error:
        raise fold_raised(error) from error
    return value


# -- closing and reading ---------------------------------------------------------------------------


def mark(session: Session, ids: Sequence[str]) -> None:
    """Mark the groups among these that exist as closing."""
    there = [row[0] for row in session.run(SQL["group_alone"](groups=batch(list(ids))))]
    if there:
        rows = [(group, None, GroupPolicy.SETTLE_ALL.value) for group in there]
        session.run(SQL["group_ensure"](groups=batch(rows)))
        session.run(SQL["group_mark"](groups=batch(there)))


def to_close(session: Session, limit: int) -> list[str]:
    """Groups that may have members to cancel."""
    return [row[0] for row in session.run(SQL["groups_to_close"](limit=limit))]


def untold(session: Session, groups: Sequence[str], limit: int) -> tuple[list[str], bool]:
    """Up to ``limit`` open members of these groups that nobody has asked to end; whether that is
    all of them.
    """
    rows = session.run(SQL["group_untold"](groups=batch(list(groups)), limit=limit + 1))
    return [row[0] for row in rows[:limit]], len(rows) <= limit


def closed(session: Session, groups: Sequence[str]) -> None:
    """Every open member of these was told: look at them no more until another joins."""
    session.run(SQL["group_closed"](groups=batch(list(groups))))
