"""Postings on every backend: the same heads, the same refusals, and nothing of what fails."""

from __future__ import annotations

from typing import Any

import pytest

from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Declined, Repeat
from offpath.model.ledger.faults import Overdraft, Unbalanced
from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import GENESIS, Entry, NewPosting, verified
from offpath.model.ledger.records import Receipt
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START, fresh_id
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    NOW,
    STORED_VALUE,
    TRUST_CASH,
    USD_CLEARING,
    account,
    balance,
    done,
    failed,
    heads,
    look,
    move,
    op,
    plain,
    receipt_of,
    why,
)
from tests.conformance.message_builders import find_all, message

pytestmark = pytest.mark.needs("ledger")

USER = "usr_a:spendable"
FIRST = NewPosting(
    id="txn_1",
    entries=(Entry(STORED_VALUE, 500), Entry(USER, -500)),
    meta={"kind": "topUp", "source": "card"},
)
SECOND = NewPosting(
    id="txn_2",
    entries=(Entry(USER, 120), Entry(STORED_VALUE, -120)),
    meta={"kind": "x", "n": {"b": 1, "a": [True, None]}},
)
FIRST_HEAD = "7def6af40b6aeb12ce9449d4c70ccd959c12defcbac4685fb2f5a2c33fa1ea1d"
FIRST_HEAD_OF_STORED_VALUE = "e697e757d6df63660d15bc4985595902dd16984a642b378361f3a3a28dfadc1c"
SECOND_HEAD = "8051db4bed5d8d1f8cfd1e19583d5ca1e3dd32457d02012c44c3a1b33edac999"


class TestHeads:
    async def test_they_are_the_golden_vectors(self, store: Store) -> None:
        await done(store, posting_op(FIRST))
        assert (await account(store, USER)).head == FIRST_HEAD
        assert (await account(store, STORED_VALUE)).head == FIRST_HEAD_OF_STORED_VALUE
        await done(store, posting_op(SECOND))
        found = await account(store, USER)
        assert (found.head, found.number, found.balance, found.raised) == (SECOND_HEAD, 2, 380, 500)
        assert found.sum == -380

    async def test_they_are_the_same_in_one_batch(self, store: Store) -> None:
        await done(store, posting_op(FIRST), posting_op(SECOND))
        assert (await account(store, USER)).head == SECOND_HEAD

    async def test_a_link_has_what_its_hash_is_made_of(
        self, store: Store, clock: ManualClock
    ) -> None:
        clock.advance(0.25)
        await done(store, posting_op(FIRST))
        (link,) = await store.ledger_links(USER)
        assert (link.account, link.number, link.posting) == (USER, 1, "txn_1")
        assert (link.amount, link.entries, link.balance, link.raised) == (-500, (-500,), 500, 500)
        assert (link.prev, link.hash, link.source, link.at) == (
            GENESIS,
            FIRST_HEAD,
            "card",
            NOW + 250,
        )

    async def test_an_account_with_many_entries_of_a_posting_has_one_link(
        self, store: Store
    ) -> None:
        entries = (Entry(STORED_VALUE, 700), Entry(ANN, -500), Entry(ANN, -300), Entry(ANN, 100))
        await done(store, posting_op(NewPosting(id="a", entries=entries)))
        (link,) = await store.ledger_links(ANN)
        assert link.entries == (-500, -300, 100)
        assert (link.amount, link.raised) == (-700, 700)
        (posting,) = await store.ledger_postings(ids=["a"])
        assert verified(posting) == posting

    async def test_a_posting_that_moves_nothing_of_an_account_has_a_link_there(
        self, store: Store
    ) -> None:
        entries = (Entry(STORED_VALUE, 7), Entry(BOB, -7), Entry(ANN, -5), Entry(ANN, 5))
        await done(store, posting_op(NewPosting(id="a", entries=entries)))
        found = await account(store, ANN)
        assert (found.number, found.balance, found.raised) == (1, 0, 0)

    async def test_texts_of_metadata_come_back_as_they_were(self, store: Store) -> None:
        meta: dict[str, Any] = {
            "kind": "ü ☃ 𝄞",
            "\u007f": "\\ \" ' \n\t",
            "n": [2**53 - 1, -1, None, {}],
        }
        await done(store, posting_op(NewPosting(id="☃", entries=FIRST.entries, meta=meta)))
        (posting,) = await store.ledger_postings(ids=["☃"])
        assert posting.facts == meta
        assert verified(posting) == posting

    async def test_what_a_decision_reads_of_a_posting_hashes_to_its_links(
        self, store: Store
    ) -> None:
        await done(store, posting_op(FIRST))
        found = await look(store, lambda book: book.posting("txn_1"), postings={"txn_1"})
        assert found.entries == (FIRST.entries[0], FIRST.entries[1])
        assert found.facts == FIRST.meta
        assert found.seq > 0
        assert await look(store, lambda book: book.posting("txn_2"), postings={"txn_2"}) is None

    async def test_dollars_and_credits_balance_each_on_its_own(self, store: Store) -> None:
        entries = (*FIRST.entries, Entry(TRUST_CASH, 300), Entry(USD_CLEARING, -300))
        await done(store, posting_op(NewPosting(id="both", entries=entries)))
        assert await store.ledger_sums() == {"CREDIT": 0, "USD": 0}
        assert await balance(store, TRUST_CASH) == 300
        assert await balance(store, USD_CLEARING) == -300

    async def test_amounts_of_64_bits_are_kept_exactly(self, store: Store) -> None:
        most = 2**63 - 1
        await done(store, plain(most))
        assert await balance(store, ANN) == most
        assert await failed(store, plain(1)) == ["MoneyOverflow"]
        await done(store, plain(-most))
        assert await balance(store, ANN) == 0
        assert await failed(store, plain(1)) == ["MoneyOverflow"]  # of all that ever raised it


