"""Income and attempts within a time: lots, sums and attempts, at their boundaries."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.needs import AttemptNeed, LotsNeed, RaisedNeed
from offpath.model.ledger.records import Lot
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START
from tests.conformance.ledger_builders import (
    ANN,
    NOW,
    done,
    failed,
    lots,
    op,
    plain,
    raised,
    tried,
)

pytestmark = pytest.mark.needs("ledger")


def lot(amount: int, after: int, source: str | None = None) -> Lot:
    """Of so many milliseconds after the test began."""
    return Lot(amount=amount, at=NOW + after, source=source)


class TestLots:
    async def test_newest_first_with_their_sources(self, store: Store, clock: ManualClock) -> None:
        await done(store, plain(100, source="card"))
        clock.advance(1)
        await done(store, plain(200), plain(300, source="bank"))
        clock.advance(1)
        found = await lots(store, ANN, 5_000)
        assert found == (lot(300, 1_000, "bank"), lot(200, 1_000), lot(100, 0, "card"))

    async def test_one_exactly_as_old_as_the_window_is_out(
        self, store: Store, clock: ManualClock
    ) -> None:
        await done(store, plain(100))
        clock.advance(0.999)
        assert await lots(store, ANN, 1_000) == (lot(100, 0),)
        clock.advance(0.001)
        assert await lots(store, ANN, 1_000) == ()

    async def test_they_reach_as_far_as_the_balance(self, store: Store, clock: ManualClock) -> None:
        for amount in (100, 200, 300):
            await done(store, plain(amount))
            clock.advance(1)
        await done(store, plain(-150))
        assert await lots(store, ANN, 60_000) == (lot(300, 2_000), lot(150, 1_000))
        await done(store, plain(-450))
        assert await lots(store, ANN, 60_000) == ()

    async def test_what_is_lowered_and_raised_again_is_new(
        self, store: Store, clock: ManualClock
    ) -> None:
        await done(store, plain(100), plain(-100))
        clock.advance(1)
        await done(store, plain(100))
        assert await lots(store, ANN, 60_000) == (lot(100, 1_000),)

    async def test_many_windows_of_one_account_in_a_batch(
        self, store: Store, clock: ManualClock
    ) -> None:
        await done(store, plain(100))
        clock.advance(1)
        await done(store, plain(200))
        clock.advance(1)
        seen: list[tuple[Lot, ...]] = []

        def window(back: int, now: int | None = None) -> LedgerOp:
            return op(
                lambda book: seen.append(book.lots(ANN, book.now - back)),
                accounts={ANN},
                lots={LotsNeed(ANN, back)},
                now=now,
            )

        await done(store, window(1_500), window(9_000), window(0), window(500, now=NOW + 400))
        short, long, none, early = seen
        assert short == (lot(200, 1_000),)
        assert long == (lot(200, 1_000), lot(100, 0))
        assert none == ()
        assert early == long  # by its own time, both came after it or just before

    async def test_an_account_that_nothing_touched_has_none(self, store: Store) -> None:
        assert await lots(store, ANN, 60_000) == ()


class TestRaised:
    async def test_what_came_in_after_a_time_whatever_went_out(
        self, store: Store, clock: ManualClock
    ) -> None:
        await done(store, plain(100))
        clock.advance(1)
        await done(store, plain(200), plain(-50), plain(40))
        clock.advance(1)
        assert await raised(store, ANN, 60_000) == 340
        assert await raised(store, ANN, 2_001) == 340
        assert await raised(store, ANN, 2_000) == 240
        assert await raised(store, ANN, 1_000) == 0
        assert await raised(store, ANN, 1_000, now=NOW + 1_001) == 240

    async def test_an_account_that_nothing_touched_has_zero(self, store: Store) -> None:
        assert await raised(store, ANN, 60_000) == 0

    async def test_the_batch_is_in_it(self, store: Store) -> None:
        seen: list[int] = []
        see = op(
            lambda book: seen.append(book.raised(ANN, book.now - 1_000)),
            raised={RaisedNeed(ANN, 1_000)},
        )
        await done(store, see, plain(100), plain(-30), see)
        assert seen == [0, 100]


class TestAttempts:
    async def test_a_window_slides_to_the_millisecond(
        self, store: Store, clock: ManualClock
    ) -> None:
        seen: list[int] = []
        await done(store, tried("out:ann", "a", 10, 1_000, seen))
        clock.advance(0.5)
        await done(store, tried("out:ann", "b", 20, 1_000, seen))
        clock.advance(0.499)
        await done(store, tried("out:ann", "c", 40, 1_000, seen))
        clock.advance(0.001)
        await done(store, tried("out:ann", "d", 80, 1_000, seen))
        clock.advance(60)
        await done(store, tried("out:ann", "e", 160, 1_000, seen))
        assert seen == [10, 30, 70, 140, 160]

    async def test_a_key_counts_once_within_its_window(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Tried again when it counts no more, it counts anew: else its repeat would be free."""
        seen: list[int] = []
        await done(store, tried("out:ann", "a", 10, 1_000, seen))
        await done(store, tried("out:ann", "a", 10, 1_000, seen))
        clock.advance(0.999)
        await done(store, tried("out:ann", "a", 10, 1_000, seen))
        clock.advance(0.001)
        await done(store, *(tried("out:ann", "a", 10, 1_000, seen) for _ in range(2)))
        await done(store, tried("out:ann", "b", 5, 60_000, seen))
        assert seen == [10, 10, 10, 10, 10, 15]

    async def test_what_is_tried_again_much_later_takes_the_place_of_the_old_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        seen: list[int] = []
        for key, amount in (("a", 1), ("b", 2), ("c", 4)):
            await done(store, tried("out:ann", key, amount, 1_000, seen))
            clock.advance(1)
        clock.advance(1)
        await done(
            store, tried("out:ann", "d", 8, 1_000, seen), tried("out:ann", "b", 2, 1_000, seen)
        )
        clock.advance(0.5)
        await done(store, tried("out:ann", "a", 1, 1_000, seen))
        assert seen == [1, 2, 4, 8, 10, 11]
        seen.clear()
        # d and b are of 4 s, a of 4.5 s.
        clock.advance(0.499)
        await done(store, tried("out:ann", "e", 16, 1_000, seen))
        clock.advance(0.001)
        await done(store, tried("out:ann", "f", 32, 1_000, seen))
        clock.advance(0.5)
        await done(store, tried("out:ann", "e", 16, 1_000, seen))
        assert seen == [27, 49, 48]

    async def test_subjects_and_directions_are_apart(self, store: Store) -> None:
        seen: list[int] = []
        await done(
            store,
            tried("out:ann", "a", 10, 1_000, seen),
            tried("in:ann", "a", 20, 1_000, seen),
            tried("out:bob", "a", 40, 1_000, seen),
        )
        assert seen == [10, 20, 40]

    async def test_they_stay_when_the_operation_is_declined_or_fails(self, store: Store) -> None:
        def trying(key: str, error: Exception) -> LedgerOp:
            def decide(book: Book) -> None:
                book.attempt("out:ann", key, 10, book.now - 1_000)
                raise error

            return op(decide, key, attempts={AttemptNeed("out:ann", 1_000, key)})

        seen: list[int] = []
        errors = await failed(
            store,
            trying("a", Declined("RISK_DENIED")),
            trying("b", ZeroDivisionError()),
            trying("a", Declined("RISK_DENIED")),
        )
        assert errors == ["RISK_DENIED", "ZeroDivisionError", "RISK_DENIED"]
        await done(store, tried("out:ann", "c", 1, 1_000, seen))
        assert seen == [21]

    async def test_those_of_one_batch_see_each_other(self, store: Store) -> None:
        seen: list[int] = []
        await done(store, *(tried("out:ann", str(n), 400, 9_000, seen) for n in range(5)))
        assert seen == [400, 800, 1200, 1600, 2000]

    async def test_a_clock_that_goes_back_dates_none_before_the_last_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        seen: list[int] = []
        await done(store, tried("out:ann", "a", 10, 1_000, seen))
        clock.set(START - timedelta(seconds=5))
        await done(store, tried("out:ann", "b", 20, 1_000, seen))
        clock.set(START)
        await done(store, tried("out:ann", "c", 40, 1_000, seen))
        assert seen == [10, 30, 70]

    async def test_windows_of_several_lengths_in_one_batch(
        self, store: Store, clock: ManualClock
    ) -> None:
        seen: list[int] = []
        await done(store, tried("out:ann", "a", 10, 1_000, seen))
        clock.advance(2)
        await done(
            store,
            tried("out:ann", "b", 20, 1_000, seen),
            tried("out:ann", "c", 40, 9_000, seen),
            tried("out:ann", "d", 80, 1_000, seen),
        )
        assert seen == [10, 20, 70, 140]
