"""Rows beside the postings: versions, unique keys, and the leases of those that are due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.model.ledger.book import Book
from offpath.model.ledger.records import STATES, SideKey, SideRow
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.ledger_builders import NOW, done, failed, look, op, put, side, write

pytestmark = pytest.mark.needs("ledger")


async def row(store: Store, kind: str, name: str) -> SideRow:
    """A row that is there."""
    (found,) = await store.ledger_sides(kind, ids=[name])
    return found


def payout(name: str, due: int | None = 0, **more: object) -> SideRow:
    """A payout that is due so many milliseconds after the test began."""
    due_at = None if due is None else NOW + due
    fields = {"state": "RESERVED", "owner": "ann", "amount": 500, **more}
    return SideRow(kind="payout", id=name, due_at=due_at, **fields)  # type: ignore[arg-type]


class TestRows:
    async def test_all_of_it_is_kept(self, store: Store) -> None:
        new = SideRow(
            kind="payout",
            id="p☃",
            owner="ann",
            state="SUBMITTED",
            due_at=NOW + 5,
            attempts=3,
            amount=2**62,
            anchor="txn_1",
            unique_key="k",
            touched_at=77,
            body='{"rate": "x", "n": [1, null]}',
        )
        await done(store, put(new))
        found = await row(store, "payout", "p☃")
        assert found == replace(new, version=1, created_at=NOW)
        seen = await look(store, lambda book: book.side("payout", "p☃"), sides={new.key})
        assert seen == found

    async def test_a_version_rises_with_every_write(self, store: Store, clock: ManualClock) -> None:
        await done(store, put(side("sale", "s", "SOLD")))
        clock.advance(1)
        await done(store, put(side("sale", "s", "SOLD", body='{"a":1}')))
        found = await row(store, "sale", "s")
        assert (found.version, found.created_at, found.touched_at) == (2, NOW, NOW + 1_000)
        twice = op(
            lambda book: [write(book, side("sale", "s", "SOLD")) for _ in range(2)],
            sides={SideKey("sale", "s")},
        )
        await done(store, twice)
        assert (await row(store, "sale", "s")).version == 4

    async def test_one_that_is_changed_keeps_when_it_was_touched_unless_told(
        self, store: Store, clock: ManualClock
    ) -> None:
        await done(store, put(side("promo", "p", "OPEN", touched_at=5)))
        clock.advance(1)

        def decide(book: Book) -> None:
            found = book.side("promo", "p")
            assert found is not None
            book.put(replace(found, state="DEAD"))

        await done(store, op(decide, sides={SideKey("promo", "p")}))
        found = await row(store, "promo", "p")
        assert (found.state, found.touched_at, found.created_at) == ("DEAD", 5, NOW)

    @pytest.mark.parametrize("kind", STATES)
    async def test_every_state_is_known(self, store: Store, kind: str) -> None:
        rows = [
            side(kind, state, state, amount=1 if kind == "payout" else None)
            for state in STATES[kind]
        ]
        await done(store, put(*rows))
        found = await store.ledger_sides(kind)
        assert sorted(one.state for one in found) == sorted(STATES[kind])

    async def test_another_state_or_kind_is_refused(self, store: Store) -> None:
        wrong = [side("sale", "s", "OPEN"), side("gift", "g", "SOLD")]
        assert await failed(store, *map(put, wrong)) == ["MalformedOperation"] * 2
        assert await store.ledger_sides("sale") == []
        assert await store.ledger_sides("gift") == []

    async def test_the_newest_of_an_owner(self, store: Store, clock: ManualClock) -> None:
        rows = [payout("a"), payout("b"), payout("c", owner="bob")]
        for each in rows:
            await done(store, put(each))
            clock.advance(1)

        async def newest(kind: str, owner: str) -> str | None:
            found: SideRow | None = await look(
                store, lambda book: book.newest(kind, owner), newest={SideKey(kind, owner)}
            )
            return None if found is None else found.id

        assert await newest("payout", "ann") == "b"
        assert await newest("promo", "ann") is None
        await done(store, put(payout("a")))
        assert await newest("payout", "ann") == "a"
        assert await newest("payout", "bob") == "c"

    async def test_owed_quotes_are_those_of_open_payouts(self, store: Store) -> None:
        await done(store, put(payout("a"), payout("b", amount=70, state="SUBMITTED")))
        assert (await store.ledger_totals()).quotes == 570
        await done(store, put(payout("a", state="SETTLED")))
        assert (await store.ledger_totals()).quotes == 70
        seen = await look(store, lambda book: book.totals(), totals=True)
        assert seen == await store.ledger_totals()


class TestUniqueKeys:
    async def test_one_row_of_a_kind_holds_it(self, store: Store) -> None:
        sale, gift = side("sale", "s", "SOLD", unique_key="k"), side("sale", "t", "SOLD")
        other = side("entitlement", "e", "OWNED", unique_key="k")
        await done(store, put(sale), put(other))
        assert await failed(store, put(replace(gift, unique_key="k"))) == ["InvalidTransition"]
        found = await look(
            store, lambda book: book.holder("sale", "k"), holders={SideKey("sale", "k")}
        )
        assert found.id == "s"
        await done(store, put(gift))

    async def test_who_gives_it_up_frees_it(self, store: Store) -> None:
        await done(store, put(side("sale", "s", "SOLD", unique_key="k")))
        give = op(lambda book: write(book, side("sale", "s", "SOLD")), sides={SideKey("sale", "s")})
        await done(store, give)
        await done(store, put(side("sale", "t", "SOLD", unique_key="k")))
        assert (await row(store, "sale", "t")).unique_key == "k"

    @pytest.mark.parametrize("names", ["st", "ts"])
    async def test_it_goes_from_row_to_row_in_one_batch(self, store: Store, names: str) -> None:
        one, two = list(names)
        await done(store, put(side("sale", one, "SOLD", unique_key="k")))
        await done(store, put(side("sale", two, "SOLD", unique_key="l")))
        both = {SideKey("sale", "k"), SideKey("sale", "l"), SideKey("sale", "free")}

        def swap(book: Book) -> None:
            write(book, side("sale", one, "SOLD"))
            write(book, side("sale", two, "SOLD", unique_key="k"))
            write(book, side("sale", one, "SOLD", unique_key="l"))

        rows = {SideKey("sale", one), SideKey("sale", two)}
        await done(store, op(swap, sides=rows, holders=both))
        assert (await row(store, "sale", one)).unique_key == "l"
        assert (await row(store, "sale", two)).unique_key == "k"

    async def test_of_rivals_one_gets_it(self, store: Store, rivals: tuple[Store, ...]) -> None:
        rows = [side("subscription", f"s{n}", "ACTIVE", unique_key="k") for n in range(12)]

        def take(new: SideRow) -> object:
            def decide(book: Book) -> None:
                if book.holder("subscription", "k") is None:
                    book.put(new)

            return rivals[int(new.id[1:]) % len(rivals)].post(
                [op(decide, sides={new.key}, holders={SideKey("subscription", "k")})]
            )

        await asyncio.gather(*(take(new) for new in rows))  # type: ignore[call-overload]
        found = await store.ledger_sides("subscription")
        assert [one.unique_key for one in found] == ["k"]


class TestLeases:
    async def test_the_longest_due_first_and_never_more_than_asked(self, store: Store) -> None:
        late = [payout("c", -5), payout("a", -1), payout("b", -1), payout("d", 0)]
        await done(store, put(*late, payout("e", 1), payout("f", None)))
        leased = await store.lease_sides("payout", limit=3, hold=60)
        assert [one.id for one in leased] == ["c", "a", "b"]
        leased = await store.lease_sides("payout", limit=3, hold=60)
        assert [one.id for one in leased] == ["d"]

    async def test_it_is_due_again_after_the_hold_and_a_version_older(
        self, store: Store, clock: ManualClock
    ) -> None:
        await done(store, put(payout("a")))
        (leased,) = await store.lease_sides("payout", limit=5, hold=2.5)
        assert (leased.version, leased.due_at, leased.attempts) == (2, NOW + 2_500, 0)
        assert await row(store, "payout", "a") == leased
        clock.advance(2.499)
        assert await store.lease_sides("payout", limit=5, hold=1) == []
        clock.advance(0.001)
        (again,) = await store.lease_sides("payout", limit=5, hold=1)
        assert again.version == 3
        stale, fresh = (
            op(_writes(replace(one, state="SUBMITTED")), sides={one.key}) for one in (leased, again)
        )
        assert await failed(store, stale) == ["InvalidTransition"]
        assert (await row(store, "payout", "a")).state == "RESERVED"
        await done(store, fresh)
        assert (await row(store, "payout", "a")).state == "SUBMITTED"

    async def test_by_a_time_of_the_callers(self, store: Store) -> None:
        await done(store, put(payout("a", 5_000)))
        assert await store.lease_sides("payout", limit=5, hold=1) == []
        assert await store.lease_sides("payout", limit=5, hold=1, now=NOW + 4_999) == []
        (leased,) = await store.lease_sides("payout", limit=5, hold=1, now=NOW + 5_000)
        assert leased.due_at == NOW + 6_000

    async def test_only_states_that_sweeps_look_at(self, store: Store) -> None:
        rows = [payout(state, state=state) for state in STATES["payout"]]
        rows += [side("promo", state, state, due_at=NOW) for state in STATES["promo"]]
        rows += [side("subscription", each, each, due_at=NOW) for each in STATES["subscription"]]
        await done(store, put(*rows))
        found = {
            kind: sorted(one.id for one in await store.lease_sides(kind, limit=9, hold=1))
            for kind in ("payout", "promo", "subscription")
        }
        assert found == {
            "payout": ["RESERVED", "SUBMITTED"],
            "promo": ["OPEN"],
            "subscription": ["ACTIVE"],
        }

    async def test_a_row_that_left_its_state_is_due_no_more(
        self, store: Store, clock: ManualClock
    ) -> None:
        await done(store, put(payout("a"), payout("b")))
        await done(store, put(payout("a", state="SETTLED")))
        await done(store, put(payout("b", 1_000)))
        clock.advance(0.999)
        assert await store.lease_sides("payout", limit=9, hold=1) == []
        clock.advance(0.001)
        assert [one.id for one in await store.lease_sides("payout", limit=9, hold=1)] == ["b"]

    async def test_kinds_that_are_never_due_are_refused(self, store: Store) -> None:
        with pytest.raises(InvalidArgument):
            await store.lease_sides("sale", limit=1, hold=1)

    async def test_no_two_callers_get_the_same_row(
        self, store: Store, rivals: tuple[Store, ...]
    ) -> None:
        await done(store, put(*(payout(f"p{n:03}", -n) for n in range(120))))
        leased: list[str] = []

        async def drain(one: Store) -> None:
            while found := await one.lease_sides("payout", limit=7, hold=60):
                leased.extend(each.id for each in found)

        await asyncio.gather(*map(drain, rivals))
        assert sorted(leased) == [f"p{n:03}" for n in range(120)]


def _writes(row: SideRow) -> Callable[[Book], SideRow]:
    return lambda book: book.put(row)
