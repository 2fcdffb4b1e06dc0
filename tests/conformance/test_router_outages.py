"""A router goes on as soon as the store is back, whatever an outage left of its last run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from offpath import App, StoreUnavailable
from offpath.events.router import Router
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store

pytestmark = pytest.mark.needs("log")


class Outage:
    """The store's answer to one operation is lost once, before or after it was carried out."""

    def __init__(self, store: Store, operation: str, *, after: bool) -> None:
        self.happened = False
        self._call = getattr(store, operation)
        self._after = after

    async def __call__(self, *args: Any, **options: Any) -> Any:
        if self.happened:
            return await self._call(*args, **options)
        self.happened = True
        if self._after:
            await self._call(*args, **options)
        raise StoreUnavailable("cut")


async def _router(app: App) -> Router:
    """An open router with two events of one key before it."""
    router = app.router("iu", domain="iu", start="beginning")
    router.route(deliver=lambda event: None, enabled=True, dry_run=False)
    await app.routers.open_gate()
    await router.open_gate()
    for number in range(2):
        await app.log.append("iu", "paid", "eu", {"n": number}, key="k")
    return router


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", ["lease_cursor", "release_cursor"])
async def test_a_run_after_an_outage_does_not_wait_for_the_lease_of_the_last_one(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, operation: str, after: bool
) -> None:
    app = App(store=store, clock=clock, auto_start=False)
    async with app:
        router = await _router(app)
        outage = Outage(store, operation, after=after)
        monkeypatch.setattr(store, operation, outage)
        with pytest.raises(StoreUnavailable):
            await router.run_once()
        assert outage.happened
        run = await router.run_once()
        assert run.stopped is None
        assert run.counts == ({"sent": 2} if operation == "lease_cursor" else {})
        (cursor,) = (await router.record()).cursors
        assert (cursor.holder, cursor.passed) == (None, 2)


async def test_a_run_that_is_cancelled_in_an_outage_is_cancelled(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(store=store, clock=clock, auto_start=False)
    async with app:
        router = await _router(app)
        lease_cursor, given = store.lease_cursor, asyncio.Event()

        async def unanswered(*args: Any, **options: Any) -> None:
            await lease_cursor(*args, **options)
            given.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(store, "release_cursor", Outage(store, "release_cursor", after=False))
        with monkeypatch.context() as patched:
            patched.setattr(store, "lease_cursor", unanswered)
            run = asyncio.ensure_future(router.run_once())
            await asyncio.wait_for(given.wait(), 10)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        assert (await router.run_once()).counts == {"sent": 2}
