"""The book: what one decision does is seen by the next, and what fails leaves no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offpath.model.ledger.book import Book, Loaded
from offpath.model.ledger.chart import STORED_VALUE
from offpath.model.ledger.decision import (
    Declined,
    LedgerOp,
    batch_wants,
    decide_all,
    decide_together,
)
from offpath.model.ledger.faults import (
    InvalidTransition,
    KeyReused,
    LedgerError,
    MalformedOperation,
    MoneyOverflow,
    Overdraft,
    Unbalanced,
    UnknownAccount,
    Unplanned,
)
from offpath.model.ledger.money import MOST
from offpath.model.ledger.needs import AttemptNeed, LotsNeed, Needs, RaisedNeed
from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import (
    AccountRecord,
    KeyRecord,
    Lot,
    Receipt,
    SideKey,
    SideRow,
    Totals,
)

NOW = 1_000_000
ANN = "ann:spendable"


def top_up(posting: str, amount: int, account: str = ANN, **meta: Any) -> NewPosting:
    return NewPosting(
        id=posting,
        entries=(Entry(STORED_VALUE, amount), Entry(account, -amount)),
        meta={"kind": "topUp", **meta},
    )


def op(decide: Callable[[Book], object], **needs: Any) -> LedgerOp:
    def deciding(book: Book) -> Receipt:
        decide(book)
        return Receipt()

    return LedgerOp(decide=deciding, needs=Needs(**needs))


def book(*operations: LedgerOp, **loaded: Any) -> Book:
    return Book(Loaded(wanted=batch_wants(operations, NOW), now=NOW, **loaded))


def errors(made: Book, *operations: LedgerOp) -> list[type[Exception] | None]:
    return [None if one.error is None else type(one.error) for one in decide_all(made, operations)]


def sale(name: str, key: str | None = None, **more: Any) -> SideRow:
    return SideRow(kind="sale", id=name, owner="ann", state="SOLD", unique_key=key, **more)


class TestPosting:
    def test_each_decision_sees_what_those_before_it_did(self) -> None:
        first, second = posting_op(top_up("a", 500)), posting_op(top_up("b", 200))
        made = book(first, second)
        assert errors(made, first, second) == [None, None]
        changed = {one.account.id: one for one in made.changes().accounts}
        assert changed[ANN].account.balance == 700
        assert changed[ANN].account.number == 2
        assert changed[ANN].was == 0
        assert [one.id for one in made.changes().postings] == ["a", "b"]

    def test_what_fails_leaves_no_trace(self) -> None:
        good, bad = posting_op(top_up("a", 500)), posting_op(top_up("b", -501))
        made = book(good, bad)
        assert errors(made, good, bad) == [None, Overdraft]
        assert made.balance(ANN) == 500
        assert [one.id for one in made.changes().postings] == ["a"]
        assert [one.key for one in made.changes().keys] == ["posting:a"]

    @pytest.mark.parametrize(
        ("entries", "error"),
        [
            ((), Unbalanced),
            ((Entry(ANN, 0),), Unbalanced),
            ((Entry(ANN, 5), Entry(STORED_VALUE, -4)), Unbalanced),
            ((Entry("platform:trust_cash", 5), Entry(ANN, -5)), Unbalanced),
            ((Entry("platform:trust_fund", 5), Entry(ANN, -5)), UnknownAccount),
            ((Entry(STORED_VALUE, MOST + 1), Entry(ANN, -MOST - 1)), MoneyOverflow),
        ],
    )
    def test_what_cannot_be_posted_is_refused_before_it_reaches_a_store(
        self, entries: tuple[Entry, ...], error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            posting_op(NewPosting(id="a", entries=entries))

    @pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 301, 7, None])
    def test_an_id_that_no_database_keeps_is_refused(self, name: Any) -> None:
        with pytest.raises(MalformedOperation):
            posting_op(top_up(name, 5))

    def test_sums_of_many_entries_stay_within_64_bits(self) -> None:
        equity = "platform:opening_equity"
        entries = (Entry(equity, MOST), Entry(equity, MOST), Entry(STORED_VALUE, -MOST))
        huge = NewPosting(id="a", entries=(*entries, Entry(STORED_VALUE, -MOST)))
        operation = posting_op(huge)
        deep = AccountRecord(id=equity, balance=-MOST)
        high = AccountRecord(id=STORED_VALUE, balance=MOST)
        assert errors(book(operation, accounts=(deep, high)), operation) == [MoneyOverflow]

    def test_an_id_is_one_posting_also_when_its_key_is_gone(self) -> None:
        operation = posting_op(top_up("a", 500))
        first = book(operation)
        decide_all(first, [operation])
        stored = first.changes().postings
        again = book(operation, postings=stored)
        assert decide_all(again, [operation])[0].duplicate
        assert not again.changes()
        other = posting_op(top_up("a", 501))
        assert errors(book(other, postings=stored), other) == [KeyReused]

    def test_what_is_not_asked_for_cannot_be_read_or_written(self) -> None:
        reads: list[Callable[[Book], object]] = [
            lambda it: it.balance(ANN),
            lambda it: it.side("sale", "x"),
            lambda it: it.holder("sale", "x"),
            lambda it: it.newest("sale", "ann"),
            lambda it: it.posting("x"),
            lambda it: it.recorded("x"),
            lambda it: it.raised(ANN, 5),
            lambda it: it.lots(ANN, 5),
            lambda it: it.totals(),
            lambda it: it.attempt("in:ann", "k", 5, 5),
            lambda it: it.put(sale("x")),
            lambda it: it.record("k", "", Receipt()),
            lambda it: it.post(top_up("x", 5)),
        ]
        operations = [op(read) for read in reads]
        assert errors(book(*operations), *operations) == [Unplanned] * len(reads)


class TestWindows:
    def test_lots_reach_as_far_as_the_balance_and_see_the_batch(self) -> None:
        seen: list[tuple[Lot, ...]] = []
        look = op(
            lambda it: seen.append(it.lots(ANN, NOW - 50)),
            accounts=frozenset({ANN}),
            lots=frozenset({LotsNeed(ANN, 50)}),
        )
        spend = posting_op(top_up("s", -400))
        more = posting_op(top_up("b", 100, source="card"))
        lots = (Lot(amount=300, at=NOW - 10), Lot(amount=300, at=NOW - 20))
        made = book(
            look,
            spend,
            more,
            accounts=(AccountRecord(id=ANN, balance=600, raised=600, number=2),),
            lots={ANN: lots},
        )
        assert errors(made, look, spend, look, more, look) == [None] * 5
        assert seen[0] == lots
        assert seen[1] == (Lot(amount=200, at=NOW - 10),)
        assert seen[2] == (Lot(amount=100, at=NOW, source="card"), Lot(amount=200, at=NOW - 10))

    def test_what_raised_an_account_counts_what_the_batch_did(self) -> None:
        seen: list[int] = []
        look = op(
            lambda it: seen.append(it.raised(ANN, NOW - 50)),
            raised=frozenset({RaisedNeed(ANN, 50)}),
        )
        up, down = posting_op(top_up("a", 100)), posting_op(top_up("b", -40))
        made = book(look, up, down, raised={(ANN, NOW - 50): 7})
        decide_all(made, [look, up, down, look])
        assert seen == [7, 107]

    def test_attempts_stay_when_the_operation_fails_and_count_once_by_key(self) -> None:
        seen: list[int] = []

        def attempt(key: str, amount: int) -> LedgerOp:
            def decide(it: Book) -> None:
                seen.append(it.attempt("out:ann", key, amount, NOW - 50))
                raise Declined("RISK_DENIED")

            return op(decide, attempts=frozenset({AttemptNeed("out:ann", 50, key)}))

        operations = [attempt("a", 10), attempt("b", 20), attempt("a", 10)]
        made = book(*operations, attempts={("out:ann", NOW - 50): 5})
        decide_all(made, operations)
        assert seen == [15, 35, 35]
        assert [one.total for one in made.changes().attempts] == [10, 30]

    def test_totals_follow_postings_and_owed_payouts(self) -> None:
        key = SideKey("payout", "p")
        payout = SideRow(kind="payout", id="p", owner="ann", state="RESERVED", amount=30)
        seen: list[Totals] = []
        look = op(lambda it: seen.append(it.totals()), totals=True)
        reserve = op(lambda it: it.put(payout), sides=frozenset({key}))
        broken = op(
            lambda it: (it.put(payout), it.balance("nobody:earned")), sides=frozenset({key})
        )
        up = posting_op(top_up("a", 100))
        made = book(look, reserve, broken, up, totals=Totals(balances={"spendable": 5}, quotes=9))
        decide_all(made, [broken, look, reserve, up, look])
        assert seen[0] == Totals(balances={"spendable": 5}, quotes=9)
        assert seen[1].quotes == 39
        assert seen[1].balances["spendable"] == 105


class TestRows:
    def test_versions_rise_and_the_newest_row_follows(self) -> None:
        def decide(it: Book) -> None:
            it.put(sale("x", touched_at=5))
            it.put(sale("y"))
            row = it.side("sale", "x")
            assert row is not None
            it.put(row)
            newest = it.newest("sale", "ann")
            assert newest is not None
            assert newest.id == "y"

        places = frozenset({SideKey("sale", "x"), SideKey("sale", "y")})
        operation = op(decide, sides=places, newest=frozenset({SideKey("sale", "ann")}))
        made = book(operation)
        assert errors(made, operation) == [None]
        assert [(one.row.id, one.row.version, one.was) for one in made.changes().sides] == [
            ("x", 2, 0),
            ("y", 1, 0),
        ]

    def test_a_unique_key_has_one_holder(self) -> None:
        needs: dict[str, Any] = {
            "sides": frozenset({SideKey("sale", "x"), SideKey("sale", "y")}),
            "holders": frozenset({SideKey("sale", "k")}),
        }
        take, steal = (
            op(lambda it: it.put(sale("x", "k")), **needs),
            op(lambda it: it.put(sale("y", "k")), **needs),
        )
        leave = op(lambda it: it.put(sale("x", version=1)), **needs)
        made = book(take, steal, leave)
        assert errors(made, take, steal, leave, steal) == [None, InvalidTransition, None, None]
        holder = made.holder("sale", "k")
        assert holder is not None
        assert holder.id == "y"

    def test_a_row_that_somebody_else_has_changed_is_not_overwritten(self) -> None:
        key = SideKey("sale", "x")
        stored = sale("x", version=3)
        writes = [op(lambda it, n=n: it.put(sale("x", version=n)), sides={key}) for n in (0, 2, 3)]  # type: ignore[misc]
        made = book(*writes, sides=(stored,))
        assert errors(made, *writes) == [InvalidTransition, InvalidTransition, None]
        assert [(one.was, one.row.version) for one in made.changes().sides] == [(3, 4)]

    def test_a_unique_key_has_to_be_asked_for(self) -> None:
        operation = op(lambda it: it.put(sale("x", "k")), sides=frozenset({SideKey("sale", "x")}))
        assert errors(book(operation), operation) == [Unplanned]

    def test_a_kind_or_state_that_there_is_not_is_refused(self) -> None:
        wrong = SideRow(kind="sale", id="x", owner="ann", state="OPEN")
        operation = op(lambda it: it.put(wrong), sides=frozenset({SideKey("sale", "x")}))
        assert errors(book(operation), operation) == [MalformedOperation]

    def test_a_key_is_recorded_once(self) -> None:
        record = op(lambda it: it.record("k", "f", Receipt()), keys=frozenset({"k"}))
        used = KeyRecord(key="k", fingerprint="f", receipt=Receipt(), at=5)
        assert errors(book(record, keys=(used,)), record) == [KeyReused]
        assert errors(book(record), record, record) == [None, KeyReused]


class TestTogether:
    def test_all_or_nothing(self) -> None:
        good, bad = posting_op(top_up("a", 500)), posting_op(top_up("b", -501))
        made = book(good, bad)
        with pytest.raises(Overdraft):
            decide_together(made, [good, bad])
        assert not made.changes()
        assert made.changes().accounts == ()
        assert [one.id for one in decide_together(made, [good])] == ["a"]
        assert made.balance(ANN) == 500

    def test_a_declined_one_is_an_error_that_tells_why(self) -> None:
        def decide(_: Book) -> None:
            raise Declined("INSUFFICIENT_FUNDS", need="CREDIT:4.00")

        operation = op(decide)
        with pytest.raises(LedgerError, match=r"declined: INSUFFICIENT_FUNDS$"):
            decide_together(book(operation), [operation])

    def test_an_error_of_the_program_is_a_ledger_error_too(self) -> None:
        operation = op(lambda _: 1 / 0)
        with pytest.raises(LedgerError, match="ZeroDivisionError") as raised:
            decide_together(book(operation), [operation])
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
