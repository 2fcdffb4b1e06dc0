"""Leases of due side rows, checkpoints, and the removal of what is old.

A ledger changes by them besides by posting.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import asdict

from offpath.model.ledger.records import DUE_STATES, Checkpoint, Leaf, SideRow
from offpath.model.ledger.trims import Trim
from offpath.store.programs.dialect import Dialect, Send, Steps, ask
from offpath.store.programs.ledger_reads import DueSideRow
from offpath.store.refusals import never_due
from offpath.store.sql import Query

# A batch is one parameter, which is taken apart in memory.
CHUNK: Final = 5000
"""Leaves in one statement."""


def lease_sides(
    d: Dialect, kind: str, *, limit: int, hold: float, now: int | None = None
) -> Steps[list[SideRow]]:
    """Hand out due rows of a kind, the longest due first; each is due again after ``hold``."""
    d.span(hold)  # raises for what leads to no time
    rows = yield from ask(_due(d, kind, limit, now))
    if not rows:
        return []
    due = [DueSideRow(*row) for row in rows]
    # By the time that the rows were found by: the clock is not asked a second time.
    until = due[0].now + max(round(hold * 1000), 0)
    ids = d.batch([row.id for row in due])
    yield from ask(d.sql["hold_sides"](kind=kind, ids=ids, until=until), last=True)
    return [_leased(row, until) for row in due]


def nothing_due(
    d: Dialect, kind: str, *, limit: int, hold: float, now: int | None = None
) -> Steps[list[SideRow] | None]:
    """An empty list when no row of the kind is due; otherwise None."""
    # Refused here as there: what cannot be held is an error also while nothing is due.
    d.span(hold)
    # One row is enough to know that the program has to run.
    rows = yield from ask(_due(d, kind, min(limit, 1), now))
    return None if rows else []


def _due(d: Dialect, kind: str, limit: int, now: int | None) -> Query:
    if kind not in DUE_STATES:
        raise never_due(kind)
    at = d.milliseconds if now is None else now
    return d.sql["due_sides"](kind=kind, now=at, limit=max(limit, 0))


def _leased(row: DueSideRow, until: int) -> SideRow:
    return SideRow(
        kind=row.kind,
        id=row.id,
        owner=row.owner,
        state=row.state,
        # As ``hold_sides`` writes it: the new version fences whoever had the row before.
        version=row.version + 1,
        due_at=until,
        attempts=row.attempts,
        amount=row.amount,
        anchor=row.anchor,
        unique_key=row.unique_key,
        created_at=row.created_at,
        touched_at=row.touched_at,
        body=row.body,
    )


def save_checkpoint(
    d: Dialect, checkpoint: Checkpoint, leaves: Sequence[Leaf], *, anew: bool = False
) -> Steps[bool]:
    """Write a checkpoint and its leaves, unless another one was sealed meanwhile."""
    add = d.sql["add_checkpoint"](**asdict(checkpoint))
    # two that seal at once take turns, or neither would see the other's
    _, added = yield Send((d.sql["lock_checkpoints"](), add))
    if not added:
        return False
    if anew:
        # Under the turn of checkpoints, so nobody seals on top of half of the leaves.
        yield from ask(d.sql["clear_leaves"]())
    # by account, as everybody who writes leaves takes their rows
    ordered = sorted(leaves, key=attrgetter("account"))
    for at in range(0, len(ordered), CHUNK):
        yield from ask(d.sql["put_leaves"](batch=d.batch(ordered[at : at + CHUNK])))
    return True


class Old(NamedTuple):
    """Rows that may go, as JSON lists: attempts by subject, time and number, keys by name."""

    attempts: str
    keys: str
    before: int | None


def old(d: Dialect, attempts_before: int, keys_before: int | None, limit: int) -> Steps[Old | None]:
    """Rows that may be pruned; once they may, they always may. None: there are none.

    It is a read of its own, since it walks past rows that stay and would hold up a writer.
    """
    bound = max(limit, 0)
    queries = [d.sql["old_attempts"](before=attempts_before, limit=bound)]
    if keys_before is not None:
        queries.append(d.sql["old_keys"](before=keys_before, limit=bound))
    attempts, *keys = yield Send(tuple(queries), last=True)
    names = [key for rows in keys for (key,) in rows]
    if not attempts and not names:
        return None
    return Old(d.batch(attempts), d.batch(names), keys_before)


def prune(d: Dialect, gone: Old) -> Steps[int]:
    """Remove these, as far as nobody has removed or renewed them; how many there were."""
    attempts = d.sql["prune_attempts"](attempts=gone.attempts)
    keys = d.sql["prune_keys"](keys=gone.keys, before=gone.before)
    # Both statements look again at what they remove: somebody may have used it since it was found.
    answers = yield Send((attempts, keys), last=True)
    return sum(map(len, answers))


def keep_postings(d: Dialect, trim: int, ids: Sequence[str]) -> Steps[None]:
    """Keep these postings whole for a trim that is about to begin."""
    query = d.sql["keep_postings"](trim=trim, ids=d.batch(sorted(set(ids))))
    # By the turn of checkpoints, as all of a trim: no two of them are under way at once.
    yield Send((d.sql["lock_checkpoints"](), query), last=True)


def begin_trim(d: Dialect, trim: Trim, *, keeps: int) -> Steps[bool]:
    """Write a trim, unless it does not follow the last one, or more is kept for it."""
    fields = asdict(trim)
    # These count what the trim has done, so they begin in the database.
    for counted in ("done", "postings", "links", "moved"):
        del fields[counted]
    add = d.sql["add_trim"](**fields, keeps=keeps)
    _, added = yield Send((d.sql["lock_checkpoints"](), add), last=True)
    return bool(added)


def trim_postings(d: Dialect, *, limit: int) -> Steps[int]:
    """Remove the next postings of the trim that is under way; the number that were looked at."""
    # Whoever waited for the turn goes on where the other one has ended.
    # At least one: an answer of 0 says that the trim is finished.
    _, found = yield Send((d.sql["lock_checkpoints"](), d.sql["next_trim"](limit=max(limit, 1))))
    if not found:
        return 0
    number, boundary, after, looked, through = found[0]
    span = {"after": after, "through": through}
    # The ids are retired first: only then the database lets their links go, and the postings last.
    _, links, postings = yield Send(
        (
            d.sql["retire_postings"](number=number, **span),
            d.sql["trim_links"](boundary=boundary, **span),
            d.sql["drop_trimmed"](**span),
        )
    )
    told = {"number": number, "postings": len(postings), "links": len(links)}
    yield from ask(d.sql["advance_trim"](through=through, now=d.milliseconds, **told), last=True)
    return int(looked)
