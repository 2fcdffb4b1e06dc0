"""The ledger's operations as effects: with whatever commits them, all of it or nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from offpath.errors import IdConflict
from offpath.model.effects import Effects
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.faults import LedgerError, Overdraft
from offpath.model.ledger.posting import NewPosting
from offpath.model.ledger.records import Receipt
from offpath.model.route import Decisions
from offpath.model.settlement import Retry, Settlement, SettleStatus, Snoozed, Succeeded
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import (
    add,
    die,
    exists,
    failure,
    join,
    new_job,
    record,
    start,
    take,
)
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    STORED_VALUE,
    balance,
    done,
    heads,
    move,
    op,
    plain,
    put,
    side,
)
from tests.conformance.log_builders import append_many, cursor_of, declare, event, read, seize
from tests.conformance.message_builders import find_all, finish, hand, message
from tests.conformance.message_builders import put as put_message

pytestmark = pytest.mark.needs("ledger")

Door = Callable[[Effects], Awaitable[Any]]


@pytest.fixture(params=["commit", "within", "within blocking"])
def door(request: pytest.FixtureRequest, store: Store, backend: Backend) -> Door:
    """A way to commit effects; the caller's transaction commits unless it raises."""
    if request.param == "commit":
        return store.commit
    if not store.capabilities.within:
        pytest.skip("there is no transaction to join")

    async def blocking(effects: Effects) -> None:
        with backend.transaction() as connection:
            store.commit_within_blocking(connection, effects)
            connection.commit()

    async def waiting(effects: Effects) -> None:
        async with backend.async_transaction() as connection:
            await store.commit_within(connection, effects)
            await connection.commit()

    return blocking if request.param == "within blocking" else waiting


def declining(posting: NewPosting) -> LedgerOp:
    """An operation that posts, and then declines."""

    def decide(book: Book) -> None:
        book.post(posting)
        raise Declined("INSUFFICIENT_FUNDS", need="CREDIT:4.00")

    return op(decide, accounts={ANN, STORED_VALUE})


class TestDoors:
    async def test_all_of_it_comes_to_be(self, store: Store, door: Door) -> None:
        job, told, inner = new_job(), message(), message()

        def decide(book: Book) -> Receipt:
            book.publish(inner)
            book.put(side("sale", "s", "SOLD"))
            return Receipt(id=book.post(move(-200)).id)

        selling = op(
            decide,
            "k",
            accounts={ANN, STORED_VALUE},
            sides={side("sale", "s", "SOLD").key},
        )
        effects = Effects(jobs=(job,), messages=(told,), operations=(plain(500), selling))
        await door(effects)
        assert await balance(store, ANN) == 300
        assert await exists(store, job.id)
        assert {one.id for one in await find_all(store)} == {told.id, inner.id}
        assert len(await store.ledger_sides("sale")) == 1
        assert await store.ledger_key("k") is not None

    async def test_a_repeat_of_the_same_ids_changes_nothing(self, store: Store, door: Door) -> None:
        effects = Effects(
            jobs=(new_job(),), messages=(message(),), operations=(plain(500), plain(-100))
        )
        await door(effects)
        before = await heads(store)
        await door(effects)
        assert await heads(store) == before
        assert await balance(store, ANN) == 400

    @pytest.mark.parametrize("place", [0, 1, 2])
    async def test_one_that_is_faulty_takes_all_with_it(
        self, store: Store, door: Door, place: int
    ) -> None:
        await done(store, plain(100))
        before = await heads(store)
        operations = [plain(50), plain(60)]
        operations.insert(place, plain(-1000))
        job = new_job()
        effects = Effects(
            jobs=(job,), messages=(message(),), log=(event(),), operations=tuple(operations)
        )
        with pytest.raises(Overdraft):
            await door(effects)
        assert await heads(store) == before
        assert not await exists(store, job.id)
        assert await find_all(store) == []

    async def test_one_that_is_declined_raises_with_its_reason(
        self, store: Store, door: Door
    ) -> None:
        job = new_job()
        with pytest.raises(LedgerError, match="INSUFFICIENT_FUNDS") as declined:
            await door(Effects(jobs=(job,), operations=(plain(500), declining(move(5)))))
        # An error's text ends up in logs and histories: it tells nobody's balance.
        assert "CREDIT" not in str(declined.value)
        assert await store.ledger_accounts() == []
        assert not await exists(store, job.id)

    async def test_an_error_of_the_rule_is_a_ledger_error(self, store: Store, door: Door) -> None:
        with pytest.raises(LedgerError, match="ZeroDivisionError"):
            await door(Effects(operations=(plain(500), op(lambda _: 1 / 0))))
        assert await store.ledger_accounts() == []

    async def test_a_job_that_is_refused_takes_the_postings_with_it(
        self, store: Store, door: Door
    ) -> None:
        job = new_job()
        await store.commit(Effects(jobs=(job,)))
        other = new_job(id=job.id, input='{"other":1}')
        with pytest.raises(IdConflict):
            await door(Effects(jobs=(other,), operations=(plain(500),)))
        assert await store.ledger_accounts() == []

    async def test_a_unique_row_of_somebody_else_takes_all_with_it(
        self, store: Store, door: Door
    ) -> None:
        await done(store, put(side("sale", "s", "SOLD", unique_key="k")))
        taking = put(side("sale", "t", "SOLD", unique_key="k"))
        with pytest.raises(LedgerError):
            await door(Effects(operations=(plain(500), taking)))
        assert await store.ledger_accounts() == []


