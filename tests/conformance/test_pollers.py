"""A failure to publish is never a healthy iteration: three streams, on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from offpath import App
from offpath.errors import RelayFailed
from offpath.events import Event
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from offpath.sweeps import Verdict

STREAMS = ("wallet", "rolling", "agent")


class Broker:
    """A dispatcher that fails for the payloads that it is told of."""

    def __init__(self) -> None:
        self.broken: set[object] = set()
        self.published: list[object] = []

    async def dispatch(self, event: Event) -> None:
        if event.payload in self.broken:
            raise ConnectionError("password=hunter2")
        self.published.append(event.payload)


class Poller:
    """A stream's outbox with three events due."""

    def __init__(self, app: App, stream: str) -> None:
        self.app = app
        self.stream = stream
        self.broker = Broker()
        self.ids: list[str] = []
        app.outbox(stream, dispatcher=self.broker)

    async def publish(self) -> None:
        self.ids = [await self.app.publish("moved", n, stream=self.stream) for n in range(3)]

    async def states(self) -> list[tuple[str, int]]:
        records = [await self.app.messages.get(one) for one in self.ids]
        return [(record.state, record.attempt) for record in records]


@pytest.fixture(params=STREAMS)
async def poller(
    request: pytest.FixtureRequest, store: Store, clock: ManualClock
) -> AsyncIterator[Poller]:
    async with App(store=store, clock=clock, auto_start=False) as app:
        made = Poller(app, str(request.param))
        await made.publish()
        yield made


async def test_a_row_that_cannot_be_published_is_a_degraded_iteration(poller: Poller) -> None:
    poller.broker.broken = {1}
    turn = await poller.app.relay(poller.stream).step()
    assert (turn.verdict, turn.cause) == (Verdict.DEGRADED, "1 of 3 messages failed")
    assert turn.counts == {"relayed": 2, "failed": 1}


async def test_what_a_degraded_iteration_published_stays_committed(poller: Poller) -> None:
    poller.broker.broken = {1}
    tally = await poller.app.relay(poller.stream).run_once()
    assert tally.verdict is Verdict.DEGRADED
    assert tally.buckets == {
        "relayed": (poller.ids[0], poller.ids[2]),
        "failed": (poller.ids[1],),
    }
    assert await poller.states() == [("done", 1), ("pending", 2), ("done", 1)]
    assert sorted(poller.broker.published, key=str) == [0, 2]


async def test_a_batch_that_failed_whole_fails_loudly_once_it_is_recorded(poller: Poller) -> None:
    poller.broker.broken = {0, 1, 2}
    with pytest.raises(RelayFailed, match="all 3 events failed") as raised:
        await poller.app.relay(poller.stream).run_once()
    assert raised.value.tally.verdict is Verdict.FAILED
    assert "hunter2" not in str(raised.value)
    assert await poller.states() == [("pending", 2)] * 3


async def test_a_turn_whose_batch_failed_whole_is_a_failed_iteration(poller: Poller) -> None:
    poller.broker.broken = {0, 1, 2}
    turn = await poller.app.relay(poller.stream).step()
    assert (turn.verdict, turn.counts) == (Verdict.FAILED, {"failed": 3})


async def test_a_batch_that_was_published_whole_is_clean_and_an_empty_one_is_empty(
    poller: Poller,
) -> None:
    relay = poller.app.relay(poller.stream)
    assert (await relay.run_once()).verdict is Verdict.CLEAN
    assert (await relay.run_once()).verdict is Verdict.EMPTY
    assert [state for state, _ in await poller.states()] == ["done"] * 3


async def test_the_sweep_over_all_streams_is_as_loud(poller: Poller) -> None:
    other = Poller(poller.app, "other")
    await other.publish()
    worker = poller.app.worker()
    poller.broker.broken = {0, 1, 2}
    result = (await worker.run_once(only="relay"))["relay"]
    assert (result.verdict, result.tally.counts) == (
        Verdict.DEGRADED,
        {"relayed": 3, "failed": 3},
    )
    await poller.publish()
    result = (await worker.run_once(only="relay"))["relay"]
    assert (result.verdict, result.error) == (Verdict.FAILED, "pass_failed")
    assert set(result.tally.buckets["failed"]) == set(poller.ids)
