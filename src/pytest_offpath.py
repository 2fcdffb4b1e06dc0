"""The pytest plugin of offpath: fixtures for the tests of code that uses it.

Loaded in every pytest run of an environment that has offpath, hence a module of its own that
imports offpath only when a fixture is used: a project that does not test jobs pays nothing for it
and cannot be broken by it.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from offpath import App
    from offpath.jobs.worker.terms import AttemptCounts
    from offpath.testing import ManualClock, MemorySwap


@pytest.fixture
def offpath_clock() -> ManualClock:
    """A clock that stands still until the test moves it: ``offpath_clock.advance(60)``."""
    from offpath.testing import ManualClock

    return ManualClock()


@pytest.fixture
def offpath_memory(
    offpath_clock: ManualClock,
) -> Iterator[Callable[[App], MemorySwap[ManualClock]]]:
    """``offpath_memory(app)`` lets an app work in memory until the test ends.

    Its time is ``offpath_clock``, and no worker runs: jobs run in ``offpath_drain``.
    """
    from offpath.testing import swap_to_memory

    with ExitStack() as swaps:

        def swap(app: App) -> MemorySwap[ManualClock]:
            memory = swap_to_memory(app, clock=offpath_clock)
            memory.install()
            swaps.push(memory)
            return memory

        yield swap


@pytest.fixture
def offpath_drain() -> Callable[..., Awaitable[AttemptCounts]]:
    """The function that runs everything due, as ``offpath.testing.drain``: await its call."""
    from offpath.testing import drain

    def run(app: App, **options: Any) -> Awaitable[AttemptCounts]:  # noqa: ANN401 - those of drain
        return drain(app, **options)

    return run
