"""The seam counts where messages go, and clears up settlements whose answer was lost."""

from __future__ import annotations

import pytest

from offpath.errors import StoreUnavailable
from offpath.model.changes import Pruned
from offpath.model.effects import Effects
from offpath.model.job import DeadReason, Failure
from offpath.model.message import (
    Box,
    LeasedMessage,
    MessageRequest,
    MessageSettlement,
    MessageState,
    NewMessage,
    StreamRoom,
)
from offpath.model.new import NewLogEvent
from offpath.model.settlement import Dead, Released, Retry, SettleStatus, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.runtime.metrics import Metrics
from offpath.store.memory import MemoryStore
from offpath.store.seam import observed_store
from offpath.store.telemetry.meter import StoreMeter
from offpath.testing.faults import FlakyStore

_FAILURE = Failure(kind="error", type="E", message="no")


class Rig:
    """An instrumented store over one that fails on demand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.flaky = FlakyStore(MemoryStore(self.clock))
        self.store = observed_store(self.flaky, self.clock, StoreMeter(self.metrics, "memory"))

    async def put(self, count: int) -> None:
        """Commit this many messages."""
        new = (NewMessage(id=f"m{n}", box=Box.OUT, stream="s", payload="") for n in range(count))
        await self.store.commit(Effects(messages=tuple(new)))

    async def hand(self, holder: str = "h") -> tuple[LeasedMessage, ...]:
        """Lease all that is due."""
        rooms = (StreamRoom(stream="s", limit=100),)
        request = MessageRequest(
            box=Box.OUT, holder=holder, streams=rooms, limit=100, lease_seconds=30
        )
        return (await self.store.lease_messages(request)).messages

    def rows(self) -> dict[str, float]:
        """For each state, what entered it less what left it."""
        found: dict[str, float] = {}
        for reading in self.metrics.list("offpath_message_moves_total"):
            for label, sign in (("entered", 1), ("left", -1)):
                state = dict(reading.labels)[label]
                found[state] = found.get(state, 0) + sign * reading.value
        return {state: count for state, count in found.items() if count and state != "none"}

    def value(self, name: str, **labels: str) -> float | None:
        """A counter's value."""
        reading = self.metrics.get(name, **labels)
        return None if reading is None else reading.value


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_what_entered_a_state_less_what_left_it_is_there(rig: Rig) -> None:
    await rig.put(4)
    await rig.put(4)  # repeats
    assert rig.rows() == {"pending": 4}
    done, retried, dead, released = await rig.hand()
    child = NewMessage(id="child", box=Box.OUT, stream="t", payload="")
    event = NewLogEvent(id="e", domain="d", type="t", stream="s", payload="")
    effects = Effects(messages=(child,), log=(event,))
    await rig.store.settle_messages(
        [
            MessageSettlement(message=done, outcome=Succeeded(), effects=effects),
            MessageSettlement(message=retried, outcome=Retry(delay=1, failure=_FAILURE)),
            MessageSettlement(
                message=dead, outcome=Dead(reason=DeadReason.EXHAUSTED, failure=_FAILURE)
            ),
            MessageSettlement(message=released, outcome=Released()),
        ]
    )
    assert rig.rows() == {"pending": 3, "done": 1, "dead": 1}
    assert rig.value("offpath_log_appended_total", domain="d") == 1
    await rig.store.revive_messages([dead.id])
    await rig.store.delete_messages([done.id, released.id])
    assert rig.rows() == {"pending": 4}
    outcomes = ("written", "done", "failed", "dead", "released", "revived", "deleted")
    labels = {"box": "out", "stream": "s"}
    told = [rig.value("offpath_messages_total", **labels, outcome=each) for each in outcomes]
    assert told == [4, 1, 1, 1, 1, 1, 1]


async def test_a_settlement_whose_answer_was_lost_is_cleared_up(rig: Rig) -> None:
    await rig.put(2)
    first, second = await rig.hand()
    settlements = [
        MessageSettlement(message=first, outcome=Succeeded()),
        MessageSettlement(message=second, outcome=Retry(delay=5, failure=_FAILURE)),
    ]
    rig.flaky.lose_answer("settle_messages")
    with pytest.raises(StoreUnavailable):
        await rig.store.settle_messages(settlements)
    answers = await rig.store.settle_messages(settlements)
    assert [each.status for each in answers] == [SettleStatus.APPLIED] * 2
    assert [each.state for each in answers] == [MessageState.DONE, MessageState.PENDING]
    assert rig.rows() == {"pending": 1, "done": 1}
    again = await rig.store.settle_messages(settlements)
    assert [each.status for each in again] == [SettleStatus.LEASE_LOST] * 2


async def test_what_another_holder_ended_is_not_ones_own(rig: Rig) -> None:
    await rig.put(1)
    (slow,) = await rig.hand("slow")
    mine = [MessageSettlement(message=slow, outcome=Succeeded())]
    rig.flaky.fail("settle_messages")
    with pytest.raises(StoreUnavailable):
        await rig.store.settle_messages(mine)
    rig.clock.advance(31)
    (taken,) = await rig.hand("quick")
    await rig.store.settle_messages([MessageSettlement(message=taken, outcome=Succeeded())])
    (answer,) = await rig.store.settle_messages(mine)
    assert answer.status is SettleStatus.LEASE_LOST


async def test_what_a_prune_removed_leaves_the_messages_and_not_the_jobs() -> None:
    rig = Rig()
    await rig.put(1)
    (held,) = await rig.hand()
    done = MessageSettlement(message=held, outcome=Succeeded(), keep=1.0)
    await rig.store.settle_messages([done])
    rig.clock.advance(2.0)
    assert await rig.store.prune(limit=10) == Pruned(jobs=0, messages=1)
    labels = {"box": "", "stream": "", "left": "ended", "entered": "none"}
    assert rig.metrics.counter("offpath_message_moves_total", **labels).value == 1
    assert rig.metrics.counter("offpath_jobs_deleted_total", task="", queue="").value == 0