class TestRefusals:
    async def test_an_overdraft_posts_nothing(self, store: Store) -> None:
        await done(store, plain(400))
        before = await heads(store)
        assert await failed(store, plain(-401)) == ["Overdraft"]
        assert await heads(store) == before
        await done(store, plain(-400))
        assert await balance(store, ANN) == 0

    async def test_the_platform_may_go_below_zero_but_for_what_is_guarded(
        self, store: Store
    ) -> None:
        await done(store, plain(500, "platform:revenue"))
        await done(store, plain(-900, "platform:revenue"))
        assert await balance(store, "platform:revenue") == -400
        assert await balance(store, STORED_VALUE) == -400
        for name in ("platform:payout_reserve", "platform:settlement_accrual"):
            assert await failed(store, plain(-1, name)) == ["Overdraft"]

    async def test_one_that_fails_costs_the_others_nothing(self, store: Store) -> None:
        unbalanced = op(
            lambda book: book.post(NewPosting(id="u", entries=(Entry(ANN, 5),))), accounts={ANN}
        )
        unknown = op(lambda book: book.post(move(5, "nobody")), accounts={ANN, STORED_VALUE})
        meta = op(lambda book: book.post(move(5, f=1.5)), accounts={ANN, STORED_VALUE})
        errors = await failed(
            store, plain(500), unbalanced, unknown, meta, plain(-501), plain(-100)
        )
        assert errors == [
            None,
            "Unbalanced",
            "UnknownAccount",
            "MalformedOperation",
            "Overdraft",
            None,
        ]
        assert await balance(store, ANN) == 400
        assert (await store.ledger_counts()).postings == 2

    async def test_nothing_stays_of_a_declined_one(self, store: Store) -> None:
        def decide(book: Book) -> None:
            book.post(move(500))
            book.publish(message())
            book.record("inner", "", Receipt())
            raise Declined("INSUFFICIENT_FUNDS", need="CREDIT:4.00")

        operation = op(decide, "outer", accounts={ANN, STORED_VALUE}, keys={"inner"})
        (decided,) = await store.post([operation])
        assert decided.refusal == ("INSUFFICIENT_FUNDS", {"need": "CREDIT:4.00"})
        assert decided.receipt is None
        assert await store.ledger_accounts() == []
        assert await store.ledger_key("outer") is None
        assert await store.ledger_key("inner") is None
        assert await find_all(store) == []
        assert (await store.ledger_counts()).postings == 0

    async def test_an_error_of_the_rule_itself_is_its_own(self, store: Store) -> None:
        (broken, fine) = await store.post([op(lambda _: 1 / 0), plain(500)])
        assert isinstance(broken.error, ZeroDivisionError)
        assert receipt_of(fine).id is not None

    async def test_what_was_not_asked_for_is_unplanned(self, store: Store) -> None:
        await done(store, plain(500))
        operation = op(lambda book: book.balance(BOB), accounts={ANN})
        (decided,) = await store.post([operation])
        assert why(decided) == "Unplanned"
        assert decided.error is not None
        assert getattr(decided.error, "retryable", False)

    async def test_nothing_to_do_is_nothing(self, store: Store) -> None:
        assert await store.post([]) == []


class TestBatches:
    async def test_each_sees_what_those_before_it_did(self, store: Store) -> None:
        operations = [plain(500), plain(-300), plain(-300), plain(200), plain(-300)]
        assert await failed(store, *operations) == [None, None, "Overdraft", None, None]
        assert await balance(store, ANN) == 100

    async def test_what_it_publishes_is_in_the_outbox_once(self, store: Store) -> None:
        told = message()

        def decide(book: Book) -> Receipt:
            book.publish(told)
            return Receipt(id=book.post(move(500)).id)

        operation = op(decide, "k", accounts={ANN, STORED_VALUE})
        await done(store, operation, operation)
        await done(store, operation)
        assert [one.id for one in await find_all(store)] == [told.id]

    async def test_a_thousand_at_once(self, store: Store) -> None:
        users = [f"u{n}:spendable" for n in range(100)]
        await done(store, *(plain(n % 7 + 1, users[n % 100]) for n in range(1000)))
        counts = await store.ledger_counts()
        assert (counts.accounts, counts.postings, counts.links) == (101, 1000, 2000)
        total = sum(n % 7 + 1 for n in range(1000))
        assert await balance(store, STORED_VALUE) == total
        assert (await store.ledger_totals()).balances["spendable"] == total

    async def test_an_operation_is_decided_by_its_own_time_and_dated_by_the_stores(
        self, store: Store
    ) -> None:
        seen: list[int] = []

        def decide(book: Book) -> None:
            seen.append(book.now)
            book.post(move(500))

        needs = {ANN, STORED_VALUE}
        await done(store, op(decide, accounts=needs, now=77), op(decide, accounts=needs))
        assert seen == [77, NOW]
        assert [link.at for link in await store.ledger_links(ANN)] == [NOW, NOW]


