"""Messages in memory: hints, indexes, and leases that walk over nothing."""

from __future__ import annotations

import pytest

from offpath.errors import CapabilityMissing, StoreRejected
from offpath.model.effects import Effects
from offpath.model.endpoint import Endpoint, EndpointState
from offpath.model.message import (
    Box,
    LeasedMessage,
    MessageRequest,
    MessageSettlement,
    NewMessage,
    StreamRoom,
)
from offpath.model.new import NewLogEvent
from offpath.model.route import Decisions
from offpath.model.settlement import Released, SettleStatus, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.hints import Hint
from offpath.store.memory import MemoryStore
from offpath.store.memory.indexes import LazyHeap


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def message(number: int, key: str | None = None) -> NewMessage:
    return NewMessage(id=f"m{number:06}", box=Box.OUT, stream="s", payload="{}", key=key)


async def hand(store: MemoryStore, limit: int, *, ordered: bool) -> tuple[LeasedMessage, ...]:
    rooms = (StreamRoom(stream="s", limit=limit, ordered=ordered),)
    request = MessageRequest(
        box=Box.OUT, holder=f"h{id(rooms)}", streams=rooms, limit=limit, lease_seconds=30
    )
    return (await store.lease_messages(request)).messages


async def settle(store: MemoryStore, held: tuple[LeasedMessage, ...]) -> None:
    done = [MessageSettlement(message=each, outcome=Succeeded()) for each in held]
    answers = await store.settle_messages(done)
    assert {each.status for each in answers} == {SettleStatus.APPLIED}


async def test_a_stream_may_be_read_both_ways_in_turn(store: MemoryStore) -> None:
    await store.commit(Effects(messages=tuple(message(n, f"k{n % 3}") for n in range(30))))
    seen: list[str] = []
    for turn in range(6):
        held = await hand(store, 5, ordered=turn % 2 == 0)
        seen += [each.id for each in held]
        await settle(store, held)
    assert seen == sorted(seen)
    assert len(seen) == 30
    assert list(store._tables.mailbox.lanes.items()) == []


async def test_a_key_that_is_held_up_costs_a_lease_nothing(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.commit(Effects(messages=tuple(message(n, "stuck") for n in range(2_000))))
    (first,) = await hand(store, 1, ordered=True)
    assert first.id == "m000000"
    await store.commit(Effects(messages=(message(5_000, "free"),)))
    looked: list[int] = []
    real = LazyHeap.first

    def counted(heap: LazyHeap[object]) -> object:
        looked.append(1)
        return real(heap)

    monkeypatch.setattr(LazyHeap, "first", counted)
    assert [each.id for each in await hand(store, 10, ordered=True)] == ["m005000"]
    assert len(looked) < 10


async def test_a_released_first_of_a_key_comes_first_again(store: MemoryStore) -> None:
    await store.commit(Effects(messages=tuple(message(n, "k") for n in range(3))))
    held = await hand(store, 2, ordered=True)
    given_back = [MessageSettlement(message=each, outcome=Released()) for each in held]
    await store.settle_messages(given_back)
    again = await hand(store, 3, ordered=True)
    assert [each.id for each in again] == ["m000000", "m000001", "m000002"]
    assert [each.deliveries for each in again] == [1, 1, 1]


async def test_what_came_to_be_is_hinted(store: MemoryStore) -> None:
    told: list[Hint] = []
    store.listen(told.append)
    await store.commit(Effects(messages=(message(1),)))
    event = NewLogEvent(id="e", domain="d", type="t", stream="s", payload="{}")
    await store.commit(Effects(log=(event,)))
    assert told == [Hint.MESSAGES] * 2
    await store.commit(Effects(messages=(message(1),), log=(event,)))
    assert told == [Hint.MESSAGES] * 2, "a repeat is nothing new"
    held = await hand(store, 1, ordered=False)
    await settle(store, held)
    await store.revive_messages([held[0].id])
    await store.put_endpoint(Endpoint(name="e", url="https://example.com", secrets=("s",)))
    await store.set_endpoint("e", EndpointState.ENABLED, None)
    assert told == [Hint.MESSAGES] * 4


async def test_a_refused_message_leaves_no_trace(store: MemoryStore) -> None:
    keyless = NewMessage(id="in", box=Box.IN, stream="s", payload="{}")
    event = NewLogEvent(id="e", domain="d", type="t", stream="s", payload="{}")
    for refused in (
        Effects(messages=(message(1), keyless), log=(event,)),
        Effects(
            messages=(message(1),),
            log=(NewLogEvent(id="e", domain="d", type="t", stream="s", payload="", slot=-1),),
        ),
    ):
        with pytest.raises(StoreRejected):
            await store.commit(refused)
    assert store._tables.mailbox.rows == {}
    assert await store.read_events() == []


async def test_no_transaction_can_be_joined(store: MemoryStore) -> None:
    def decide(*_: object) -> Decisions:
        return Decisions(position=0)

    with pytest.raises(CapabilityMissing):
        await store.route_within(None, "r", 0, limit=1, decide=decide)
    with pytest.raises(CapabilityMissing):
        store.route_within_blocking(None, "r", 0, limit=1, decide=decide)
