"""The counts of velocity limits, beside a plain list of attempts."""

from __future__ import annotations

import random

import pytest

from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.needs import AttemptNeed
from offpath.model.ledger.records import Receipt
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.ledger_builders import op

pytestmark = pytest.mark.needs("ledger")

WINDOW = 40
"""In milliseconds."""
SUBJECTS = ("in:ann", "out:ann", "out:bob")


class Tries:
    """The tries of one subject: since when each counts, and how much it is."""

    def __init__(self) -> None:
        self._tries: dict[str, tuple[int, int]] = {}

    def total(self, key: str, amount: int, now: int, *, goes: bool) -> int:
        """The sum that a try is judged by; one that goes counts from now on."""
        known = self._tries.get(key)
        if goes or known is None or known[0] <= now - WINDOW:
            self._tries[key] = now, amount
        return sum(amount for at, amount in self._tries.values() if at > now - WINDOW)


def attempt(subject: str, key: str, amount: int, seen: list[int], *, goes: bool) -> LedgerOp:
    def decide(book: Book) -> Receipt:
        seen.append(book.attempt(subject, key, amount, book.now - WINDOW))
        if not goes:
            raise Declined("RISK_DENIED")
        return Receipt()

    return op(decide, attempts={AttemptNeed(subject, WINDOW, key)})


@pytest.mark.parametrize("seed", range(4))
async def test_each_try_counts_once_at_its_first_time_or_when_it_goes(
    store: Store, clock: ManualClock, seed: int
) -> None:
    chance, now = random.Random(seed), 0
    model = {subject: Tries() for subject in SUBJECTS}
    for _ in range(60):
        expected, seen, batch = list[int](), list[int](), list[LedgerOp]()
        for _ in range(chance.randrange(1, 5)):
            subject, number = chance.choice(SUBJECTS), chance.randrange(8)
            goes = chance.random() < 0.5
            key, amount = f"k{number}", 10**number
            expected.append(model[subject].total(key, amount, now, goes=goes))
            batch.append(attempt(subject, key, amount, seen, goes=goes))
        await store.post(batch)
        assert seen == expected
        passed = chance.choice((0, 1, 5, 17, 39, 40))
        clock.advance(passed / 1_000)
        now += passed
        if chance.random() < 0.2:
            await store.prune_ledger(
                attempts_before=round(clock.now().timestamp() * 1_000) - WINDOW,
                keys_before=None,
                limit=99,
            )
