"""The tests of writes in the caller's own transaction."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

from offpath.errors import Conflict, WrongConnection
from offpath.model.effects import Effects
from offpath.store.capabilities import Profile
from offpath.testing.conformance.bench import Bench, contract

if TYPE_CHECKING:
    from offpath.store.protocol import Store


class WithinTests:
    """Effects that are committed, or rolled back, with the caller's rows."""

    def transaction(self, url: str) -> AbstractContextManager[Any] | None:  # noqa: ARG002
        """A context with a blocking connection of the caller's to this place, in an open
        transaction: what is not committed at its end is rolled back. None: the tests are skipped.
        """
        return None

    def async_transaction(
        self,
        url: str,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[Any] | None:
        """The same with a connection whose methods are awaited."""
        return None

    @contract(Profile.WITHIN)
    async def test_jobs_come_with_the_callers_commit_and_not_before(
        self, bench: Bench, store: Store
    ) -> None:
        job = bench.job()
        with _offered(self.transaction(bench.url)) as connection:
            (answer,) = store.commit_within_blocking(connection, Effects(jobs=(job,)))
            assert answer.created
            assert [each.id for each in store.get_within_blocking(connection, [job.id])] == [job.id]
            assert await store.get([job.id]) == []
            connection.commit()
        assert (await bench.record(store, job.id)).id == job.id

    @contract(Profile.WITHIN)
    async def test_jobs_go_with_the_callers_rollback(self, bench: Bench, store: Store) -> None:
        job = bench.job()
        with _offered(self.transaction(bench.url)) as connection:
            store.commit_within_blocking(connection, Effects(jobs=(job,)))
            connection.rollback()
        assert await store.get([job.id]) == []
        await store.commit(Effects(jobs=(job,)))

    @contract(Profile.WITHIN)
    async def test_what_is_refused_leaves_nothing_in_a_transaction_that_goes_on(
        self, bench: Bench, store: Store
    ) -> None:
        taken, fresh, other = await bench.add(store), bench.job(), bench.job()
        with _offered(self.transaction(bench.url)) as connection:
            wrong = Effects(jobs=(fresh, bench.job(id=taken, input="1")))
            with pytest.raises(Conflict):
                store.commit_within_blocking(connection, wrong)
            store.commit_within_blocking(connection, Effects(jobs=(other,)))
            connection.commit()
        assert [each.id for each in await store.get([fresh.id, other.id])] == [other.id]

    @contract(Profile.WITHIN)
    async def test_an_awaited_connection_is_joined_too(self, bench: Bench, store: Store) -> None:
        job, gone = bench.job(), bench.job()
        context = self.async_transaction(bench.url)
        if context is None:
            pytest.skip("no connection is offered: see StoreConformance.async_transaction")
        async with context as connection:
            await store.commit_within(connection, Effects(jobs=(gone,)))
            await connection.rollback()
            await store.commit_within(connection, Effects(jobs=(job,)))
            found = await store.get_within(connection, [job.id, gone.id])
            await connection.commit()
        assert [each.id for each in found] == [job.id]
        assert [each.id for each in await store.get([job.id, gone.id])] == [job.id]

    @contract(Profile.WITHIN)
    async def test_what_is_not_a_connection_is_refused(self, bench: Bench, store: Store) -> None:
        with pytest.raises(WrongConnection):
            store.commit_within_blocking(object(), Effects(jobs=(bench.job(),)))


def _offered(context: AbstractContextManager[Any] | None) -> AbstractContextManager[Any]:
    if context is None:
        pytest.skip("no connection is offered: see StoreConformance.transaction")
    return context
