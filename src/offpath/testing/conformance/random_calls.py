"""Random calls on a store and on memory: both must answer alike."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from offpath.model.effects import Effects
from offpath.model.job import LeasedJob
from offpath.model.lease import Order
from offpath.model.settlement import Outcome, Released, Retry, Snoozed, Succeeded
from offpath.store.capabilities import Profile
from offpath.store.memory import MemoryStore
from offpath.store.protocol import JobRedrive, Store
from offpath.testing.conformance.bench import LEASE, Bench, contract, worker_info

T = TypeVar("T")

SEEDS, CALLS = 10, 40
"""Runs, and the calls of each."""


class RandomTests:
    """The comparison with memory."""

    @contract()
    async def test_random_calls_are_answered_as_memory_does(
        self, bench: Bench, store: Store
    ) -> None:
        memory = MemoryStore(bench.clock)
        await memory.open()
        for seed in range(SEEDS):
            await _Series(bench, (store, memory), random.Random(seed)).go()
        await memory.close()

    @contract(Profile.DISPATCH)
    async def test_random_calls_in_every_order_are_answered_as_memory_does(
        self, bench: Bench, store: Store
    ) -> None:
        memory = MemoryStore(bench.clock)
        await memory.open()
        for seed in range(SEEDS):
            await _Series(bench, (store, memory), random.Random(seed), tuple(Order)).go()
        await memory.close()


class _Series:
    """One series of calls, the same on both stores."""

    def __init__(
        self,
        bench: Bench,
        stores: tuple[Store, Store],
        chance: random.Random,
        orders: tuple[Order, ...] = (Order.PRIORITY,),
    ) -> None:
        self.bench, self.stores, self.chance, self.orders = bench, stores, chance, orders
        self.ids: list[str] = []
        self.held: list[LeasedJob] = []

    async def go(self) -> None:
        """Make the calls, and compare each answer, and every job at the end."""
        often, seldom = (self.add, self.lease, self.end), (self.cancel, self.redrive)
        steps = [*often * 2, self.end, *seldom, self.rescue, self.wait]
        await self.join()
        for _ in range(CALLS):
            await self.chance.choice(steps)()
        await self.alike(lambda one: one.states(self.ids))
        records = [await one.get(sorted(self.ids)) for one in self.stores]
        assert records[0] == records[1]
        for one in self.stores:  # the next series begins without what this one left
            await one.cancel(self.ids)
            await one.deregister("w1")
            await one.rescue(limit=1000, max_deliveries=1000)

    async def alike(self, call: Callable[[Store], Awaitable[T]]) -> T:
        """The answer that both give."""
        mine, memory = [await call(one) for one in self.stores]
        assert mine == memory
        return mine

    async def listed_alike(self, call: Callable[[Store], Awaitable[Sequence[object]]]) -> None:
        """Both give the same list; in which order is not told."""
        mine, memory = [sorted(map(repr, await call(one))) for one in self.stores]
        assert mine == memory

    async def add(self) -> None:
        """Commit a job, sometimes one that is known."""
        delay = self.chance.choice([0.0, 5.0])
        key = self.chance.choice([None, "a", "b"]) if len(self.orders) > 1 else None
        job = self.bench.job(priority=self.chance.randrange(3), delay=delay, fair_key=key)
        if self.ids and self.chance.random() < 0.2:
            job = self.bench.job(id=self.chance.choice(self.ids))
        await self.alike(lambda one: one.commit(Effects(jobs=(job,))))
        self.ids = list(dict.fromkeys([*self.ids, job.id]))

    async def lease(self) -> None:
        """Take some jobs."""
        limit = self.chance.randrange(1, 4)
        order = self.chance.choice(self.orders)
        self.held += await self.alike(lambda one: self._taken(one, limit, order))

    async def _taken(self, store: Store, limit: int, order: Order) -> tuple[LeasedJob, ...]:
        # whether asking again may give more is a hint, and may be wrong
        return (await self.bench.ask(store, limit=limit, order=order)).jobs

    async def end(self) -> None:
        """End a job that was once held, in any way, once or again."""
        if not self.held:
            return
        job = self.chance.choice(self.held)
        outcomes: list[Outcome] = [
            Succeeded(result="1"),
            Retry(delay=5.0, failure=self.bench.failure()),
            Snoozed(delay=5.0),
            Released(),
            self.bench.dead(),
        ]
        outcome = self.chance.choice(outcomes)
        await self.alike(lambda one: self.bench.end(one, job, outcome))

    async def cancel(self) -> None:
        """Cancel some jobs."""
        chosen = [each for each in self.ids if self.chance.random() < 0.2]
        await self.listed_alike(lambda one: one.cancel(chosen))

    async def redrive(self) -> None:
        """Put some jobs back."""
        chosen = [JobRedrive(id=each) for each in self.ids if self.chance.random() < 0.2]
        await self.listed_alike(lambda one: one.redrive(chosen))

    async def rescue(self) -> None:
        """Lose the worker, and have it come again."""
        self.bench.clock.advance(LEASE + 1)
        await self.listed_alike(lambda one: one.rescue(limit=100, max_deliveries=1000))
        await self.join()

    async def join(self) -> None:
        """Register the worker. Whether its death can be seen early is not the same everywhere."""
        for one in self.stores:
            await one.register(worker_info("w1"), lease_seconds=LEASE)

    async def wait(self) -> None:
        """Let time pass, and the worker live."""
        self.bench.clock.advance(self.chance.choice([1, 5]))
        await self.alike(lambda one: one.extend(worker_info("w1"), lease_seconds=LEASE, held=()))
