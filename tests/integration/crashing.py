"""Processes that are killed before the n-th statement of a transition: ``Crasher``.

One process imports everything and forks a child for each crash, which is quick, and safe because
it has no threads. The child builds a scenario on an empty store, and goes as by ``kill -9``.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self, cast

from offpath.runtime.clock import ManualClock
from tests.conformance import test_atomicity_events, test_atomicity_workflows
from tests.conformance.backends import Backend
from tests.conformance.builders import START

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = test_atomicity_events.SCENARIOS | test_atomicity_workflows.SCENARIOS
assert len(SCENARIOS) == sum(
    len(one.SCENARIOS) for one in (test_atomicity_events, test_atomicity_workflows)
), "two have one name"


class Bomb:
    """Kills this process before its ``at``-th statement."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, _: str) -> None:
        """Told of each statement before it is sent."""
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


async def _go(name: str, at: int, backend: Backend) -> None:
    clock = ManualClock(START)
    store = backend.store(clock)
    await store.open()
    call = await SCENARIOS[name](store, clock)
    cast("Any", store)._before_statement = Bomb(at) if at else None
    await call()
    os._exit(0)


class Crasher:
    """Runs scenarios, each in a process of its own. ``with Crasher() as crasher: …``."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.crashing"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def crashed(self, name: str, at: int, backend: Backend) -> bool:
        """Run it; whether it was killed before its ``at``-th statement, rather than went through.

        0 is not a statement.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{at}\t{backend.name}\t{backend.place}\t{name}\n")
        self._process.stdin.flush()
        ended = int(self._process.stdout.readline())
        assert ended in {0, -signal.SIGKILL}
        return ended != 0


def serve() -> None:
    """Fork a child for each line, and say how it ended."""
    for module in ("sqlite", "postgres"):
        importlib.import_module(f"offpath.store.{module}")
    importlib.import_module("psycopg_pool")
    for line in sys.stdin:
        at, kind, place, name = line.rstrip("\n").split("\t")
        child = os.fork()
        if not child:
            asyncio.run(_go(name, int(at), Backend(kind, place)))
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{ended}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
