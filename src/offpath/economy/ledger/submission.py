"""From a request to its outcome: check, authorise, pause, look up, plan, decide in a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from offpath.economy.ledger.batcher import Batcher, failure
from offpath.economy.ledger.operations.families import Operation, checked
from offpath.economy.ledger.operations.plans import (
    NOTHING_FURTHER,
    NOTHING_TO_SEE,
    Facts,
    Family,
    Lookup,
    Planning,
)
from offpath.economy.ledger.operations.undo_keys import again, posting_undone
from offpath.economy.ledger.outcome import Outcome, Rejected, outcome_of
from offpath.economy.ledger.rules import NewId, Rules
from offpath.economy.ledger.turns import Answer, TurnKeeper, parted, runs
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Decided, Declined, LedgerOp
from offpath.model.ledger.faults import LedgerError, StoreFailed, Unplanned
from offpath.model.ledger.posting import PostingRecord
from offpath.model.ledger.records import Receipt
from offpath.store.ledger import LedgerReads

PLANS: Final = 8
"""The number of times that an operation is planned anew, since what it needs came to be in the
meantime.
"""

MOST_GRANTS: Final = 1_000
"""Promo grants that are read at once."""
NO_HEADERS: Final = "{}"

Cleared = Callable[[str], Awaitable[bool]]
Opened = Callable[[], Awaitable[LedgerReads]]


class Submitting:
    """The parts that one economy submits by."""

    def __init__(
        self,
        rules: Rules,
        batcher: Batcher,
        *,
        opened: Opened,
        new_id: NewId,
        now: Callable[[], datetime],
        cleared: Cleared | None,
    ) -> None:
        self.rules = rules
        self.batcher = batcher
        self._opened = opened
        self._new_id = new_id
        self._now = now
        self._cleared = cleared
        self._plain = Planning(rules=rules, new_id=new_id)

    async def submit(self, request: Operation, headers: str = NO_HEADERS) -> Outcome:
        """``headers`` go with its messages, as JSON. Raises the ledger's faults."""
        family = checked(request, self.rules)
        if (until := self._paused(request)) is not None:
            return Rejected("ECONOMY_PAUSED", {"resumesAt": until})
        if family.look is None or family.late:  # no need to look: planned at once
            decided = await self.batcher.submit(_with(family.plan(request, self._plain), headers))
            if not isinstance(decided.error, Unplanned):
                return outcome_of(_normal(decided))
        return outcome_of(await self._decided(family, request, headers))

    async def submit_many(self, requests: Sequence[Operation]) -> list[Answer]:
        """Each has its own outcome or fault, and they are decided in this order. Of two with one
        key the second is refused.
        """
        fresh, answers = parted(requests)
        for some in runs(fresh):
            await self._in_turn(some, answers)
        return [answers[n] for n in range(len(requests))]

    async def _in_turn(self, run: dict[int, Operation], answers: dict[int, Answer]) -> None:
        """Decide the operations of a run in one go; from the first that has to be planned anew,
        behind what it does.
        """
        while run:
            ready = await asyncio.gather(*map(self._ready, run.values()))
            turn = TurnKeeper()
            given = [
                self.batcher.submit(turn.take(one)) if isinstance(one, LedgerOp) else one
                for one in ready
            ]
            waiting = [one for one in given if isinstance(one, asyncio.Future)]
            await asyncio.gather(*waiting, return_exceptions=True)
            found = dict(zip(run, map(_answer, given), strict=True))
            anew = [n for n, answer in found.items() if isinstance(answer, Unplanned)]
            answers |= found
            if anew:
                answers[anew[0]] = await self._alone(run[anew[0]])
            run = {n: run[n] for n in anew[1:]}

    async def prepare(self, request: Operation) -> LedgerOp:
        """The operation for somebody else's transaction.

        It is planned now. Should what it needs change until then, as when a sale is refunded that
        was not there yet, it answers with ``Unplanned`` there: prepare it again.
        """
        family = checked(request, self.rules)
        if (until := self._paused(request)) is not None:
            return _declining("ECONOMY_PAUSED", until)
        return await self._planned(family, request)

    async def run(self, op: LedgerOp) -> Decided:
        """One operation that is planned already."""
        return await self.batcher.submit(op)

    async def _ready(self, request: Operation) -> LedgerOp | Answer:
        """A plan, or what is known without one."""
        try:
            family = checked(request, self.rules)
            if (until := self._paused(request)) is not None:
                return Rejected("ECONOMY_PAUSED", {"resumesAt": until})
            if family.late:  # it answers with Unplanned when it needs more
                return family.plan(request, self._plain)  # type: ignore[no-any-return]  # as below
            return await self._planned(family, request)
        except LedgerError as fault:
            return fault

    async def _alone(self, request: Operation) -> Answer:
        try:
            return outcome_of(await self._decided(checked(request, self.rules), request))
        except LedgerError as fault:
            return fault

    async def _decided(
        self, family: Family, request: Operation, headers: str = NO_HEADERS
    ) -> Decided:
        for _ in range(PLANS):
            planned = _with(await self._planned(family, request), headers)
            decided = await self.batcher.submit(planned)
            if not isinstance(decided.error, Unplanned):
                return _normal(decided)
        raise StoreFailed(
            f"what the operation {request.key!r} needs changed {PLANS} times while it was planned: "
            "repeat it with the same key"
        )

    async def _planned(self, family: Family, request: Operation) -> LedgerOp:
        if family.look is None:
            return family.plan(request, self._plain)  # type: ignore[no-any-return]  # of any family
        lookup = family.look(request, self.rules)
        seen = NOTHING_TO_SEE if lookup is None else await self._seen(lookup)
        planning = Planning(rules=self.rules, new_id=self._new_id, seen=seen)
        planned: LedgerOp = family.plan(request, planning)
        return planned

    async def _seen(self, lookup: Lookup) -> Facts:
        cleared = True
        if lookup.payee is not None and self._cleared is not None:
            cleared = await self._cleared(lookup.payee)
        if lookup.side is None and lookup.posting is None and lookup.further is None:
            return Facts(cleared=cleared)
        try:
            return await self._read(lookup, cleared=cleared)
        except LedgerError:
            raise
        except Exception as error:
            raise failure(error) from error

    async def _read(self, lookup: Lookup, *, cleared: bool) -> Facts:
        store = await self._opened()
        side, posting = None, None
        if lookup.side is not None:
            kind, name = lookup.side
            rows = await store.ledger_sides(kind, ids=(name,), limit=1)
            side = rows[0] if rows else None
        if lookup.posting is not None:
            postings = await store.ledger_postings(ids=(lookup.posting,), limit=1)
            posting = postings[0] if postings else None
        pair = None if posting is None else await _pair(store, posting)
        further = NOTHING_FURTHER if lookup.further is None else lookup.further(side, posting)
        return Facts(
            side=side,
            posting=posting,
            pair=pair,
            cleared=cleared,
            undone_by={key: await _undone_by(store, key) for key in further.undoing},
            grants=await _grants(store, further.promos_of, further.promo_states),
            looked=True,
        )

    def _paused(self, request: Operation) -> int | None:
        """The time when users may go on, if this is a user's and they may not now."""
        start, end = self.rules.settings.pause_start, self.rules.settings.pause_end
        if start is None or end is None or request.actor.kind != "user":
            return None
        return round(end.timestamp() * 1_000) if start <= self._now() < end else None


