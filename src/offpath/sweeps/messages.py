"""The sweeps that move messages: routers, the inbox, the outbox, each over all its streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from offpath.errors import PassFailed
from offpath.model.tally import Tally, Verdict
from offpath.store.protocol import Store
from offpath.sweeps.context import SweepContext
from offpath.sweeps.rows import reason_of


class Moves(Protocol):
    """The mover of the messages of one stream: a relay, a drain, a router."""

    async def run_once(self, *, limit: int) -> Tally:
        """Move up to ``limit`` due messages. Raises ``PassFailed`` when all failed."""
        ...


Found = Callable[[], Mapping[str, Callable[[], Moves]]]
"""The movers that there are now, by name, and how each is made."""


class KeptMovers:
    """Movers, kept from pass to pass while the app has the same store.

    Each opens its dispatcher once, and the app closes it.
    """

    def __init__(self, store: Callable[[], Store], found: Found) -> None:
        self._store = store
        self._found = found
        self._made: dict[str, Moves] = {}
        self._made_for: Store | None = None

    def all(self) -> dict[str, Moves]:
        """The ones that there are now, by name; a new one is made."""
        store, found = self._store(), self._found()
        if self._made_for is not store:
            self._made, self._made_for = {}, store
        for name, make in found.items():
            if name not in self._made:
                self._made[name] = make()
        return {name: self._made[name] for name in found}


async def moved(mover: Moves, limit: int) -> Tally:
    """One pass, whatever became of its messages. Raises what leasing them raises."""
    try:
        return await mover.run_once(limit=limit)
    except PassFailed as failed:
        return failed.tally


class Wanting(Struct, frozen=True):
    """The purpose of a sweep of messages, and why it may have nothing to do."""

    found: Found
    absent: str
    """Told when there is nothing to move with."""
    off: str | None = None
    """Told when it is switched off."""


class MoveDue:
    """Moves what is due in every stream, each in its own error boundary.

    A stream whose pass could not be made at all is in the bucket ``failed`` by its name. When
    everything failed the pass raises ``PassFailed``: a wholly failed batch is never quiet.
    """

    def __init__(self, store: Callable[[], Store], wanting: Wanting) -> None:
        self._wanting = wanting
        self._movers = KeptMovers(store, wanting.found)

    def skip(self) -> str | None:
        """Say that there is nothing to move with, if so."""
        if self._wanting.off is not None:
            return self._wanting.off
        return None if self._wanting.found() else self._wanting.absent

    async def run(self, ctx: SweepContext, _now: datetime, limit: int) -> Tally:
        """Move up to ``limit`` messages in all; what is due is judged by the store's clock."""
        tallies: dict[str, Tally] = {}
        errors: list[Exception] = []
        movers = self._movers.all()
        left = limit
        for waiting, (name, mover) in zip(range(len(movers), 0, -1), movers.items(), strict=True):
            if left <= 0:
                tallies[name] = Tally(more=True)
                continue
            try:
                # What one leaves of its share is for those after it: no stream takes it all.
                tallies[name] = await moved(mover, max(1, left // waiting))
            except Exception as error:  # this stream alone: told in the tally
                errors.append(error)
                ctx.log.warning("%s failed: %s", name, reason_of(error), exc_info=error)
                tallies[name] = Tally(buckets={"failed": (name,)}, reasons={name: reason_of(error)})
            left -= tallies[name].total
        if errors and len(errors) == len(movers):
            raise errors[0]
        return _loud(ctx.sweep, merged(tallies))


def _loud(sweep: str, tally: Tally) -> Tally:
    if tally.verdict is Verdict.FAILED:
        raise PassFailed(f"{sweep}: all {tally.total} failed ({tally.counts})", tally=tally)
    return tally


def merged(tallies: Mapping[str, Tally]) -> Tally:
    """Several passes as one; it was skipped only if each of them was."""
    parts: Sequence[Tally] = tuple(tallies.values())
    buckets: dict[str, tuple[str, ...]] = {}
    counted: dict[str, int] = {}
    for part in parts:
        for bucket, ids in part.buckets.items():
            buckets[bucket] = (*buckets.get(bucket, ()), *ids)
        for bucket, number in part.counted.items():
            counted[bucket] = counted.get(bucket, 0) + number
    why = [f"{name}: {part.skipped}" for name, part in tallies.items() if part.skipped]
    return Tally(
        buckets=buckets,
        counted=counted,
        bad=frozenset().union(*(part.bad for part in parts)),
        reasons={row: reason for part in parts for row, reason in part.reasons.items()},
        more=any(part.more for part in parts),
        skipped="; ".join(why) if why and len(why) == len(parts) else None,
    )
