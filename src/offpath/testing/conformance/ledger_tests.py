"""The tests of the ledger: money is moved once or not at all, and never made."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from offpath.model.effects import Effects
from offpath.model.job import JobState
from offpath.model.ledger.chart import STORED_VALUE
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.faults import Overdraft
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Checkpoint, Receipt, SideRow
from offpath.model.settlement import SettleStatus, Succeeded
from offpath.store.capabilities import Profile
from offpath.store.memory import MemoryStore
from offpath.testing.conformance.bench import START, Bench, contract

if TYPE_CHECKING:
    from offpath.model.ledger.book import Book
    from offpath.model.ledger.records import AccountRecord
    from offpath.store.protocol import Store

ANN: Final = "ann:spendable"
BOB: Final = "bob:spendable"


def moving(name: str, amount: int, *, giver: str = STORED_VALUE, taker: str = ANN) -> LedgerOp:
    """The operation that moves minor units from one account to another."""
    entries = (Entry(giver, amount), Entry(taker, -amount))
    return posting_op(NewPosting(id=name, entries=entries, meta={"kind": "kit"}))


async def balance(store: Store, account: str) -> int:
    """The balance of an account; 0 where nothing was ever posted to it."""
    return sum(each.balance for each in await store.ledger_accounts(ids=[account]))


class LedgerTests:
    """Postings, side rows and checkpoints."""

    @contract(Profile.LEDGER)
    async def test_a_posting_is_there_once_however_often_it_is_given(
        self, bench: Bench, store: Store
    ) -> None:
        name = bench.new_id()
        answers = [(await store.post([moving(name, 500)]))[0] for _ in range(2)]
        assert [each.duplicate for each in answers] == [False, True]
        assert answers[0].receipt == answers[1].receipt
        assert [await balance(store, each) for each in (ANN, STORED_VALUE)] == [500, 500]
        assert set((await store.ledger_sums()).values()) == {0}
        assert (await store.ledger_counts()).postings == 1

    @contract(Profile.LEDGER)
    async def test_what_would_overdraw_an_account_is_refused_and_costs_the_others_nothing(
        self, bench: Bench, store: Store
    ) -> None:
        first, more, less = (bench.new_id() for _ in range(3))
        await store.post([moving(first, 5)])
        taking = [moving(name, n, giver=ANN, taker=BOB) for name, n in ((more, 6), (less, 4))]
        refused, done = await store.post(taking)
        assert isinstance(refused.error, Overdraft)
        assert done.receipt is not None
        assert [await balance(store, each) for each in (ANN, BOB)] == [1, 4]
        assert [each.id for each in await store.ledger_postings()] == [first, less]

    @contract(Profile.LEDGER)
    async def test_each_link_seals_the_one_before_it_as_memory_does(
        self, bench: Bench, store: Store
    ) -> None:
        memory = MemoryStore(bench.clock)
        await memory.open()
        for number in range(1, 4):
            bench.clock.advance(1)
            for one in (store, memory):
                await one.post([moving(f"p{number}", 10 * number)])
                await one.post([moving(f"t{number}", number, giver=ANN, taker=BOB)])
        mine, right = [await one.ledger_accounts() for one in (store, memory)]
        assert _sealed(mine) == _sealed(right)
        assert await store.ledger_walk() == await memory.ledger_walk()
        await memory.close()

    @contract(Profile.LEDGER)
    async def test_money_moves_with_the_end_of_an_attempt_or_the_attempt_does_not_end(
        self, bench: Bench, store: Store
    ) -> None:
        job = await bench.start(store)
        poor = Effects(operations=(moving("t1", 1, giver=ANN, taker=BOB),))
        refused = await bench.end(store, job, Succeeded(), effects=poor)
        assert refused.status is SettleStatus.REFUSED
        assert (await bench.record(store, job.id)).state is JobState.RUNNING
        paid = Effects(operations=(moving("p1", 7),))
        assert (await bench.end(store, job, Succeeded(), effects=paid)).status is (
            SettleStatus.APPLIED
        )
        late = await bench.end(
            store, job, Succeeded(), effects=Effects(operations=(moving("p2", 7),))
        )
        assert late.status is SettleStatus.LEASE_LOST
        assert await balance(store, ANN) == 7

    @contract(Profile.LEDGER, shared=True)
    async def test_of_clients_that_spend_at_once_none_spends_what_is_not_there(
        self, bench: Bench, store: Store
    ) -> None:
        await store.post([moving("p1", 10)])
        clients = [store, await bench.another()]
        spent = await asyncio.gather(
            *(
                clients[number % 2].post([moving(f"t{number}", 1, giver=ANN, taker=BOB)])
                for number in range(16)
            )
        )
        assert sum(answer.receipt is not None for (answer,) in spent) == 10
        assert [await balance(store, each) for each in (ANN, BOB)] == [0, 10]

    @contract(Profile.LEDGER)
    async def test_a_due_row_is_handed_out_once_until_it_is_due_again(
        self, bench: Bench, store: Store
    ) -> None:
        due = round(START.timestamp() * 1000)
        row = SideRow(kind="payout", id="r1", owner="ann", state="RESERVED", due_at=due, amount=1)
        (written,) = await store.post([_writing(row)])
        assert written.error is None
        (leased,) = await store.lease_sides("payout", limit=10, hold=30.0)
        assert (leased.id, leased.version) == ("r1", 2)
        assert await store.lease_sides("payout", limit=10, hold=30.0) == []
        bench.clock.advance(30)
        assert len(await store.lease_sides("payout", limit=10, hold=30.0)) == 1

    @contract(Profile.LEDGER)
    async def test_a_checkpoint_follows_the_last_one_and_no_other(
        self, bench: Bench, store: Store
    ) -> None:
        one, two, other = (bench.new_id() for _ in range(3))
        chain = (one, None), (other, None), (two, one), (other, one)
        made = [await store.save_checkpoint(_sealing(name, prev), []) for name, prev in chain]
        assert made == [True, False, True, False]
        assert [each.id for each in await store.ledger_checkpoints()] == [two, one]


def _sealing(name: str, prev: str | None) -> Checkpoint:
    return Checkpoint(
        id=name, prev=prev, root="ab" * 32, signature="cd" * 64, count=1, v=3,
        at=round(START.timestamp() * 1000), sum=0, kid="k",
    )  # fmt: skip


def _sealed(accounts: list[AccountRecord]) -> dict[str, tuple[int, str, int]]:
    return {each.id: (each.number, each.head, each.balance) for each in accounts}


def _writing(row: SideRow) -> LedgerOp:
    """The operation that writes a new row."""

    def decide(book: Book) -> Receipt:
        book.put(row)
        return Receipt(id=row.id)

    return LedgerOp(decide=decide, needs=Needs(sides=frozenset({row.key})))