async def _pair(store: LedgerReads, posting: PostingRecord) -> PostingRecord | None:
    """The other half of a posting that names one."""
    named = posting.facts.get("pair")
    found = await store.ledger_postings(ids=[named], limit=1) if isinstance(named, str) else []
    return found[0] if found else None


async def _undone_by(store: LedgerReads, first: str) -> tuple[str, ...]:
    """The postings that undid it in turn, to the last one that was not undone itself."""
    found: list[str] = []
    key: str | None = first
    while key is not None and (record := await store.ledger_key(key)) is not None:
        posting = record.receipt.id
        if posting is None or posting in found:
            break
        found.append(posting)
        undone = await store.ledger_key(posting_undone(posting))
        key = None if undone is None else again(posting)
    return tuple(found)


async def _grants(store: LedgerReads, user: str | None, states: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    after, page = "", MOST_GRANTS
    while user is not None and page == MOST_GRANTS:
        rows = await store.ledger_sides(
            "promo", owner=user, states=states, after=after, limit=MOST_GRANTS
        )
        found += [row.id for row in rows]
        page, after = len(rows), rows[-1].id if rows else ""
    return tuple(found)


def _normal(decided: Decided) -> Decided:
    """With an error that is a fault: what else was raised is an error of the store or of ours."""
    if decided.error is None or isinstance(decided.error, LedgerError):
        return decided
    return Decided(error=failure(decided.error))


def _answer(given: asyncio.Future[Decided] | Answer) -> Answer:
    """The outcome of one that was handed to the batcher, or what was known without it."""
    if not isinstance(given, asyncio.Future):
        return given
    try:
        return outcome_of(_normal(given.result()))
    except LedgerError as fault:
        return fault


def _declining(reason: str, until: int) -> LedgerOp:
    def decide(_: Book) -> Receipt:
        raise Declined(reason, resumesAt=until)

    return LedgerOp(decide=decide)


def _with(op: LedgerOp, headers: str) -> LedgerOp:
    return op if headers == NO_HEADERS else replace(op, headers=headers)
