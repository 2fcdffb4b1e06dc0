"""The tests of calls that are cut off: each writes all or nothing, and may be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from offpath.errors import StoreError
from offpath.model.effects import Effects
from offpath.model.job import JobState
from offpath.model.lease import LeaseRequest
from offpath.model.settlement import Settlement, SettleStatus, Succeeded
from offpath.store.capabilities import Profile
from offpath.testing.conformance.bench import TASK, contract
from offpath.testing.conformance.ledger_tests import ANN, balance, moving

if TYPE_CHECKING:
    from offpath.store.protocol import Store
    from offpath.testing.conformance.bench import Bench

MOST_PLACES: Final = 100
"""Places in which a call is cut, one after the other, until it gets through."""
_LATER: Final = 1_000.0


class CutTests:
    """Calls that fail at each thing that they do. A backend offers the hook, or is skipped."""

    def cut(self, store: Store, at: int) -> AbstractContextManager[object] | None:  # noqa: ARG002
        """A context in which ``store`` fails at the thing number ``at`` that it does (a statement,
        a command, a write), counted from 0, and at nothing where it does fewer. None: the backend
        offers no such hook.
        """
        return None

    async def _was_cut(self, store: Store, at: int, call: Callable[[], Awaitable[object]]) -> bool:
        """Make a call that is cut; False if it got through."""
        context = self.cut(store, at)
        if context is None:
            pytest.skip("no fault hook is offered: see StoreConformance.cut")
        with context:
            try:
                await call()
            except StoreError:
                return True
        return False

    @contract()
    async def test_a_commit_that_is_cut_wrote_all_or_nothing_and_may_be_repeated(
        self, bench: Bench, store: Store
    ) -> None:
        for at in range(MOST_PLACES):
            effects = Effects(jobs=(bench.job(), bench.job()))
            ids = [job.id for job in effects.jobs]
            was_cut = await self._was_cut(store, at, partial(store.commit, effects))
            assert len(await store.get(ids)) in ({0, 2} if was_cut else {2})
            await store.commit(effects)
            assert len(await store.get(ids)) == 2
            if not was_cut:
                assert at > 0, "the hook cuts nothing"
                return
        pytest.fail(f"not through after {MOST_PLACES} places")

    @contract(Profile.LEDGER)
    async def test_a_posting_that_is_cut_moved_its_money_once_or_not_at_all(
        self, bench: Bench, store: Store
    ) -> None:
        for at in range(MOST_PLACES):
            moved = await balance(store, ANN)
            operation = moving(bench.new_id(), 1)
            was_cut = await self._was_cut(store, at, partial(store.post, [operation]))
            assert await balance(store, ANN) - moved in ({0, 1} if was_cut else {1})
            await store.post([operation])
            assert await balance(store, ANN) == moved + 1
            assert set((await store.ledger_sums()).values()) == {0}
            if not was_cut:
                return
        pytest.fail(f"not through after {MOST_PLACES} places")

    @contract()
    async def test_an_end_that_is_cut_is_written_with_its_effects_or_not_at_all(
        self, bench: Bench, store: Store
    ) -> None:
        for at in range(MOST_PLACES):
            job, child = await bench.start(store), bench.job(delay=_LATER)
            end = Settlement(job=job, outcome=Succeeded(), effects=Effects(jobs=(child,)))
            was_cut = await self._was_cut(store, at, partial(store.settle, [end]))
            ended = (await bench.record(store, job.id)).state is JobState.SUCCEEDED
            assert bool(await store.get([child.id])) is ended
            (again,) = await store.settle([end])
            assert again.status is (SettleStatus.LEASE_LOST if ended else SettleStatus.APPLIED)
            assert (await bench.record(store, job.id)).state is JobState.SUCCEEDED
            assert len(await store.get([child.id])) == 1
            if not was_cut:
                return
        pytest.fail(f"not through after {MOST_PLACES} places")

    @contract()
    async def test_a_lease_that_is_cut_loses_no_job(self, bench: Bench, store: Store) -> None:
        await bench.join(store)
        request = LeaseRequest(worker="w1", limit=1, tasks={TASK: 1})
        for at in range(MOST_PLACES):
            job = await bench.add(store)
            was_cut = await self._was_cut(store, at, partial(store.lease, request))
            if (await bench.record(store, job)).state is JobState.QUEUED:
                await bench.ask(store, limit=1)
            assert job in {each.id for each in await store.held("w1")}
            if not was_cut:
                return
        pytest.fail(f"not through after {MOST_PLACES} places")
