"""The place of the second store in the model-based tests, and how their machines are run there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend

EXAMPLES = int(os.environ.get("OFFPATH_TEST_EXAMPLES", "20"))
PHASES = [Phase.generate]
if "OFFPATH_TEST_SHRINK" in os.environ:  # takes minutes, so only on demand
    PHASES.append(Phase.shrink)


class Place:
    """The place of the second store's jobs: one store for all examples, since opening one costs.

    Each example removes what it made, by calls of the store. Only after one that failed, and may
    have left anything behind, is the place swept.
    """

    def __init__(self, backend: Backend, clock: ManualClock) -> None:
        self._backend = backend
        self._clock = clock
        self._store: Store | None = None
        self.clean = True

    async def empty_store(self) -> Store:
        """The store, without a job in it."""
        if self._store is None or not self.clean:
            await self.close()
            self._store = self._backend.store(self._clock)
            await self._store.open()
            if self._store.capabilities.shared and not self.clean:
                self._backend.sweep()
        self.clean = False
        return self._store

    async def close(self) -> None:
        """Close the store, if one was opened."""
        if self._store is not None:
            await self._store.close()


def play(
    machine: Callable[..., RuleBasedStateMachine], backend: Backend, clock: ManualClock
) -> None:
    """Let a machine make its calls on a place of its own."""
    place = Place(backend, clock)
    with asyncio.Runner() as runner:
        try:
            run_state_machine_as_test(
                cast("type[Any]", partial(machine, runner, clock, place)),
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=40,
                    phases=PHASES,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                    database=None,
                    report_multiple_bugs=False,
                ),
            )
        finally:
            runner.run(place.close())
