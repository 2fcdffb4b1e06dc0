"""Definitions of code in a rolling deploy: the newer one holds while its processes live."""

from __future__ import annotations

from offpath import App
from offpath.health.fleet import disputed
from offpath.jobs.schedules.ticker import Ticker
from offpath.model.declaration import EVERY, KEEP, LIVE
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store

K = "schedule"


async def test_the_newer_definition_holds_while_somebody_declares_it(
    store: Store, clock: ManualClock
) -> None:
    assert await store.declare(K, {"a": "old", "b": "same"}) == frozenset()
    clock.advance(1)
    assert await store.declare(K, {"a": "new", "b": "same"}) == frozenset()
    clock.advance(1)
    assert await store.declare(K, {"a": "old", "b": "same"}) == {"a"}, "it starts again"
    assert await store.declare("other", {"a": "old"}) == frozenset(), "another kind"
    clock.advance(LIVE)
    assert await store.declare(K, {"a": "old"}) == frozenset(), "a rollback"
    clock.advance(1)
    assert await store.declare(K, {"a": "new"}) == frozenset()
    assert await store.declare(K, {"a": "old"}) == {"a"}


async def test_of_two_that_were_declared_in_one_moment_one_holds(store: Store) -> None:
    await store.declare(K, {"a": "1"})
    await store.declare(K, {"a": "2"})
    assert await store.declare(K, {"a": "1"}) == {"a"}
    assert await store.declare(K, {"a": "2"}) == frozenset()


async def test_live_declarations_are_listed_and_old_ones_forgotten(
    store: Store, clock: ManualClock
) -> None:
    await store.declare(K, {"b": "1", "a": "1"})
    clock.advance(1)
    await store.declare(K, {"a": "2"})
    listed = await store.declarations(K)
    assert [(one.name, one.fingerprint) for one in listed] == [("a", "2"), ("a", "1"), ("b", "1")]
    assert (listed[0].last_seen - listed[1].first_seen).total_seconds() == 1
    clock.advance(LIVE)
    assert await store.declarations(K) == []
    clock.advance(KEEP)
    await store.declare(K, {"c": "1"})
    clock.advance(1)
    await store.declare(K, {"a": "3"})
    clock.advance(1)
    assert await store.declare(K, {"a": "1"}) == frozenset(), "it counts as new"


def _version(store: Store, clock: ManualClock, seconds: int) -> tuple[App, Ticker]:
    """A process of a version of the code, which makes a report every so many seconds."""
    app = App(store=store, clock=clock, auto_start=False)

    @app.task(name="report")
    async def report() -> None: ...

    app.schedule("report", report.job(), every=seconds)
    return app, _started(app, clock)


def _started(app: App, clock: ManualClock) -> Ticker:
    def fail(error: BaseException, phase: str) -> None:
        raise AssertionError(phase) from error

    return app.schedules.ticker(clock, fail, app.store())


async def _every(store: Store) -> int:
    (record,) = await store.schedules(("report",))
    return round(record.schedule.timing.seconds or 0)


async def test_an_old_process_that_starts_again_does_not_put_its_schedule_back(
    store: Store, clock: ManualClock
) -> None:
    old_app, old = _version(store, clock, 600)
    await old.step()
    clock.advance(EVERY)
    _, new = _version(store, clock, 900)
    await new.step()
    assert await _every(store) == 900
    clock.advance(EVERY)
    await _started(old_app, clock).step()
    await old.step()
    assert await _every(store) == 900


async def test_a_definition_that_an_older_process_put_late_is_put_right(
    store: Store, clock: ManualClock
) -> None:
    old_app, old = _version(store, clock, 600)
    await old.step()
    clock.advance(1)
    _, new = _version(store, clock, 900)
    await new.step()
    await store.put_schedule(old_app.schedules.definitions["report"], next_at=clock.now())
    clock.advance(EVERY)
    await new.step()
    assert await _every(store) == 900


async def test_a_rollback_holds_once_the_newer_processes_are_gone(
    store: Store, clock: ManualClock
) -> None:
    _, old = _version(store, clock, 600)
    await old.step()
    clock.advance(1)
    _, new = _version(store, clock, 900)
    await new.step()
    _, back = _version(store, clock, 600)
    await back.step()
    assert await _every(store) == 900
    clock.advance(LIVE + 1)
    await back.step()
    assert await _every(store) == 600


async def _said(store: Store) -> list[str]:
    """The doctor's findings about schedules that are not as live workers define them."""
    return list(disputed(await store.schedules(), await store.declarations(K)))


async def test_what_live_workers_define_otherwise_is_named(
    store: Store, clock: ManualClock
) -> None:
    old_app, old = _version(store, clock, 600)
    await old.step()
    assert await _said(store) == []
    clock.advance(1)
    _, new = _version(store, clock, 900)
    await new.step()
    (text,) = await _said(store)
    assert "report is defined in 2 ways" in text
    await store.put_schedule(old_app.schedules.definitions["report"], next_at=clock.now())
    (text,) = await _said(store)
    assert "report is not as the newest live workers define it" in text
    clock.advance(LIVE)
    await new.step()
    assert await _said(store) == []


async def test_a_schedule_that_was_deleted_stays_deleted_while_its_worker_runs(
    store: Store, clock: ManualClock
) -> None:
    _, ticker = _version(store, clock, 600)
    await ticker.step()
    assert await store.delete_schedule("report")
    clock.advance(EVERY)
    await ticker.step()
    assert await store.schedules() == []
