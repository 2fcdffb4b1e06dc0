"""Settlements whose answer was lost, and what became of them.

The store's fence refuses the repeat of a settlement that it took, exactly as one whose lease was
lost. So a settlement that had no answer is remembered until it is repeated; when the repeat is
refused, the row tells whether the first call was carried out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import structs

from offpath.errors import StoreUnavailable
from offpath.model.job import JobState
from offpath.model.message import (
    MessageFilter,
    MessageRecord,
    MessageSettled,
    MessageSettlement,
    MessageState,
)
from offpath.model.settlement import Settled, Settlement, SettleStatus

if TYPE_CHECKING:
    from offpath.store.protocol import Store

MOST_DOUBTED = 10_000
"""Settlements with an unknown outcome that are remembered until they are repeated."""

S = TypeVar("S")
A = TypeVar("A", bound=Settled | MessageSettled)


class Doubts(Generic[S, A]):
    """Settlements of one kind that had no answer.

    ``fence`` names one attempt; ``taken`` says which refused settlements had been applied after
    all, and the state that each led to, by the id of the row.
    """

    def __init__(
        self,
        fence: Callable[[S], Hashable],
        taken: Callable[[Sequence[S]], Awaitable[Mapping[str, Any]]],
    ) -> None:
        self._fence = fence
        self._taken = taken
        self._fences: dict[Hashable, None] = {}

    def __bool__(self) -> bool:
        return bool(self._fences)

    def note(self, settlements: Iterable[S]) -> None:
        """Remember settlements whose answer was lost, the latest ``MOST_DOUBTED``."""
        for settlement in settlements:
            self._fences[self._fence(settlement)] = None
        # A caller that never repeats them must not fill the memory: the oldest go.
        while len(self._fences) > MOST_DOUBTED:
            del self._fences[next(iter(self._fences))]

    async def cleared(self, settlements: Sequence[S], answers: Sequence[A]) -> list[A]:
        """Return the answers, ``APPLIED`` for repeats whose first call was carried out."""
        refused = [
            settlement
            for settlement, answer in zip(settlements, answers, strict=True)
            if self._repeated(settlement) and answer.status is SettleStatus.LEASE_LOST
        ]
        taken = await self._taken(refused) if refused else {}
        return [
            structs.replace(answer, status=SettleStatus.APPLIED, state=taken[answer.id])
            if answer.status is SettleStatus.LEASE_LOST and answer.id in taken
            else answer
            for answer in answers
        ]

    def _repeated(self, settlement: S) -> bool:
        # Every value is None, so something else has to stand for what is not there.
        return self._fences.pop(self._fence(settlement), self) is None


def doubted_jobs(store: Store) -> Doubts[Settlement, Settled]:
    """The doubts about settlements of jobs."""

    async def taken(refused: Sequence[Settlement]) -> dict[str, JobState]:
        # Only the holder could end this delivery; a rescue would have raised the losses.
        held = {settlement.job.id: settlement.job for settlement in refused}
        try:
            records = await store.get(tuple(held))
        # Unknown it stays: the answers go out as the store has given them.
        except StoreUnavailable:
            return {}
        return {
            record.id: record.state
            for record in records
            if record.deliveries == held[record.id].deliveries
            and record.losses == held[record.id].losses
            and record.state is not JobState.RUNNING
        }

    return Doubts(_job_fence, taken)


def doubted_messages(store: Store) -> Doubts[MessageSettlement, MessageSettled]:
    """The doubts about settlements of messages. A release is not looked into: whoever gave a
    message back has nothing to do, whichever the answer is.
    """

    async def taken(refused: Sequence[MessageSettlement]) -> dict[str, MessageState]:
        held = {settlement.message.id: settlement.message for settlement in refused}
        known = await known_messages(store, tuple(held))
        # Another holder would have raised the deliveries; a lease that only ran out ends nothing.
        return {
            record.id: record.state
            for record in known.values()
            if record.deliveries == held[record.id].deliveries
            and (
                record.state is not MessageState.PENDING
                or record.attempt == held[record.id].attempt + 1
            )
        }

    return Doubts(_message_fence, taken)


async def known_messages(store: Store, ids: Sequence[str]) -> dict[str, MessageRecord]:
    """Return the records of these messages; none when the store cannot be asked."""
    if not ids:
        return {}
    where = MessageFilter(ids=tuple(ids))
    try:
        page = await store.find_messages(where, limit=len(where.ids))
    except StoreUnavailable:
        return {}
    return {each.id: each for each in page.items}


def _job_fence(settlement: Settlement) -> Hashable:
    job = settlement.job
    return job.id, job.worker, job.deliveries


def _message_fence(settlement: MessageSettlement) -> Hashable:
    return settlement.message.id, settlement.message.holder
