"""Receivers of events in tests, and a store whose answers get lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from offpath.events import Event
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore

PATIENCE = 5.0
"""Real seconds after which a wait has failed."""


class UncertainStore(MemoryStore):
    """Answers settles with the errors that are set, before or after they were carried out."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.errors: list[Exception] = []
        self.after = False
        self.settles: list[int] = []

    async def settle_messages(self, settlements: Any) -> Any:
        self.settles.append(len(settlements))
        if self.errors and not self.after:
            raise self.errors.pop(0)
        answers = await super().settle_messages(settlements)
        if self.errors:
            raise self.errors.pop(0)
        return answers


class Recipient:
    """A dispatcher that notes what it gets and fails as it is told."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.failing: dict[Any, list[Exception]] = {}
        self.gate = asyncio.Event()
        self.held: set[Any] = set()

    async def __call__(self, event: Event) -> None:
        self.seen.append(event.payload)
        if event.payload in self.held:
            await self.gate.wait()
        if errors := self.failing.get(event.payload):
            raise errors.pop(0)


async def ticks(count: int) -> None:
    """Let everything happen that waits for no time."""
    for _ in range(count):
        await asyncio.sleep(0)


async def within(call: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.wait_for(call, PATIENCE)
