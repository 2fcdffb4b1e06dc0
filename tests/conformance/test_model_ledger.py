"""Random batches give the same answers, balances, heads and rows on every backend as in memory."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec import Struct
from msgspec.structs import replace

from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Decided, Declined, LedgerOp
from offpath.model.ledger.needs import AttemptNeed, LotsNeed, Needs, RaisedNeed
from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt, SideKey, SideRow
from offpath.model.ledger.trims import Trim
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.ledger_builders import NOW, STORED_VALUE, checkpoint, leaves, why
from tests.conformance.model_place import EXAMPLES, PHASES

pytestmark = pytest.mark.needs("ledger")

USERS = tuple(f"{name}:{kind}" for name in ("a", "b") for kind in ("spendable", "earned"))
ACCOUNTS = (*USERS, STORED_VALUE, "platform:payout_reserve", "platform:revenue")
BACKS = (0, 1, 500, 2_000, 60_000)


class Spend(Struct, frozen=True):
    """Moves an amount, counts an attempt, writes rows, and tells all that it saw."""

    number: int
    source: str
    target: str
    amount: int
    back: int
    key: str | None
    row: str
    unique: str | None
    declines: bool
    now: int | None

    def operation(self) -> LedgerOp:
        """The same on every store."""
        place, subject = SideKey("payout", self.row), f"out:{self.source}"
        holder = SideKey("payout", self.unique or "free")
        needs = Needs(
            accounts=frozenset((self.source, self.target)),
            sides=frozenset((place,)),
            holders=frozenset((holder,)),
            newest=frozenset((SideKey("payout", self.source),)),
            lots=frozenset((LotsNeed(self.source, self.back),)),
            raised=frozenset((RaisedNeed(self.source, self.back),)),
            attempts=frozenset((AttemptNeed(subject, self.back, f"{self.number % 7}"),)),
            totals=True,
        )
        return LedgerOp(
            decide=self._decide,
            needs=needs,
            key=self.key,
            fingerprint=self.target,
            now=self.now,
        )

    def _decide(self, book: Book) -> Receipt:
        since = book.now - self.back
        saw = {
            "lots": [] if not self.back else [str(one) for one in book.lots(self.source, since)],
            "raised": book.raised(self.source, since),
            "tried": book.attempt(f"out:{self.source}", f"{self.number % 7}", self.amount, since),
            "totals": {name: one for name, one in book.totals().balances.items() if one},
            "quotes": book.totals().quotes,
            "newest": str(book.newest("payout", self.source)),
        }
        if self.declines:
            raise Declined("NO", **saw)
        entries = (Entry(self.source, self.amount), Entry(self.target, -self.amount))
        made = book.post(NewPosting(id=f"p{self.number}", entries=entries, meta=saw))
        before = book.side("payout", self.row)
        row = before or SideRow(kind="payout", id=self.row, owner=self.source, state="RESERVED")
        state = ("RESERVED", "SUBMITTED", "SETTLED")[self.number % 3]
        due_at = NOW + self.amount * 10 if self.number % 2 else None
        book.put(
            replace(
                row,
                state=state,
                amount=self.amount,
                due_at=due_at,
                unique_key=self.unique,
                touched_at=book.posted_at + self.number,  # no two alike: which is newest is told
            )
        )
        return Receipt(id=made.id, facts=saw)


class TopUp(Struct, frozen=True):
    """A posting on its own."""

    number: int
    account: str
    amount: int

    def operation(self) -> LedgerOp:
        """The same on every store."""
        entries = (Entry(STORED_VALUE, self.amount), Entry(self.account, -self.amount))
        meta = {"source": "card"} if self.number % 2 else {}
        return posting_op(NewPosting(id=f"t{self.number % 20}", entries=entries, meta=meta))


class Pass(Struct, frozen=True):
    """Time goes on, and what else there is to do is done."""

    seconds: float
    prune: bool
    seal: bool
    trim: bool = False
    """By the checkpoint before the one that is sealed now, two steps of it."""


@st.composite
def spends(draw: DrawFn, number: int) -> Spend:
    """A random operation."""
    source = draw(st.sampled_from(ACCOUNTS))
    return Spend(
        number=number,
        source=source,
        target=draw(st.sampled_from([one for one in ACCOUNTS if one != source])),
        amount=draw(st.integers(1, 120)),
        back=draw(st.sampled_from(BACKS)),
        key=draw(st.sampled_from([None, None, "k1", "k2", "k3"])),
        row=draw(st.sampled_from(["r1", "r2", "r3", "r4"])),
        unique=draw(st.sampled_from([None, None, "u1", "u2"])),
        declines=draw(st.integers(0, 5)) == 0,
        now=draw(st.sampled_from([None, None, NOW, NOW + 1_500])),
    )


@st.composite
def streams(draw: DrawFn) -> list[Any]:
    """Batches of operations, with time between them."""
    steps: list[Any] = []
    number = 0
    for _ in range(draw(st.integers(1, 8))):
        batch: list[Any] = []
        for _ in range(draw(st.integers(1, 6))):
            number += 1
            if draw(st.booleans()):
                batch.append(draw(spends(number)))
            else:
                account, amount = draw(st.sampled_from(USERS)), draw(st.integers(1, 200))
                batch.append(TopUp(number, account, amount))
        steps.append(batch)
        if draw(st.booleans()):
            seconds = draw(st.sampled_from([0.001, 0.5, 1.0, 3.0]))
            steps.append(Pass(seconds, *(draw(st.booleans()) for _ in range(3))))
    return steps


async def _run(store: Store, clock: ManualClock, steps: list[Any]) -> list[Any]:
    """All that is told on the way, and all that is there at the end."""
    told: list[Any] = []
    sealed: str | None = None
    for n, step in enumerate(steps):
        if isinstance(step, Pass):
            clock.advance(step.seconds)
            now = int(clock.now().timestamp() * 1000)
            told.append(await store.lease_sides("payout", limit=2, hold=0.5))
            if step.prune:
                before = now - 1_000
                told.append(
                    await store.prune_ledger(attempts_before=before, keys_before=None, limit=99)
                )
            if step.seal:
                found = await store.ledger_accounts()
                told.append(
                    await store.save_checkpoint(
                        checkpoint(f"c{n}", prev=sealed, posting=await store.ledger_last()),
                        leaves(found[:: n % 2 + 1]),
                    )
                )
                sealed = f"c{n}"
            if step.trim:
                told.append(await _trimmed(store, n))
            continue
        decided = await store.post([one.operation() for one in step])
        told.extend(map(_told, decided))
    return [told, await _held(store)]


async def _trimmed(store: Store, n: int) -> Any:
    """Some of the trim that is under way, or of a new one by the last checkpoint."""
    trims, sealed = await store.ledger_trims(), await store.ledger_checkpoints(limit=1)
    begun = False
    if sealed and (not trims or trims[0].finished):
        trim = Trim(
            number=len(trims) + 1,
            checkpoint=sealed[0].id,
            posting=sealed[0].posting or 0,
            until=n,
            at=n,
            file=f"{n}.gz",
            archive="ab",
            kept="cd",
            kid="k",
            signature="s",
        )
        await store.keep_postings(trim.number, [f"p{n}", f"t{n}", "none"])
        kept = await store.ledger_retired(trim=trim.number)
        begun = await store.begin_trim(trim, keeps=len(kept))
    return begun, [await store.trim_postings(limit=2) for _ in range(2)]


def _told(decided: Decided) -> Any:
    return why(decided), decided.duplicate, decided.receipt, decided.refusal


async def _held(store: Store) -> list[Any]:
    totals, postings = await store.ledger_totals(), await store.ledger_postings()
    return [
        await store.ledger_accounts(),
        await store.ledger_walk(),
        [replace(one, seq=0) for one in postings],
        await store.ledger_sides("payout"),
        [await store.ledger_key(key) for key in ("k1", "k2", "k3")],
        ({name: one for name, one in totals.balances.items() if one}, totals.quotes),
        await store.ledger_sums(),
        await store.ledger_counts(),
        await store.ledger_leaves(),
        await store.ledger_moved(),
        await store.ledger_checkpoints(),
        await _gone(store),
    ]


async def _gone(store: Store) -> list[Any]:
    trims = await store.ledger_trims()
    names = [f"{kind}{n}" for kind in "pt" for n in range(1, 50)]
    retired = await store.ledger_retired(ids=names)
    whole = {one.id: one for one in await store.ledger_postings(ids=names)}
    kept = [one for trim in trims for one in await store.ledger_retired(trim=trim.number)]
    ends = [until for trim in trims for until in (trim.posting, trim.done)]
    return [
        trims,
        [replace(one, posting=one.posting and replace(one.posting, seq=0)) for one in retired],
        [(one.id, one.file) for one in kept],
        [replace(whole[name], seq=0) for name in sorted(whole)],
        [await store.ledger_standings(until) for until in ends],
        [await store.ledger_standings(until, ids=ACCOUNTS[:2]) for until in ends],
    ]


class Place:
    """The place of the other store: a ledger cannot be emptied by calls of the store."""

    def __init__(self, backend: Backend, clock: ManualClock, folder: Path) -> None:
        self._backend = backend
        self._clock = clock
        self._folder = folder
        self._numbers = itertools.count()
        self._store: Store | None = None

    async def empty_store(self) -> Store:
        """A store on a place without a row; the same one where that can be swept."""
        place = self._backend.emptied(self._folder / f"{next(self._numbers)}.db")
        if self._store is not None and place == self._backend:
            return self._store
        await self.close()
        self._backend, self._store = place, place.store(self._clock)
        await self._store.open()
        return self._store

    async def close(self) -> None:
        """Close the store, if one was opened."""
        if self._store is not None:
            await self._store.close()
            self._store = None


@pytest.mark.timeout(600)
def test_every_store_keeps_the_same_books_as_memory(
    backend: Backend, clock: ManualClock, tmp_path: Path
) -> None:
    if backend.name == "memory":
        pytest.skip("it is what the others are compared with")
    place, start = Place(backend, clock, tmp_path), clock.now()

    async def run(steps: list[Any]) -> list[Any]:
        clock.set(start)
        return await _run(await place.empty_store(), clock, steps)

    async def run_in_memory(steps: list[Any]) -> list[Any]:
        own = ManualClock(start)
        return await _run(MemoryStore(own), own, steps)

    @settings(
        max_examples=EXAMPLES,
        phases=PHASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(streams())
    def compare(steps: list[Any]) -> None:
        told, held = runner.run(run(steps))
        expected_told, expected_held = runner.run(run_in_memory(steps))
        for at, (one, two) in enumerate(zip(told, expected_told, strict=True)):
            assert one == two, at
        for at, (one, two) in enumerate(zip(held, expected_held, strict=True)):
            assert one == two, at

    with asyncio.Runner() as runner:
        try:
            compare()
        finally:
            runner.run(place.close())
