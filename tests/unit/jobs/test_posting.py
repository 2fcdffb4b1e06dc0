"""Postings joined to what commits them: a job's end, a batch, an inbox message, a transaction."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

import offpath
from offpath import App, Context, JobState
from offpath.errors import DrainFailed
from offpath.events import InboxContext, InboxMessage
from offpath.jobs.values.classification import Verdict
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import STORED_VALUE
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.faults import (
    LedgerError,
    MalformedOperation,
    OperationDeclined,
    Overdraft,
    Unbalanced,
)
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.records import DeadReason
from offpath.store.memory import MemoryStore
from offpath.testing import FlakyStore, drain
from tests.servers import migrate
from tests.sqlite_files import migrated_url

ANN = "ann:spendable"


def top_up(name: str, amount: int) -> NewPosting:
    entries = (Entry(STORED_VALUE, amount), Entry(ANN, -amount))
    return NewPosting(id=name, entries=entries, meta={"kind": "topUp"})


def declining() -> LedgerOp:
    def decide(_: Book) -> None:
        raise Declined("INSUFFICIENT_FUNDS", need="CREDIT:4.00")

    return LedgerOp(decide=decide)  # type: ignore[arg-type]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("database_from_template")("schema", migrate))
    return "memory://" if request.param == "memory" else migrated_url(tmp_path / "jobs.db")


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    async with App(url, auto_start=False, migrate=True) as app:
        yield app


async def balance(app: App) -> int:
    found = await app.store().ledger_accounts(ids=[ANN])
    return found[0].balance if found else 0


class TestHandlers:
    async def test_a_posting_is_made_with_the_attempt_that_succeeds(self, app: App) -> None:
        @app.task(retry=offpath.RetryOptions(attempts=3, base=0))
        async def credit(ctx: Context, amount: int) -> int:
            ctx.post(top_up(f"{ctx.id}/credit", amount))
            ctx.post(top_up(f"{ctx.id}/bonus/{ctx.attempt}", 7))
            if ctx.attempt == 1:
                raise ConnectionError("the provider timed out")
            return amount

        handle = await credit.enqueue(500)
        await app.worker().run_until_idle()
        assert await handle.result(timeout=5) == 500
        assert await balance(app) == 507

    async def test_a_sync_handler_posts_too(self, app: App) -> None:
        @app.task
        def credit(ctx: Context) -> None:
            ctx.post(top_up(ctx.id, 500))

        await credit.enqueue()
        await app.worker().run_until_idle()
        assert await balance(app) == 500

    async def test_a_posting_that_does_not_go_is_the_attempts_failure(self, app: App) -> None:
        children: list[str] = []

        @app.task
        async def child() -> None:
            children.append("ran")

        @app.task(retry=offpath.RetryOptions(attempts=2, base=0))
        async def spend(ctx: Context) -> str:
            ctx.enqueue(child.job())
            ctx.post(top_up(f"{ctx.id}/good", 300))
            ctx.post(top_up(f"{ctx.id}/bad", -301))
            return "spent"

        handle = await spend.enqueue()
        await app.worker().run_until_idle()
        record = await app.jobs.get(handle.id)
        assert record.state is JobState.DEAD
        assert [one.type.rpartition(".")[2] for one in record.failures] == ["Overdraft"] * 2
        assert "CREDIT:3.01" in record.failures[-1].message
        assert children == []
        assert await balance(app) == 0

    async def test_a_job_succeeds_when_its_account_was_filled_meanwhile(self, app: App) -> None:
        @app.task(retry=offpath.RetryOptions(attempts=5, base=0))
        async def spend(ctx: Context) -> None:
            if ctx.attempt == 2:
                await app.post(top_up("filled", 300))
            ctx.post(top_up(ctx.id, -300))

        handle = await spend.enqueue()
        await app.worker().run_until_idle()
        assert (await app.jobs.get(handle.id)).attempt == 2
        assert await balance(app) == 0

    async def test_a_declined_operation_ends_the_job_at_once_with_its_reason(
        self, app: App
    ) -> None:
        @app.task(retry=offpath.RetryOptions(attempts=5, base=0))
        async def spend(ctx: Context) -> None:
            ctx.post(top_up(f"{ctx.id}/good", 300))
            ctx.post(declining())

        handle = await spend.enqueue()
        await app.worker().run_until_idle()
        record = await app.jobs.get(handle.id)
        assert (record.state, record.reason) == (JobState.DEAD, DeadReason.UNSETTLEABLE)
        (failure,) = record.failures
        assert failure.type.endswith("OperationDeclined")
        assert "INSUFFICIENT_FUNDS" in failure.message
        assert "CREDIT" not in failure.message
        assert await balance(app) == 0

    async def test_an_id_of_another_posting_ends_the_job_at_once(self, app: App) -> None:
        await app.post(top_up("bonus", 500))

        @app.task(retry=offpath.RetryOptions(attempts=5, base=0))
        async def credit(ctx: Context) -> None:
            ctx.post(top_up("bonus", 501))

        handle = await credit.enqueue()
        await app.worker().run_until_idle()
        record = await app.jobs.get(handle.id)
        assert (record.state, record.reason) == (JobState.DEAD, DeadReason.UNSETTLEABLE)
        assert [one.type.rpartition(".")[2] for one in record.failures] == ["KeyReused"]
        assert await balance(app) == 500

    async def test_a_posting_that_cannot_be_ends_the_job_unless_its_classifier_says_otherwise(
        self, app: App
    ) -> None:
        def again(_: BaseException, __: offpath.FailureInfo) -> Verdict:
            return offpath.RETRY

        @app.task(retry=offpath.RetryOptions(attempts=3, base=0))
        async def wrong(ctx: Context) -> None:
            ctx.post(NewPosting(id="a", entries=(Entry(ANN, 5),)))

        @app.task(retry=offpath.RetryOptions(attempts=3, base=0), on_failure=again)
        async def stubborn(ctx: Context) -> None:
            ctx.post(NewPosting(id="a", entries=(Entry(ANN, 5),)))

        def broken(_: BaseException, __: offpath.FailureInfo) -> Verdict:
            raise LookupError

        @app.task(retry=offpath.RetryOptions(attempts=3, base=0), on_failure=broken)
        async def unjudged(ctx: Context) -> None:
            ctx.post(NewPosting(id="a", entries=(Entry(ANN, 5),)))

        handles = [await one.enqueue() for one in (wrong, stubborn, unjudged)]
        await app.worker().run_until_idle()
        first, second, third = [await app.jobs.get(one.id) for one in handles]
        assert (third.reason, len(third.failures)) == (DeadReason.EXHAUSTED, 3)
        assert (first.reason, len(first.failures)) == (DeadReason.ABORTED, 1)
        assert (second.reason, len(second.failures)) == (DeadReason.EXHAUSTED, 3)
        assert "Unbalanced" in first.failures[0].type

    async def test_what_cannot_be_is_refused_where_it_is_written(self, app: App) -> None:
        seen: list[type[Exception]] = []

        @app.task
        async def wrong(ctx: Context) -> None:
            given = [
                NewPosting(id="a", entries=(Entry(ANN, 5),)),
                NewPosting(id="", entries=top_up("a", 5).entries),
                "CREDIT:5.00",
            ]
            for one in given:
                try:
                    ctx.post(one)  # type: ignore[arg-type]
                except LedgerError as error:
                    seen.append(type(error))

        await wrong.enqueue()
        await app.worker().run_until_idle()
        assert seen == [Unbalanced, MalformedOperation, MalformedOperation]
        assert await balance(app) == 0

    async def test_after_the_end_nothing_is_joined(self, app: App) -> None:
        contexts: list[Context] = []

        @app.task
        async def keep(ctx: Context) -> None:
            contexts.append(ctx)

        await keep.enqueue()
        await app.worker().run_until_idle()
        with pytest.raises(offpath.InvalidArgument):
            contexts[0].post(top_up("late", 5))

    async def test_one_that_begins_inline_posts_once(self, app: App) -> None:
        @app.task
        async def credit(ctx: Context) -> None:
            ctx.post(top_up(ctx.id, 500))

        handle = await credit.options(inline=True).enqueue()
        await handle.result(timeout=5)
        assert await balance(app) == 500

    async def test_a_snoozed_attempt_posts_and_its_repeat_changes_nothing(self, app: App) -> None:
        runs: list[int] = []

        @app.task
        async def credit(ctx: Context) -> None:
            runs.append(ctx.deliveries)
            ctx.post(top_up(ctx.id, 500))
            if len(runs) == 1:
                raise offpath.Snooze(0)

        await credit.enqueue()
        await app.worker().run_until_idle()
        assert runs == [1, 2]
        assert await balance(app) == 500

    async def test_an_inbox_message_and_its_posting_are_one(self, app: App) -> None:
        @app.inbox("stripe", attempts=1)
        async def apply(message: InboxMessage, ctx: InboxContext) -> None:
            ctx.post(top_up(message.id, message.payload["amount"]))

        good = await app.accept("stripe", "evt_1", {"amount": 500})
        bad = await app.accept("stripe", "evt_2", {"amount": -501})
        await app.drain("stripe").run_once()
        assert (await app.messages.get(good.id)).state == "done"
        assert (await app.messages.get(bad.id)).state != "done"
        assert await balance(app) == 500

    async def test_what_the_ledger_may_take_another_time_is_tried_again(self, app: App) -> None:
        @app.inbox("stripe", retry=offpath.RetryOptions(attempts=3, base=0))
        async def apply(message: InboxMessage, ctx: InboxContext) -> None:
            if message.attempt == 2:
                await app.post(top_up("filled", 300))
            ctx.post(top_up(message.id, -300))

        took = await app.accept("stripe", "evt_1")
        for _ in range(2):
            with contextlib.suppress(DrainFailed):
                await app.drain("stripe").run_once()
        record = await app.messages.get(took.id)
        assert (record.state, record.attempt) == ("done", 2)
        assert await balance(app) == 0

    @pytest.mark.parametrize("way", ["declined", "reused", "raised"])
    async def test_a_message_whose_posting_cannot_be_is_dead_at_once(
        self, app: App, way: str
    ) -> None:
        await app.post(top_up("bonus", 500))

        @app.inbox("stripe", retry=offpath.RetryOptions(attempts=3, base=0))
        async def apply(_: InboxMessage, ctx: InboxContext) -> None:
            posting = NewPosting(id="a", entries=(Entry(ANN, 5),)) if way == "raised" else None
            declined = declining() if way == "declined" else None
            ctx.post(posting or declined or top_up("bonus", 501))

        took = await app.accept("stripe", "evt_1")
        with contextlib.suppress(DrainFailed):
            await app.drain("stripe").run_once()
        record = await app.messages.get(took.id)
        assert (record.state, record.attempt) == ("dead", 1)
        assert await balance(app) == 500


class TestCallers:
    async def test_a_batch_is_all_or_nothing(self, app: App) -> None:
        @app.task
        async def child() -> None: ...

        async with app.batch() as batch:
            batch.enqueue(child.job())
            batch.post(top_up("a", 500))
        assert len(batch.handles) == 1
        assert await balance(app) == 500
        with pytest.raises(Overdraft):
            async with app.batch() as batch:
                batch.enqueue(child.job())
                batch.publish("told")
                batch.post(top_up("b", -501))
        with pytest.raises(offpath.InvalidArgument):
            batch.post(top_up("c", 5))
        assert await app.jobs.count() == 1
        assert (await app.messages.find()).items == ()
        assert await balance(app) == 500

    async def test_a_posting_alone_is_made_once(self, app: App) -> None:
        await app.post(top_up("a", 500))
        await app.post(top_up("a", 500))
        with pytest.raises(LedgerError):
            await app.post(top_up("a", 501))
        with pytest.raises(OperationDeclined, match="INSUFFICIENT_FUNDS") as no:
            await app.post(declining())
        assert no.value.reason == "INSUFFICIENT_FUNDS"
        assert await balance(app) == 500

    def test_the_blocking_client_posts(self, url: str) -> None:
        app = App(url, auto_start=False, migrate=True)
        with app.blocking as client:
            client.post(top_up("a", 500))
            with client.batch() as batch:
                batch.post(top_up("b", -100))
            assert client.run(lambda: balance(app)) == 400

    async def test_in_a_callers_transaction_it_comes_and_goes_with_that(
        self, tmp_path: Path
    ) -> None:
        place = tmp_path / "jobs.db"
        async with App(f"sqlite:///{place}", auto_start=False, migrate=True) as app:
            with closing(sqlite3.connect(place)) as connection:
                await app.post(top_up("a", 500), within=connection)
                connection.rollback()
                assert await balance(app) == 0
                await app.post(top_up("a", 500), within=connection)
                connection.commit()
            assert await balance(app) == 500


async def test_an_end_whose_answer_was_lost_posts_once() -> None:
    store = FlakyStore(MemoryStore())
    async with App(store=store, auto_start=False) as app:

        @app.task
        async def credit(ctx: Context) -> None:
            ctx.post(top_up(ctx.id, 500))

        store.lose_answer("settle")
        handle = await credit.enqueue()
        await drain(app)
        assert (await app.jobs.get(handle.id)).state is JobState.SUCCEEDED
        assert await balance(app) == 500
        assert (await app.store().ledger_counts()).postings == 1
