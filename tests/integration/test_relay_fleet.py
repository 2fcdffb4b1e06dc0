"""Four relay processes: each event once without faults, none lost with kills, each key in order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath.events import MessageState
from tests.integration import events_service as service
from tests.integration.fleet import Fleet, WorkerProcess
from tests.integration.polling import eventually
from tests.integration.scale import CAMPAIGN, scaled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.journal import Entry

RELAYS = 4
EVENTS = scaled(400, 2_000)
KILLS = scaled(3, 12)
TARGET = "tests.integration.events_service:app"


@pytest.fixture
def start(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], WorkerProcess]:
    """``start()``: one more process that relays."""
    monkeypatch.setenv(service.GATE, str(tmp_path / "gate"))
    if not CAMPAIGN:
        monkeypatch.setenv("OFFPATH_TEST_LEASE", "1")
    return lambda: fleet.start(target=TARGET, poll_interval=0.2)


async def _up(app: offpath.App, workers: list[WorkerProcess]) -> None:
    pids = {worker.pid for worker in workers}

    async def known() -> bool:
        for worker in workers:
            assert worker.popen.poll() is None, worker.output
        return pids <= {one.info.pid for one in await app.workers()}

    await eventually(known, within=60, what="all relays are registered")


async def _publish(app: offpath.App, count: int, stream: str = "plain") -> list[str]:
    async with app.batch() as batch:
        return [batch.publish("t", number, stream=stream) for number in range(count)]


async def _all_relayed(app: offpath.App, within: float) -> None:
    async def done() -> bool:
        pending = await app.messages.find(streams=["plain"], states=["pending"], limit=1)
        return not pending.items

    await eventually(done, within=within, what="nothing waits")


@pytest.mark.timeout(300)
async def test_four_relays_deliver_each_event_once(
    app: offpath.App, fleet: Fleet, start: Callable[[], WorkerProcess]
) -> None:
    """Cases B6."""
    await _up(app, [start() for _ in range(RELAYS)])
    ids: list[str] = []
    delivered: list[Entry] = []
    # on a busy machine one of them may be done before the others have looked
    for _ in range(20):
        ids += await _publish(app, EVENTS)
        await _all_relayed(app, within=60)
        delivered = fleet.journal.all("delivered")
        if len({one.pid for one in delivered}) > 1:
            break
    assert len(delivered) == len(ids)
    assert {one.job for one in delivered} == set(ids)
    assert {one.attempt for one in delivered} == {1}
    assert len({one.pid for one in delivered}) > 1, "they share the work"


@pytest.mark.timeout(300)
async def test_killed_relays_lose_nothing_and_repeat_only_what_they_had_in_hand(
    app: offpath.App, fleet: Fleet, start: Callable[[], WorkerProcess]
) -> None:
    """Cases B6. A repeat has the id that the receiver knows."""
    relays = [start() for _ in range(scaled(3, RELAYS))]
    await _up(app, relays)
    ids = await _publish(app, EVENTS)
    killed = await fleet.kill_at_work(relays, "delivered", kills=KILLS, of=EVENTS, start=start)
    await _all_relayed(app, within=120)

    deliveries: dict[str, list[Entry]] = defaultdict(list)
    for one in fleet.journal.all("delivered"):
        deliveries[one.job].append(one)
    assert set(deliveries) == set(ids)
    ends = await app.messages.find(streams=["plain"], limit=EVENTS)
    assert {one.state for one in ends.items} == {MessageState.DONE}
    assert {one.attempt for one in ends.items} == {1}, "a lost relay is not a failed attempt"
    for entries in deliveries.values():
        assert {one.pid for one in entries[:-1]} <= killed, "only what a dead one had is repeated"


@pytest.mark.timeout(300)
async def test_a_key_keeps_its_order_across_relays_and_holds_back_no_other(
    app: offpath.App, fleet: Fleet, start: Callable[[], WorkerProcess], tmp_path: Path
) -> None:
    """Cases L1: A fails twice (and until it is let go), B and C are behind it."""
    await _up(app, [start() for _ in range(scaled(3, RELAYS))])
    keys = scaled(5, 50)
    async with app.batch() as batch:
        for number in range(keys):
            for letter in "ABC":
                name = f"{letter}{number}"
                batch.publish("t", name, key=f"k{number}", stream="ordered")
        for number in range(20):
            batch.publish("t", f"m{number}", key="m", stream="ordered")

    def tried(name: str) -> int:
        return len(fleet.journal.all("ordered", name))

    await eventually(lambda: tried("m19"), within=30, what="the other key is delivered")
    await eventually(lambda: all(tried(f"A{n}") > 2 for n in range(keys)), within=30)
    assert not any(tried(f"{letter}{n}") for letter in "BC" for n in range(keys))
    (tmp_path / "gate").touch()
    await eventually(lambda: all(tried(f"C{n}") for n in range(keys)), within=30)
    names = [one.job for one in fleet.journal.all("ordered")]
    for number in range(keys):
        line = [name[0] for name in names if name[1:] == str(number) and name[0] in "ABC"]
        assert line == ["A"] * (len(line) - 2) + ["B", "C"]
    assert [name for name in names if name[0] == "m"] == [f"m{number}" for number in range(20)]