class TestKeys:
    async def test_a_repeat_gets_the_receipt_and_changes_nothing(self, store: Store) -> None:
        facts = {"price": "CREDIT:4.00", "at": NOW, "parts": [1, {"a": None}], "ü": True}
        posting = move(500)

        def decide(book: Book) -> Receipt:
            return Receipt(id=book.post(posting).id, postings=(posting.id, "x"), facts=facts)

        operation = op(decide, "k", fingerprint="f", accounts={ANN, STORED_VALUE})
        (first,) = await store.post([operation])
        before = await heads(store)
        (again,) = await store.post([operation])
        assert (first.duplicate, again.duplicate) == (False, True)
        assert (
            first.receipt
            == again.receipt
            == Receipt(id=posting.id, postings=(posting.id, "x"), facts=facts)
        )
        assert await heads(store) == before
        record = await store.ledger_key("k")
        assert record is not None
        assert (record.fingerprint, record.receipt, record.at) == ("f", first.receipt, NOW)

    async def test_a_repeat_within_the_batch_is_one_too(self, store: Store) -> None:
        operation = op(lambda book: book.post(move(500)), "k", accounts={ANN, STORED_VALUE})
        decided = await store.post([operation, operation])
        assert [one.duplicate for one in decided] == [False, True]
        assert await balance(store, ANN) == 500

    async def test_another_operation_under_the_key_is_refused(self, store: Store) -> None:
        needs = {ANN, STORED_VALUE}
        first = op(lambda book: book.post(move(500)), "k", fingerprint="a", accounts=needs)
        other = op(lambda book: book.post(move(700)), "k", fingerprint="b", accounts=needs)
        assert await failed(store, first, other) == [None, "KeyReused"]
        assert await failed(store, other) == ["KeyReused"]
        assert await balance(store, ANN) == 500

    async def test_one_that_failed_frees_its_key(self, store: Store) -> None:
        posting = move(-300)

        def decide(book: Book) -> Receipt:
            return Receipt(id=book.post(posting).id)

        operation = op(decide, "k", accounts={ANN, STORED_VALUE})
        assert await failed(store, operation) == ["Overdraft"]
        await done(store, plain(300), operation)
        assert await balance(store, ANN) == 0

    async def test_a_decision_may_find_that_it_was_done_before(self, store: Store) -> None:
        def decide(_: Book) -> None:
            raise Repeat(Receipt(id="long ago"))

        (decided,) = await store.post([op(decide, "k")])
        assert (decided.receipt, decided.duplicate) == (Receipt(id="long ago"), True)
        assert await store.ledger_key("k") is None

    async def test_internal_keys_are_found_by_who_asks_for_them(self, store: Store) -> None:
        await done(store, op(lambda book: book.record("in", "f", Receipt(id="x")), keys={"in"}))
        found = await look(store, lambda book: book.recorded("in"), keys={"in"})
        assert found == Receipt(id="x")
        again = op(lambda book: book.record("in", "f", Receipt(id="y")), keys={"in"})
        assert await failed(store, again) == ["KeyReused"]

    async def test_a_posting_outlives_its_key(self, store: Store, clock: ManualClock) -> None:
        posting = move(500)
        await done(store, posting_op(posting))
        clock.advance(10)
        later = NOW + 5_000
        assert await store.prune_ledger(attempts_before=0, keys_before=later, limit=10) == 1
        (again,) = await store.post([posting_op(posting)])
        assert again.duplicate
        other = NewPosting(id=posting.id, entries=posting.entries, meta={"kind": "other"})
        assert await failed(store, posting_op(other)) == ["KeyReused"]
        assert await balance(store, ANN) == 500

    @pytest.mark.parametrize("error", [Unbalanced, Overdraft])
    async def test_an_id_of_a_failed_posting_can_be_used(
        self, store: Store, error: type[Exception]
    ) -> None:
        posting_id = fresh_id()
        entries = (Entry(ANN, 5),) if error is Unbalanced else move(-5).entries
        wrong = op(
            lambda book: book.post(NewPosting(id=posting_id, entries=entries)),
            accounts={ANN, STORED_VALUE},
        )
        assert await failed(store, wrong, plain(5, id=posting_id)) == [error.__name__, None]


async def test_the_stores_clock_dates_postings_to_the_millisecond(
    store: Store, clock: ManualClock
) -> None:
    clock.set(START)
    clock.advance(0.001999)
    await done(store, plain(5, id="a"))
    (posting,) = await store.ledger_postings(ids=["a"])
    assert posting.at == NOW + 1
