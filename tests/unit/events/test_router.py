"""A router gives each event one decision, and one event's trouble stays its own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import offpath
from offpath.errors import Conflict, InvalidArgument, UniqueConflict
from offpath.events.deliveries import Outbox, RoutedEvent
from offpath.events.router import Router
from offpath.model.effects import Effects
from offpath.model.message import MessageFilter
from offpath.model.new import Box
from offpath.model.route import Attempt, AttemptStatus, LogEvent
from offpath.model.unsent import unsent
from offpath.runtime.clock import ManualClock

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def app(clock: ManualClock) -> offpath.App:
    return offpath.App("memory://", clock=clock, auto_start=False)


async def _opened(app: offpath.App, *routers: Router) -> None:
    await app.routers.open_gate()
    for router in routers:
        await router.open_gate()


async def _append(app: offpath.App, count: int, *, kind: str = "paid") -> list[str]:
    return [
        await app.log.append("iu", kind, "eu", {"n": number}, key=f"k{number % 3}")
        for number in range(count)
    ]


async def _attempts(app: offpath.App, router: str = "iu") -> list[Attempt]:
    return await app.store().attempts(router, limit=1_000)


def _live(router: Router, deliver: object, **parts: str) -> None:
    router.route(deliver=deliver, enabled=True, dry_run=False, **parts)


async def test_closed_gates_are_a_clean_nothing_that_says_which(app: offpath.App) -> None:
    router = app.router("iu", domain="iu", start="beginning")
    async with app:
        await _append(app, 2)
        assert (await router.run_once()).stopped == "gate: master"
        await app.routers.open_gate()
        assert (await router.run_once()).stopped == "gate: iu"
        await router.open_gate()
        assert (await router.run_once()).counts == {"skipped": 2}
        await router.open_gate(opened=False)
        await _append(app, 1)
        assert (await router.run_once()).stopped == "gate: iu"
        assert len(await _attempts(app)) == 2


async def test_a_new_route_is_switched_to_dry_run_and_then_live(app: offpath.App) -> None:
    got: list[RoutedEvent] = []
    router = app.router("iu", domain="iu", start="beginning")
    router.route(type="paid", deliver=got.append)
    async with app:
        await _opened(app, router)
        await _append(app, 1)
        assert (await router.run_once()).counts == {"disabled": 1}
        await router.switch("paid:*", enabled=True)
        await _append(app, 1)
        assert (await router.run_once()).counts == {"dry_run": 1}
        assert got == []
        await router.switch("paid:*", dry_run=False)
        (sent,) = await _append(app, 1)
        assert (await router.run_once()).counts == {"sent": 1}
        assert [event.id for event in got] == [sent]
        with pytest.raises(InvalidArgument, match="it has paid"):
            await router.switch("other", enabled=True)


async def test_what_is_delivered_is_the_event_and_a_key_that_stays(app: offpath.App) -> None:
    got: list[RoutedEvent] = []
    router = app.router("iu", domain="iu", start="beginning")
    _live(router, got.append, type="paid")
    async with app:
        await _opened(app, router)
        event_id = await app.log.append("iu", "paid", "eu", {"n": 1}, key="k")
        await router.run_once()
    (event,) = got
    assert (event.payload, event.key, event.type, event.stream) == ({"n": 1}, "k", "paid", "eu")
    assert event.delivery == f"iu:paid:*:{event_id}"


async def test_a_task_gets_a_job_in_the_transaction_that_passes_the_event(
    app: offpath.App,
) -> None:
    done: list[object] = []

    @app.task(name="mail")
    async def mail(event: RoutedEvent) -> None:
        done.append(event.payload)

    router = app.router("iu", domain="iu", start="beginning")
    _live(router, mail)
    async with app:
        await _opened(app, router)
        await _append(app, 3)
        await router.run_once()
        await app.store().move_cursor("iu", 0, 0)
        await router.run_once()
        await app.worker().run_until_idle()
    assert sorted(done, key=str) == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_an_outbox_gets_a_message(app: offpath.App) -> None:
    router = app.router("iu", domain="iu", start="beginning")
    _live(router, Outbox("wallet"))
    async with app:
        await _opened(app, router)
        await _append(app, 2)
        await router.run_once()
        page = await app.store().find_messages(MessageFilter(box=Box.OUT, streams=("wallet",)))
    assert sorted((one.topic, one.payload) for one in page.items) == [
        ("paid", '{"n":0}'),
        ("paid", '{"n":1}'),
    ]


@pytest.mark.parametrize("bad", [0, 25, 49])
async def test_one_bad_event_of_fifty_is_a_dead_letter_and_the_others_go_on(
    app: offpath.App, bad: int
) -> None:
    async def deliver(event: RoutedEvent) -> None:
        if event.payload["n"] == bad:
            raise ValueError("broken receiver")

    router = app.router("iu", domain="iu", start="beginning")
    _live(router, deliver)
    async with app:
        await _opened(app, router)
        ids = await _append(app, 50)
        run = await router.run_once()
        letters = await app.store().letters("iu")
        attempts = await _attempts(app)
    assert run.counts == {"sent": 49, "failed": 1}
    assert run.verdict == "degraded"
    (letter,) = letters
    assert letter.event.id == ids[bad]
    assert letter.event.payload == f'{{"n":{bad}}}'
    assert letter.reason == "failed"
    assert "broken receiver" in letter.detail
    assert len(attempts) == 50


@pytest.mark.parametrize("bad", [0, 2, 4])
async def test_rows_that_the_store_refuses_are_one_events_dead_letter(
    app: offpath.App, bad: int
) -> None:
    @app.task(name="mail")
    async def mail(event: RoutedEvent) -> None: ...

    taken = mail.options(unique=offpath.Unique(key="taken", policy="refuse"))

    class Deliver:
        label = "own"

        def effects(self, event: RoutedEvent) -> offpath.model.effects.Effects:
            job = taken.job(event) if event.payload["n"] == bad else mail.job(event)
            return offpath.model.effects.Effects(jobs=(unsent(job).new,))

    router = app.router("iu", domain="iu", start="beginning")
    _live(router, Deliver())
    async with app:
        await _opened(app, router)
        await taken.enqueue(_event(app))
        with pytest.raises(UniqueConflict):
            await taken.enqueue(_event(app))
        await _append(app, 5)
        run = await router.run_once()
        (letter,) = await app.store().letters("iu")
        jobs = await app.jobs.count()
    assert run.counts == {"sent": 4, "failed": 1}
    assert letter.reason == "broken"
    assert jobs == 5


def _event(app: offpath.App) -> RoutedEvent:
    return RoutedEvent(
        id=app.new_id(),
        domain="iu",
        type="t",
        stream="s",
        position=1,
        at=START,
        payload=None,
        router="iu",
        route="r",
        delivery="d",
    )


async def test_what_is_no_effects_is_that_events_dead_letter(app: offpath.App) -> None:
    class Forgetful:
        label = "mine"

        def effects(self, event: RoutedEvent) -> object:
            return None if event.payload["n"] == 1 else Effects()

    router = app.router("iu", domain="iu", start="beginning")
    _live(router, Forgetful())
    async with app:
        await _opened(app, router)
        await _append(app, 3)
        assert (await router.run_once()).counts == {"sent": 2, "failed": 1}
        (letter,) = await app.store().letters("iu")
    assert "effects() of mine answers with Effects, not NoneType" in letter.detail


async def test_a_live_route_without_a_deliverer_fails_closed(app: offpath.App) -> None:
    router = app.router("iu", domain="iu", start="beginning")
    router.route(type="paid", enabled=True, dry_run=False)
    async with app:
        await _opened(app, router)
        await _append(app, 1)
        assert (await router.run_once()).counts == {"failed": 1}
        (letter,) = await app.store().letters("iu")
    assert letter.reason == "not_supported"


async def test_a_deliverer_that_hangs_is_cut_off(app: offpath.App) -> None:
    async def hang(event: RoutedEvent) -> None:
        await asyncio.Event().wait()

    router = app.router("iu", domain="iu", start="beginning", timeout=0.05)
    _live(router, hang)
    async with app:
        await _opened(app, router)
        await _append(app, 1)
        await router.run_once()
        (letter,) = await app.store().letters("iu")
    assert letter.reason == "timeout"


async def test_a_cursor_put_back_decides_nothing_twice(app: offpath.App) -> None:
    got: list[str] = []
    router = app.router("iu", domain="iu", start="beginning")
    _live(router, lambda event: got.append(event.id))
    async with app:
        await _opened(app, router)
        ids = await _append(app, 5)
        await router.run_once()
        await app.store().move_cursor("iu", 0, 0)
        run = await router.run_once()
        attempts = await _attempts(app)
    assert run.counts == {}
    assert sorted(got) == sorted(ids)
    assert len(attempts) == 5


async def test_events_of_one_key_are_delivered_in_order(app: offpath.App) -> None:
    got: list[tuple[str | None, int]] = []

    async def deliver(event: RoutedEvent) -> None:
        for _ in range(event.payload["n"] % 4):
            await asyncio.sleep(0)
        got.append((event.key, event.payload["n"]))

    router = app.router("iu", domain="iu", start="beginning")
    _live(router, deliver)
    async with app:
        await _opened(app, router)
        await _append(app, 60)
        await router.run_once()
    for key in ("k0", "k1", "k2"):
        numbers = [number for found, number in got if found == key]
        assert numbers == sorted(numbers)
        assert len(numbers) == 20


async def test_partitions_share_the_keys_and_miss_none(app: offpath.App) -> None:
    router = app.router("iu", domain="iu", start="beginning", partitions=4)
    async with app:
        await _opened(app, router)
        for number in range(40):
            await app.log.append("iu", "t", "s", number, key=f"key-{number}")
        per = [(await router.run_once(partition=one)).passed for one in range(4)]
        attempts = await _attempts(app)
    assert sum(per) == 40
    assert min(per) > 0
    assert len({attempt.event for attempt in attempts}) == 40


async def test_start_now_passes_nothing_of_before(app: offpath.App) -> None:
    router = app.router("iu", domain="iu", start="now")
    async with app:
        await _append(app, 3)
        await _opened(app, router)
        (after,) = await _append(app, 1)
        await router.run_once()
        assert [attempt.event for attempt in await _attempts(app)] == [after]


async def test_a_replay_resolves_once_and_adds_an_attempt(app: offpath.App) -> None:
    broken = True

    async def deliver(event: RoutedEvent) -> None:
        if broken:
            raise ValueError("down")
        assert event.attempt == 3

    router = app.router("iu", domain="iu", start="beginning")
    _live(router, deliver)
    async with app:
        await _opened(app, router)
        await _append(app, 1)
        await router.run_once()
        assert (await router.redrive()).counts == {"failed": 1}
        broken = False
        tallies = await asyncio.gather(router.redrive(), router.redrive())
        assert (await router.redrive()).total == 0
        (letter,) = await app.store().letters("iu", unresolved=False)
        numbers = [(attempt.number, attempt.status) for attempt in await _attempts(app)]
    assert sorted(tally.counts.get("sent", 0) for tally in tallies) == [0, 1]
    assert letter.resolution == "sent"
    assert numbers == [
        (1, AttemptStatus.FAILED),
        (2, AttemptStatus.FAILED),
        (3, AttemptStatus.SENT),
    ]


async def test_verify_is_fine_after_a_run_and_says_what_is_not(app: offpath.App) -> None:
    async def deliver(event: RoutedEvent) -> None:
        raise ValueError("down")

    router = app.router("iu", domain="iu", start="beginning")
    router.route(type="paid", enabled=True)
    router.route(type="bad", deliver=deliver, enabled=True, dry_run=False)
    async with app:
        await _opened(app, router)
        await _append(app, 4)
        await router.run_once()
        checks = await router.verify()
        assert [check.number for check in checks] == list(range(1, 11))
        assert all(check.fine is not False for check in checks)
        await _append(app, 1, kind="bad")
        await router.run_once()
        wrong = [check.name for check in await router.verify() if check.fine is False]
    assert wrong == ["no unresolved dead letters"]


async def test_verify_finds_lag(app: offpath.App, clock: ManualClock) -> None:
    router = app.router("iu", domain="iu", start="beginning")
    async with app:
        await _opened(app, router)
        await _append(app, 1)
        clock.advance(600.0)
        wrong = [check.name for check in await router.verify() if check.fine is False]
    assert wrong == ["lag"]


async def test_a_worker_routes_what_is_appended(app: offpath.App) -> None:
    got = asyncio.Event()
    router = app.router("iu", domain="iu", start="beginning")
    _live(router, lambda event: got.set())
    async with app, app.worker():
        await _opened(app, router)
        await _append(app, 1)
        await asyncio.wait_for(got.wait(), 10)


async def test_a_table_of_ones_own_is_read_behind_its_safety_lag(
    app: offpath.App, clock: ManualClock
) -> None:
    rows = [
        LogEvent(
            position=number,
            id=app.new_id(),
            domain="iu",
            type="t",
            stream="s",
            payload="null",
            at=START,
        )
        for number in range(1, 8)
    ]

    async def read(after: int, limit: int) -> list[LogEvent]:
        return [row for row in rows if row.position > after][:limit]

    router = app.router("iu", domain="iu", start="beginning", read=read, safety_lag=5.0)
    async with app:
        await _opened(app, router)
        assert (await router.run_once()).passed == 0
        clock.advance(6.0)
        assert (await router.run_once(limit=5)).passed == 5
        assert (await router.run_once()).passed == 2
        await app.store().move_cursor("iu", 0, 0)
        assert (await router.run_once()).counts == {}
        assert len(await _attempts(app)) == 7


def test_bad_declarations_are_refused(app: offpath.App) -> None:
    router = app.router("iu", domain="iu", start=5)
    for call in (
        lambda: app.router("iu", domain="iu", start="now"),
        lambda: app.router("a", domain="iu", start="sometime"),
        lambda: app.router("b", domain="iu", start=-1),
        lambda: app.router("c", domain="iu", start="now", partitions=0),
        lambda: app.router("", domain="iu", start="now"),
        lambda: router.route(type="a*b"),
        lambda: router.route(type="x", deliver=5),
        lambda: app.routers.get("none"),
    ):
        with pytest.raises(InvalidArgument):
            call()
    router.route(type="x")
    with pytest.raises(InvalidArgument):
        router.route(type="x")


async def test_a_stored_route_cannot_mean_something_else_under_its_name(
    app: offpath.App, clock: ManualClock
) -> None:
    router = app.router("iu", domain="iu", start="beginning")
    router.route(type="paid", name="bills", deliver=print)
    async with app:
        await app.routers.open_gate()
        await router.run_once()
        later = offpath.App(store=app.store(), clock=clock, auto_start=False)
        changed = later.router("iu", domain="iu", start="beginning")
        changed.route(type="refunded", name="bills", deliver=print)
        async with later:
            with pytest.raises(Conflict, match="give the changed route another name"):
                await changed.run_once()


def test_a_routers_name_has_no_colon(app: offpath.App) -> None:
    with pytest.raises(InvalidArgument, match="has no ':'"):
        app.router("iu:eu", domain="iu", start="beginning")
