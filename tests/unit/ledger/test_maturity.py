"""The waiting sum of an account, through any order of earning, paying out and failing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offpath.economy.ledger.operations.maturity import (
    MOST_SEALED,
    Young,
    _sealed,
    return_source,
    returned,
    young,
)
from offpath.economy.ledger.rules import RETURNED, rules_of
from offpath.economy.ledger.settings import EconomySettings
from offpath.model.ledger.book import Book, Loaded
from offpath.model.ledger.chart import PAYOUT_RESERVE, STORED_VALUE, earned
from offpath.model.ledger.needs import LotsNeed, Needs, wanted
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.rates import Rates

WAIT = 10
RULES = rules_of(EconomySettings(maturity_default=WAIT / 1_000), Rates())
WALLET = earned("sel")


def book() -> Book:
    need = Needs(
        accounts=frozenset((WALLET, PAYOUT_RESERVE, STORED_VALUE)),
        lots=frozenset((LotsNeed(WALLET, WAIT),)),
    )
    return Book(Loaded(wanted=wanted([(need, 0)]), now=0))


def post(made: Book, number: int, other: str, amount: int, source: str | None = None) -> None:
    meta = {} if source is None else {"source": source}
    entries = (Entry(other, amount), Entry(WALLET, -amount))
    made.post(NewPosting(id=f"p{number}", entries=entries, meta=meta))


moves = st.lists(
    st.tuples(st.sampled_from(("earn", "take", "fail", "wait")), st.integers(1, 9)), max_size=40
)


@given(moves)
def test_it_is_as_if_what_came_back_had_never_left(steps: list[tuple[str, int]]) -> None:
    """§17.12"""
    made = book()
    open_payouts: list[int] = []
    # The truth: lots by age, what is returned being the oldest.
    lots: list[tuple[int, int]] = []
    for number, (step, size) in enumerate(steps):
        if step == "wait":
            made.now += size
            made.posted_at += size
        elif step == "earn":
            post(made, number, STORED_VALUE, size)
            lots.append((made.now + WAIT, size))
        elif step == "fail" and open_payouts:
            amount = open_payouts.pop()
            post(made, number, PAYOUT_RESERVE, amount, return_source(young(made, RULES, WALLET)))
            lots.insert(0, (0, amount))
        elif step == "take":
            usable = sum(amount for at, amount in lots if at <= made.now)
            if size <= usable:
                post(made, number, PAYOUT_RESERVE, -size)
                open_payouts.append(size)
                lots = taken(lots, size)
        waits = sum(amount for at, amount in lots if at > made.now)
        assert sum(one.amount for one in young(made, RULES, WALLET)) == waits


def taken(lots: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    left = []
    for at, amount in lots:
        cut = min(amount, size)
        size -= cut
        if amount > cut:
            left.append((at, amount - cut))
    return left


def test_many_waiting_lots_are_sealed_together_by_the_latest_time() -> None:
    waiting = [Young(1, 100 - n, None) for n in range(MOST_SEALED + 5)]
    source = return_source(waiting)
    assert returned(source)
    assert len(source) < 2_000
    found = _sealed(source, 1_000, 0)
    assert sum(one.amount for one in found) == MOST_SEALED + 5
    assert found[-1] == Young(5, 100 - MOST_SEALED, None)


def test_only_a_returns_source_is_one() -> None:
    assert returned(RETURNED)
    assert not returned("payout_returns")
    assert not returned("card")
    assert not returned(None)
