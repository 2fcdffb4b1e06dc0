"""Looking names up: bounded in time and threads, and no name holds up another."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from offpath.runtime.clock import ManualClock
from offpath.runtime.resolver import Found, NameNotFound, Resolver


class Names:
    """A resolver's names: one that begins with ``slow`` hangs until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began = threading.Event()
        self.asked: Counter[str] = Counter()

    def __call__(self, host: str, port: int, family: int) -> Found:
        del family
        self.asked[host] += 1
        self.began.set()
        if host.startswith("slow"):
            assert self.go.wait(10)
        if host.startswith("bad"):
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port))]


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.go.set()


async def _time_passes(clock: ManualClock, seconds: float, sleepers: int) -> None:
    while clock.sleeping < sleepers:  # noqa: ASYNC110 - nothing tells of a sleeper
        await asyncio.sleep(0)
    clock.advance(seconds)


async def test_a_name_that_hangs_takes_one_thread_and_no_more_than_its_time(names: Names) -> None:
    clock = ManualClock()
    resolver = Resolver(limit=2, patience=2.0, clock=clock, lookup=names)
    asking = [asyncio.create_task(resolver.resolve("slow.example", 80)) for _ in range(10)]
    await asyncio.sleep(0)
    assert await asyncio.to_thread(names.began.wait, 10)  # a busy machine starts threads late
    await _time_passes(clock, 2.0, 10)
    for task in asking:
        with pytest.raises(NameNotFound, match=r"slow\.example was not found: no answer within 2"):
            await task
    found = await resolver.resolve("good.example", 443)
    assert found[0][4] == ("192.0.2.1", 443)
    assert names.asked == {"slow.example": 1, "good.example": 1}


async def test_a_name_that_is_not_found_is_not_asked_for_again_at_once(names: Names) -> None:
    clock = ManualClock()
    resolver = Resolver(clock=clock, lookup=names)
    for _ in range(3):
        with pytest.raises(NameNotFound, match="gaierror"):
            await resolver.resolve("bad.example", 80)
    assert names.asked["bad.example"] == 1
    clock.advance(2.5)
    with pytest.raises(NameNotFound):
        await resolver.resolve("bad.example", 80)
    assert names.asked["bad.example"] == 2


async def test_what_answers_late_is_known_to_the_next_who_asks(names: Names) -> None:
    clock = ManualClock()
    resolver = Resolver(patience=2.0, clock=clock, lookup=names)
    first = asyncio.create_task(resolver.resolve("slow.example", 80))
    await _time_passes(clock, 2.0, 1)
    with pytest.raises(NameNotFound):
        await first
    clock.advance(2.5)
    second = asyncio.create_task(resolver.resolve("slow.example", 80))
    names.go.set()
    assert (await second)[0][4] == ("192.0.2.1", 80)
    assert names.asked["slow.example"] == 1
