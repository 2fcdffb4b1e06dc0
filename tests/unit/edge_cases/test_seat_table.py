"""Each seat of user code: what is broken in it is its failure, is reported, and ends nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import offpath
from offpath import RetryOptions
from offpath.economy import Actor
from offpath.economy.web import economy_service
from offpath.economy.webhooks import webhook_door
from offpath.errors import TaskError
from offpath.jobs.worker.judge import AttemptRules
from offpath.model.job import JobState
from offpath.model.options import RunOptions, encode_run
from offpath.model.retry import BackoffKind, RetryPolicy
from offpath.runtime.seats import Escaped
from tests.unit.economy.marketplace import Marketplace
from tests.unit.jobs.worker.rig import Rig
from tests.unit.web.asgi import ask

Seen = list[tuple[BaseException, str]]
TOP_UP = {"kind": "topUp", "key": "t-1", "user": "ann", "amount": "CREDIT:10.00", "source": "card"}
SPEND = {"kind": "spend", "key": "s-1", "buyer": "ann", "orderId": "A-1", "sku": "song"}
SPEND |= {"price": "CREDIT:4.00", "recipients": [{"seller": "sue", "bps": 10_000}]}  # type: ignore[dict-item]


class Once:
    """A function that is broken at its first call, and then answers."""

    def __init__(self, broken: Callable[[], Any], good: Any) -> None:
        self._broken = broken
        self._good = good
        self.calls = 0

    def __call__(self, *given: Any, **_: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            return self._broken()
        return self._good(*given) if callable(self._good) else self._good


def ends(kind: type[BaseException]) -> Any:
    raise kind


async def inner() -> None:
    raise AssertionError("nobody awaits it")


async def unawaited() -> Any:
    return inner()


def generator() -> Iterator[None]:
    yield


async def hanging() -> None:
    await asyncio.Event().wait()


ENDS = (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
BROKEN: dict[str, Callable[[], Any]] = {
    **{kind.__name__: partial(ends, kind) for kind in ENDS},
    "a generator": generator,
}
AWAITED = {**BROKEN, "unawaited": unawaited, "hanging": hanging}
PLAIN = {**BROKEN, "unawaited": inner}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.close()


def failing_once() -> Callable[[], Awaitable[None]]:
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)
        if len(ran) == 1:
            raise ValueError

    return work


CUSTOM = encode_run(RunOptions(retry=RetryPolicy(attempts=3, kind=BackoffKind.CUSTOM)))


async def classifier(rig: Rig, broken: Callable[[], Any]) -> str:
    rig.task(failing_once(), on_failure=Once(broken, None))
    job = await rig.enqueue("work")
    await rig.started()
    return job


async def apps_classifier(rig: Rig, broken: Callable[[], Any]) -> str:
    rig.task(failing_once())
    job = await rig.enqueue("work")
    await rig.started(rules=AttemptRules(on_failure=Once(broken, None)))
    return job


async def backoff(rig: Rig, broken: Callable[[], Any]) -> str:
    rig.task(failing_once(), backoff=Once(broken, 1.0))
    job = await rig.enqueue("work", options=CUSTOM)
    await rig.started()
    return job


async def hook(name: str, good: Any, rig: Rig, broken: Callable[[], Any]) -> str:
    async def work() -> None: ...

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.started(**{name: Once(broken, good)})
    return job


async def log_context(rig: Rig, broken: Callable[[], Any]) -> str:
    rig.task(failing_once(), log_context=Once(broken, {}))
    job = await rig.enqueue("work")
    await rig.started()
    return job


async def on_backlog(rig: Rig, broken: Callable[[], Any]) -> str:
    async def work() -> None:
        await rig.clock.sleep(30)

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.enqueue("work")
    alarm = Once(broken, None)
    await rig.started(concurrency=1, on_backlog=alarm, backlog_after=5.0, backlog_every=5.0)
    return job


OF_WORKERS = {
    "classify": (classifier, AWAITED),
    "classify of the app": (apps_classifier, AWAITED),
    "backpressure": (partial(hook, "backpressure", None), AWAITED),
    "on_backlog": (on_backlog, AWAITED),
    "accept": (partial(hook, "accept", True), PLAIN),
    "log_context": (log_context, PLAIN),
    "backoff": (backoff, PLAIN),
}


@pytest.mark.parametrize(
    ("seat", "how"), [(seat, how) for seat, (_, ways) in OF_WORKERS.items() for how in ways]
)
async def test_what_is_broken_in_a_seat_of_a_worker_is_reported_and_the_job_is_done(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, seat: str, how: str
) -> None:
    begin: Any
    begin, ways = OF_WORKERS[seat]
    if how == "hanging":
        monkeypatch.setattr("offpath.runtime.seats.PATIENCE", 0.0)
    job = await begin(rig, ways[how])
    await rig.pass_time(60, step=1.0)
    told = [error for error, phase in rig.errors if phase == seat.partition(" ")[0]]
    assert [type(one) for one in told] == [
        Escaped if how in {k.__name__ for k in ENDS} else TaskError
    ]
    assert await rig.state(job) is JobState.SUCCEEDED


@pytest.mark.parametrize("how", PLAIN)
async def test_a_broken_next_time_function_is_told_and_its_schedule_goes_on(how: str) -> None:
    seen: Seen = []
    app = offpath.App("memory://", auto_start=False)

    @app.task
    async def work() -> None: ...

    times = Once(PLAIN[how], datetime(2999, 1, 1, tzinfo=UTC))
    times.__name__ = "times"  # type: ignore[attr-defined]
    async with app:
        app.schedule("s", work.job(), when=times)
        ticker = app.schedules.ticker(app.clock, lambda *told: seen.append(told))
        await ticker.sweep(10)
        assert [phase for _, phase in seen] == ["schedule s"]
        assert isinstance(seen[0][0], Escaped | TaskError)
        await ticker.sweep(10)
        assert (await app.schedules.get("s")).next_at == datetime(2999, 1, 1, tzinfo=UTC)


def seat_of_door(name: str) -> Callable[[offpath.App, Callable[[], Any]], Any]:
    def made(app: offpath.App, broken: Callable[[], Any]) -> Any:
        given: dict[str, Any] = {"verifier": lambda *_: "id-1", "key": lambda *_: "key-1"}
        given[name] = Once(broken, given[name])
        return app.inbox_door("bank", **given)

    return made


@pytest.mark.parametrize(
    ("seat", "how"),
    [("verifier", how) for how in AWAITED] + [("key", how) for how in PLAIN],
)
async def test_what_is_broken_in_a_door_accepts_nothing(
    monkeypatch: pytest.MonkeyPatch, seat: str, how: str
) -> None:
    seen: Seen = []
    ways = AWAITED if seat == "verifier" else PLAIN
    if how == "hanging":
        monkeypatch.setattr("offpath.runtime.seats.PATIENCE", 0.0)
    app = offpath.App("memory://", auto_start=False, on_error=lambda *told: seen.append(told))
    async with app:
        door = seat_of_door(seat)(app, ways[how])
        refused = await ask(door, "POST", "/", b"{}")
        assert refused.code in {500, 503}
        assert not (await app.messages.find(box="in")).items
        assert [type(error) for error, _ in seen] in ([Escaped], [TaskError])
        assert (await ask(door, "POST", "/", b"{}")).code == 202


ANN, BANK = Actor.user("ann"), Actor.system("bank")
OF_SERVICE: dict[str, tuple[Any, Actor, dict[str, Any]]] = {
    "authenticate": (BANK, BANK, TOP_UP),
    "rate_limit": (None, BANK, TOP_UP),
    "authorize": (lambda _, asked: asked, ANN, SPEND),
    "prices": (None, ANN, SPEND),
}


@pytest.mark.parametrize(("seat", "how"), [(seat, how) for seat in OF_SERVICE for how in AWAITED])
async def test_what_is_broken_in_the_service_is_a_fault_of_one_request(
    monkeypatch: pytest.MonkeyPatch, seat: str, how: str
) -> None:
    good, actor, document = OF_SERVICE[seat]
    seen: Seen = []
    market = Marketplace()
    monkeypatch.setattr(market.economy, "report", lambda *told: seen.append(told))
    if how == "hanging":
        monkeypatch.setattr("offpath.runtime.seats.PATIENCE", 0.0)
    given: dict[str, Any] = {"authenticate": lambda _: actor, seat: Once(AWAITED[how], good)}
    async with market.app:
        service = economy_service(market.economy, **given)
        body = json.dumps(document).encode()
        first = await ask(service, "POST", "/submit", body)
        assert first.code == (200 if seat == "rate_limit" else 500)
        assert [type(error) for error, _ in seen] in ([Escaped], [TaskError])
        assert (await ask(service, "POST", "/submit", body)).code == 200


@pytest.mark.parametrize("how", PLAIN)
async def test_a_broken_decoder_of_a_provider_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    seen: Seen = []
    market = Marketplace()
    monkeypatch.setattr(market.economy, "report", lambda *told: seen.append(told))
    async with market.app:
        door = webhook_door(
            market.economy, "acme", verifier=lambda *_: "e-1", decode=Once(PLAIN[how], None)
        )
        assert (await ask(door, "POST", "/", b"{}")).code in {500, 503}
        assert [type(error) for error, _ in seen] in ([Escaped], [TaskError])
        assert (await ask(door, "POST", "/", b"{}")).document == {"status": "ignored"}


def define(seat: str, function: Any) -> None:
    """Give the function to that seat."""
    app = offpath.App("memory://", auto_start=False)
    match seat.split("."):
        case ["app", name]:
            offpath.App("memory://", **{name: function})
        case ["task", "backoff"]:
            app.task(name="t", retry=RetryOptions(kind=BackoffKind.CUSTOM, function=function))(
                inner
            )
        case ["task", name]:
            app.task(**{"name": "t", name: function})(inner)
        case ["workers", name]:
            app.configure_workers(**{name: function})
        case ["schedule", _]:
            app.next_time(function)
        case ["door", name]:
            app.inbox_door("bank", **{"verifier": lambda *_: "1", name: function})
        case ["provider", name]:
            webhook_door(Marketplace().economy, "acme", **{"verifier": inner, name: function})
        case [_, name]:
            given: Any = {"authenticate": lambda _: None, name: function}
            economy_service(Marketplace().economy, **given)


EITHER: tuple[str, ...] = (
    "app.on_error",
    "app.on_event",
    "app.on_failure",
    "task.on_event",
    "task.on_failure",
)
EITHER += ("workers.backpressure", "workers.on_backlog", "door.verifier", "provider.verifier")
EITHER += tuple(f"service.{name}" for name in OF_SERVICE)
ONLY_PLAIN: tuple[str, ...] = (
    "app.log_context",
    "task.log_context",
    "task.backoff",
    "task.unique",
    "task.limit",
)
ONLY_PLAIN += ("task.fair_key", "task.options", "workers.accept", "schedule.next_time")
ONLY_PLAIN += ("door.key", "provider.decode")


@pytest.mark.parametrize("seat", EITHER + ONLY_PLAIN)
def test_a_generator_is_refused_where_it_is_given(seat: str) -> None:
    with pytest.raises(TaskError, match="drop the yield"):
        define(seat, generator)


@pytest.mark.parametrize("seat", ONLY_PLAIN)
def test_an_async_function_is_refused_where_nothing_would_await_it(seat: str) -> None:
    with pytest.raises(TaskError, match="make it a plain function"):
        define(seat, inner)
