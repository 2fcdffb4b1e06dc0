"""The commands that every Python adapter has. It runs in the peer's own environment, so it imports
the standard library alone.

``ADAPTER.py setup``, ``one N``, ``bulk N``, ``paced RATE N``, ``held N`` and ``work``; the last
line of a command that measures is a JSON object. A handler is given ``n`` and ``at``, the monotonic
time in nanoseconds of the call that sent it; 0, where that is not asked; or ``HELD``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Protocol

URL = os.environ["PEER_URL"]
SLOTS = int(os.environ["PEER_SLOTS"])
LIST = 1_000
"""Jobs of one call of ``bulk``."""
HELD = -1
"""The ``at`` of a job that is running when its worker is killed."""
_WARM_UP = 50
_FOR_EVER = 3_600.0
_stays = "PEER_HOLDS" in os.environ

_seen = os.open(os.environ["PEER_SEEN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_first = True


class Peer(Protocol):
    """What an adapter does with its library."""

    async def setup(self) -> None:
        """Make its tables."""

    async def open(self) -> None:
        """Connect as a client."""

    async def close(self) -> None:
        """End that."""

    async def send(self, n: int, at: int) -> None:
        """Enqueue one job, and wait until it is stored."""

    async def bulk(self, numbers: range) -> None:
        """Enqueue one list."""

    async def work(self) -> None:
        """Work until killed."""


def seen(at: int) -> None:
    """Note that a handler has begun: the first of them, and how long a probe has waited."""
    global _first
    now = time.monotonic_ns()
    if at == HELD:
        os.write(_seen, b"held\n")
    elif at:
        os.write(_seen, b"%d\n" % (now - at))
    elif _first:
        _first = False
        os.write(_seen, b"first %d\n" % now)


def stay() -> float:
    """Seconds that the handler of a job with ``HELD`` goes on: until its worker is killed, where
    that is to come.
    """
    return _FOR_EVER if _stays else 0.0


async def until_killed() -> None:
    """Wait as :func:`stay` says."""
    await asyncio.sleep(stay())


async def _one(peer: Peer, count: int) -> dict[str, float]:
    for n in range(_WARM_UP):
        await peer.send(n, 0)
    begun, cpu = time.perf_counter(), time.process_time()
    for n in range(count):
        await peer.send(n, 0)
    return {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}


async def _bulk(peer: Peer, count: int) -> dict[str, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    for first in range(0, count, LIST):
        await peer.bulk(range(first, min(first + LIST, count)))
    return {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}


async def _paced(peer: Peer, rate: float, count: int) -> dict[str, float]:
    """Send at a steady rate, whatever became of the probe before."""
    begun = time.monotonic()
    sending = []
    for n in range(count):
        await asyncio.sleep(max(0.0, begun + n / rate - time.monotonic()))
        sending.append(asyncio.ensure_future(peer.send(n, time.monotonic_ns())))
    await asyncio.gather(*sending)
    return {"seconds": time.monotonic() - begun}


async def _run(peer: Peer, command: str, *values: str) -> None:
    if command == "setup":
        await peer.setup()
        return
    if command == "work":
        await peer.work()
        return
    await peer.open()
    try:
        match command:
            case "one":
                told = await _one(peer, int(values[0]))
            case "bulk":
                told = await _bulk(peer, int(values[0]))
            case "held":
                for n in range(int(values[0])):
                    await peer.send(n, HELD)
                told = {}
            case _:
                told = await _paced(peer, float(values[0]), int(values[1]))
    finally:
        await peer.close()
    print(json.dumps(told), flush=True)


def main(peer: Peer) -> None:
    """Run the command of the command line."""
    asyncio.run(_run(peer, *sys.argv[1:]))
