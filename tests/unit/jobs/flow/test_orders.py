"""The jobs that a worker takes: orders within a queue, room per queue, shares between queues."""

from __future__ import annotations

import asyncio
from collections import Counter

from offpath.errors import StoreUnavailable
from offpath.jobs.worker.quarantine import EVERY
from offpath.model.job import JobState
from offpath.model.lease import Order
from tests.unit.jobs.worker.rig import Rig, breathe


class Line:
    """One task whose jobs tell their names, and may be kept running."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.order: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        rig.task(self.run)

    async def run(self, name: str) -> None:
        self.order.append(name)
        if (gate := self.gates.get(name)) is not None:
            await gate.wait()

    async def add(self, name: str, *, blocked: bool = False, **fields: object) -> str:
        if blocked:
            self.gates[name] = asyncio.Event()
        job = await self.rig.enqueue("run", f'{{"name": "{name}"}}', **fields)
        self.rig.clock.advance(0.01)
        return job

    @property
    def running(self) -> set[str]:
        return {name for name in self.order if name in self.gates and not self.gates[name].is_set()}


async def test_a28_079_by_age_priority_does_not_matter(rig: Rig) -> None:
    line = Line(rig)
    await line.add("a", priority=1)
    await line.add("c", priority=2)
    await line.add("b", priority=9)
    await rig.run(concurrency=1, order=Order.AGE)
    assert line.order == ["a", "c", "b"]


async def test_a28_076_by_priority_higher_comes_first(rig: Rig) -> None:
    line = Line(rig)
    for name, priority in (("a", 1), ("b", 5), ("c", 3)):
        await line.add(name, priority=priority)
    await rig.run(concurrency=1)
    assert line.order == ["b", "c", "a"]


async def test_a28_080_balanced_starts_whose_key_runs_least(rig: Rig) -> None:
    line = Line(rig)
    for name in ("a1", "a2"):
        await line.add(name, blocked=True, fair_key="a")
    await rig.started(concurrency=2, order=Order.BALANCED)
    await line.add("a3", fair_key="a")
    await line.add("b1", blocked=True, fair_key="b")
    assert line.order == ["a1", "a2"]
    line.gates["a1"].set()
    await breathe()
    assert line.order == ["a1", "a2", "b1"]


async def test_a28_081_in_one_key_priority_then_age_decide(rig: Rig) -> None:
    line = Line(rig)
    for name, priority in (("p1", 1), ("p5", 5), ("p1b", 1), ("p5b", 5)):
        await line.add(name, priority=priority, fair_key="a")
    await rig.run(concurrency=1, order=Order.BALANCED)
    assert line.order == ["p5", "p5b", "p1", "p1b"]


async def test_balanced_counts_what_runs_in_the_whole_fleet(rig: Rig) -> None:
    line = Line(rig)
    for name in ("a1", "a2"):
        await line.add(name, blocked=True, fair_key="a")
    await rig.started(concurrency=2, order=Order.BALANCED)
    await line.add("a3", blocked=True, fair_key="a", priority=100)
    await line.add("b1", blocked=True, fair_key="b")
    await rig.started(concurrency=1, order=Order.BALANCED)
    assert line.running == {"a1", "a2", "b1"}


async def test_no_more_of_a_queue_run_than_it_has_room_for(rig: Rig) -> None:
    line = Line(rig)
    for number in range(10):
        await line.add(f"mail{number}", blocked=True, queue="mail", priority=5)
    for number in range(5):
        await line.add(f"bulk{number}", blocked=True, queue="bulk")
    worker = await rig.started(concurrency=6, queue_limits={"mail": 2})
    assert Counter(name[:4] for name in line.running) == {"mail": 2, "bulk": 4}
    line.gates["mail0"].set()
    await breathe()
    assert line.running >= {"mail1", "mail2"}
    assert len(worker.active()) == 6


async def test_a_queue_without_room_is_not_asked_for(rig: Rig) -> None:
    line = Line(rig)
    for number in range(3):
        await line.add(f"mail{number}", blocked=True, queue="mail")
    await rig.started(queues=("mail",), queue_limits={"mail": 1}, poll_interval=1.0)
    rig.faulty.calls.clear()
    await rig.pass_time(20)
    assert len(line.running) == 1
    # every few seconds it looks for suspects, which begin where nothing else runs
    assert rig.faulty.calls.count("lease") <= 20 / EVERY


async def test_what_an_unanswered_lease_gave_keeps_to_the_room_of_its_queue(rig: Rig) -> None:
    line = Line(rig)
    for number in range(4):
        await line.add(f"mail{number}", blocked=True, queue="mail")
    rig.faulty.fail("lease", StoreUnavailable("cut"), after=True)
    await rig.started(queue_limits={"mail": 2})
    await rig.pass_time(10)
    assert len(line.running) == 2


async def test_a_flood_on_one_queue_does_not_starve_another(rig: Rig) -> None:
    line = Line(rig)
    for number in range(300):
        await line.add(f"flood{number}", queue="flood", priority=10)
    for number in range(5):
        await line.add(f"calm{number}", queue="calm")
    await rig.run(concurrency=1)
    assert [name for name in line.order[:12] if name.startswith("calm")] == [
        f"calm{number}" for number in range(5)
    ]


async def test_a_queue_that_wakes_up_beside_a_flood_is_served_at_once(rig: Rig) -> None:
    line = Line(rig)
    for number in range(200):
        await line.add(f"flood{number}", blocked=True, queue="flood", priority=10)
    await rig.started(concurrency=1)
    for number in range(50):
        line.gates[f"flood{number}"].set()
        await breathe()
    job = await line.add("calm", queue="calm")
    for number in range(50, 52):
        line.gates[f"flood{number}"].set()
        await breathe()
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_each_queue_is_taken_in_its_own_order(rig: Rig) -> None:
    line = Line(rig)
    for queue in ("old", "fair", "else"):
        for name, priority, key in (("1", 1, "a"), ("2", 9, "a"), ("3", 5, "b")):
            await line.add(f"{queue}{name}", queue=queue, priority=priority, fair_key=key)
    orders = {"old": Order.AGE, "fair": Order.BALANCED}
    await rig.run(concurrency=1, orders=orders)
    by_queue = {queue: [n[-1] for n in line.order if queue in n] for queue in ("old", "else")}
    assert by_queue == {"old": ["1", "2", "3"], "else": ["2", "3", "1"]}
    assert sorted(line.order) == sorted(f"{q}{n}" for q in ("old", "fair", "else") for n in "123")


async def test_queues_of_different_orders_take_turns(rig: Rig) -> None:
    """A flood in one of them starves no other, and two queues of one order count as two."""
    line = Line(rig)
    for number in range(12):
        for queue in ("a", "b", "c"):
            await line.add(f"{queue}{number}", queue=queue)
    await rig.run(concurrency=1, orders={"a": Order.AGE})
    shares = Counter(name[0] for name in line.order[:12])
    assert all(3 <= count <= 5 for count in shares.values()), shares


async def test_a_queue_that_was_idle_does_not_make_up_for_it_beside_another_order(rig: Rig) -> None:
    line = Line(rig)
    for number in range(30):
        await line.add(f"a{number}", queue="a")
    await rig.run(concurrency=1, orders={"a": Order.AGE})
    for number in range(8):
        for queue in ("a", "b"):
            await line.add(f"{queue}+{number}", queue=queue)
    line.order.clear()
    await rig.run(concurrency=1, orders={"a": Order.AGE})
    assert Counter(name[0] for name in line.order[:6]) == {"a": 3, "b": 3}


async def test_of_named_queues_each_has_its_order_and_no_other_is_served(rig: Rig) -> None:
    line = Line(rig)
    for queue in ("a", "b", "c"):
        await line.add(f"{queue}1", queue=queue, priority=1)
        await line.add(f"{queue}2", queue=queue, priority=2)
    await rig.run(concurrency=1, queues=("a", "b"), orders={"a": Order.AGE, "c": Order.AGE})
    assert [name for name in line.order if name[0] == "a"] == ["a1", "a2"]
    assert [name for name in line.order if name[0] == "b"] == ["b2", "b1"]
    assert len(line.order) == 4
