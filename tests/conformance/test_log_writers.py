"""Writers of the log that overlap in every way: a router passes each event once, and in order."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Any

import pytest

from offpath.model.effects import Effects
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import fresh_id
from tests.conformance.log_builders import (
    ROUTER,
    decide_all,
    declare,
    event,
    everything,
    read,
    seize,
)

pytestmark = pytest.mark.needs("log")


class Interleaving:
    """A few open transactions that append, commit and roll back, and a router in between."""

    def __init__(self, store: Store, place: Backend, seed: int, partitions: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.place = place
        self.partitions = partitions
        self.open: list[tuple[Any, ExitStack, list[tuple[str, str]]]] = []
        self.committed: set[str] = set()
        self.before: dict[str, set[str]] = {}
        """Of each event, those of its key that were committed when it was appended."""
        self.keys: dict[str, str] = {}
        self.routed: list[str] = []

    def begin(self) -> None:
        if len(self.open) < 5:
            stack = ExitStack()
            self.open.append((stack.enter_context(self.place.transaction()), stack, []))

    def append(self) -> None:
        """One event, in a transaction that may stay open for long."""
        self.begin()
        connection, _, mine = self.random.choice(self.open)
        new = event(key=self.random.choice("abc"))
        assert new.key is not None
        self.before[new.id] = {each for each in self.committed if self.keys[each] == new.key}
        self.keys[new.id] = new.key
        self.store.commit_within_blocking(connection, Effects(log=(new,)))
        mine.append((new.id, new.key))

    def end(self) -> None:
        if not self.open:
            return
        place = self.random.randrange(len(self.open))
        connection, stack, mine = self.open.pop(place)
        if self.random.random() < 0.7:
            connection.commit()
            self.committed |= {each for each, _ in mine}
        stack.close()

    async def route(self) -> None:
        """A run of a partition: everything that is settled, once."""
        partition = self.random.randrange(self.partitions)
        cursor = await seize(self.store, partition, fresh_id())
        page = await read(
            self.store,
            partition=partition,
            after=cursor.position,
            limit=self.random.choice([1, 3, 100]),
        )
        assert not any(each.decided for each in page.events)
        self.routed += [each.id for each in page.events]
        position = page.events[-1].position if page.events else cursor.position
        assert await self.store.advance(cursor, decide_all(page.events, position=position))
        await self.store.release_cursor(cursor)

    async def finish(self) -> None:
        """End every writer, then let the router come to the end."""
        while self.open:
            self.end()
        newest = [each.id for each in await everything(self.store)]
        for _ in range(500):
            if len(self.routed) >= len(newest):
                break
            await self.route()


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("seed", range(3))
async def test_writers_that_overlap_lose_nothing_and_keep_each_keys_order(
    store: Store, caller: Backend, seed: int, partitions: int
) -> None:
    """Cases A2: whatever commits late, whatever is rolled back."""
    if not caller.many_writers:
        pytest.skip("nobody else can write while a transaction is open")
    await declare(store, partitions=partitions)
    world = Interleaving(store, caller, seed, partitions)
    for _ in range(150):
        act = world.random.choice([world.begin, world.append, world.append, world.end, None])
        if act is None:
            await world.route()
        else:
            act()
    await world.finish()

    assert sorted(world.routed) == sorted(world.committed)
    assert len(world.committed) > 20
    place = {each: n for n, each in enumerate(world.routed)}
    for each in world.routed:
        assert all(place[one] < place[each] for one in world.before[each])
    assert len(await store.attempts(ROUTER, limit=1_000)) == len(world.committed)