class TestCallersTransaction:
    async def test_a_rollback_takes_everything(self, store: Store, caller: Backend) -> None:
        effects = Effects(
            jobs=(new_job(),), messages=(message(),), operations=(plain(500), plain(5, BOB))
        )
        async with caller.async_transaction() as connection:
            await store.commit_within(connection, effects)
            await connection.rollback()
        with caller.transaction() as connection:
            store.commit_within_blocking(connection, effects)
            connection.rollback()
        assert await store.ledger_accounts() == []
        assert await find_all(store) == []
        await store.commit(effects)
        assert await balance(store, ANN) == 500

    async def test_who_goes_on_after_a_refusal_commits_none_of_it(
        self, store: Store, caller: Backend
    ) -> None:
        job = new_job()
        with caller.transaction() as connection:
            with pytest.raises(Overdraft):
                store.commit_within_blocking(
                    connection, Effects(jobs=(job,), operations=(plain(500), plain(-501)))
                )
            connection.commit()
        assert await store.ledger_accounts() == []
        assert not await exists(store, job.id)

    async def test_two_calls_of_one_transaction_see_each_other(
        self, store: Store, caller: Backend
    ) -> None:
        with caller.transaction() as connection:
            store.commit_within_blocking(connection, Effects(operations=(plain(500),)))
            store.commit_within_blocking(connection, Effects(operations=(plain(-400),)))
            with pytest.raises(Overdraft):
                store.commit_within_blocking(connection, Effects(operations=(plain(-400),)))
            connection.commit()
        assert await balance(store, ANN) == 100
        assert await store.ledger_sums() == {"CREDIT": 0}


class TestSettlements:
    async def test_the_end_and_the_postings_are_one(self, store: Store) -> None:
        job = await start(store)
        effects = Effects(operations=(plain(500), plain(-100)))
        answers = await store.settle(
            [Settlement(job=job, outcome=Succeeded(), effects=effects, keep=60)]
        )
        assert answers[0].status is SettleStatus.APPLIED
        assert await balance(store, ANN) == 400

    async def test_a_fault_refuses_the_settlement_and_no_other(self, store: Store) -> None:
        await join(store)
        ids = [await add(store) for _ in range(4)]
        jobs = {job.id: job for job in await take(store)}
        first, bad, declined, last = (jobs[each] for each in ids)
        child = new_job()
        settlements = [
            Settlement(
                job=first, outcome=Succeeded(), effects=Effects(operations=(plain(500),)), keep=60
            ),
            Settlement(
                job=bad,
                outcome=Succeeded(),
                effects=Effects(jobs=(child,), operations=(plain(-300), plain(-300))),
                keep=60,
            ),
            Settlement(
                job=declined,
                outcome=Succeeded(),
                effects=Effects(operations=(declining(move(5)),)),
                keep=60,
            ),
            Settlement(
                job=last, outcome=Succeeded(), effects=Effects(operations=(plain(-450),)), keep=60
            ),
        ]
        answers = await store.settle(settlements)
        assert [one.status for one in answers] == [
            SettleStatus.APPLIED,
            SettleStatus.REFUSED,
            SettleStatus.REFUSED,
            SettleStatus.APPLIED,
        ]
        assert isinstance(answers[1].error, Overdraft)
        assert isinstance(answers[2].error, LedgerError)
        assert "INSUFFICIENT_FUNDS" in str(answers[2].error)
        assert await balance(store, ANN) == 50
        assert not await exists(store, child.id)
        assert (await record(store, bad.id)).state == "running"
        assert (await record(store, last.id)).state == "succeeded"

    async def test_one_that_was_refused_can_be_settled_otherwise(self, store: Store) -> None:
        job = await start(store)
        effects = Effects(operations=(plain(-300),))
        (answer,) = await store.settle([Settlement(job=job, outcome=Succeeded(), effects=effects)])
        assert answer.status is SettleStatus.REFUSED
        await die(store, job)

    async def test_a_lost_lease_posts_nothing(self, store: Store) -> None:
        job = await start(store)
        await die(store, job, keep=60)
        effects = Effects(operations=(plain(500),))
        (answer,) = await store.settle([Settlement(job=job, outcome=Succeeded(), effects=effects)])
        assert answer.status is SettleStatus.LEASE_LOST
        assert await store.ledger_accounts() == []

    async def test_a_cancelled_job_posts_nothing(self, store: Store) -> None:
        job = await start(store)
        await store.cancel([job.id])
        effects = Effects(operations=(plain(500), plain(-9000)))
        (answer,) = await store.settle(
            [Settlement(job=job, outcome=Succeeded(), effects=effects, keep=60)]
        )
        assert (answer.status, answer.state) == (SettleStatus.APPLIED, "cancelled")
        assert await store.ledger_accounts() == []

    async def test_outcomes_without_effects_post_nothing_and_snoozes_do(self, store: Store) -> None:
        await join(store)
        ids = [await add(store) for _ in range(2)]
        jobs = {job.id: job for job in await take(store)}
        failed, snoozed = (jobs[each] for each in ids)
        retry = Retry(delay=5, failure=failure())
        await store.settle(
            [
                Settlement(job=failed, outcome=retry, effects=Effects(operations=(plain(700),))),
                Settlement(
                    job=snoozed,
                    outcome=Snoozed(delay=5),
                    effects=Effects(operations=(plain(500),)),
                ),
            ]
        )
        assert await balance(store, ANN) == 500


class TestOtherDoors:
    async def test_a_message_and_the_postings_it_asks_for_are_one(self, store: Store) -> None:
        for _ in range(3):
            await put_message(store)
        good, bad, gone = await hand(store)
        answers = await store.settle_messages(
            [
                finish(good, effects=Effects(operations=(plain(500),))),
                finish(bad, effects=Effects(operations=(plain(-501),))),
                finish(gone, effects=Effects(operations=(plain(-400),))),
            ]
        )
        assert [one.status for one in answers] == [
            SettleStatus.APPLIED,
            SettleStatus.REFUSED,
            SettleStatus.APPLIED,
        ]
        assert isinstance(answers[1].error, Overdraft)
        assert await balance(store, ANN) == 100

    async def test_a_routers_step_and_its_postings_are_one(self, store: Store) -> None:
        await declare(store)
        await append_many(store, 2)
        cursor = await seize(store)
        page = await read(store)
        last = page.events[-1].position
        with pytest.raises(LedgerError):
            await store.advance(
                cursor,
                Decisions(position=last, passed=2, effects=Effects(operations=(plain(-1),))),
            )
        assert (await cursor_of(store)).position < last
        assert await store.ledger_accounts() == []
        step = Decisions(position=last, passed=2, effects=Effects(operations=(plain(500),)))
        assert await store.advance(cursor, step)
        assert await balance(store, ANN) == 500

    async def test_what_is_undone_is_posted_once(self, store: Store) -> None:
        job = await start(store)
        await store.put_undo(job, "a", "1")
        await die(store, job)
        with pytest.raises(LedgerError):
            await store.compensate(job.id, Effects(operations=(plain(-1),)))
        effects = Effects(operations=(plain(500),))
        assert await store.compensate(job.id, effects)
        assert not await store.compensate(job.id, effects)
        assert await balance(store, ANN) == 500
