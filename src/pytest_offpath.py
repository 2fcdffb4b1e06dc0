"""The pytest plugin of offpath: fixtures for the tests of code that uses it.

Loaded in every pytest run of an environment that has offpath, hence a module of its own that
imports offpath only when a fixture is used: a project that does not test jobs pays nothing for it
and cannot be broken by it.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from offpath import App
    from offpath.jobs.worker.terms import AttemptCounts
    from offpath.testing import ManualClock, MemorySwap
    from offpath.testing.store_swap import StoreSwap


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
def offpath_store(
    request: pytest.FixtureRequest, offpath_clock: ManualClock
) -> Iterator[Callable[[App], StoreSwap[ManualClock]]]:
    """``offpath_store(app)`` lets an app work on an empty store until the test ends.

    It is in memory, unless ``@pytest.mark.offpath(store="postgres")`` wants a schema of the test's
    own in a real Postgres. Its place is ``url=`` of the marker, otherwise OFFPATH_TEST_POSTGRES.
    """
    mark = request.node.get_closest_marker("offpath")
    place = _place_of(mark)
    from offpath.testing import SchemaSwap, swap_to_memory

    with ExitStack() as swaps:

        def swap(app: App) -> StoreSwap[ManualClock]:
            made: StoreSwap[ManualClock]
            if place is None:
                made = swap_to_memory(app, clock=offpath_clock)
            else:
                made = SchemaSwap(app, place, clock=offpath_clock)
            made.install()
            swaps.push(made)
            return made

        yield swap


def _place_of(mark: pytest.Mark | None) -> str | None:
    """The URL of the server that a marker wants; None for memory."""
    terms = {} if mark is None else dict(mark.kwargs)
    store, url = terms.pop("store", "memory"), terms.pop("url", None)
    if store not in {"memory", "postgres"} or terms or (mark is not None and mark.args):
        pytest.fail('write @pytest.mark.offpath(store="memory"), or store="postgres", url=…')
    if store == "memory":
        return None
    found: str | None = url or os.environ.get("OFFPATH_TEST_POSTGRES")
    if found is None:
        missing = "OFFPATH_TEST_POSTGRES names no Postgres for this test"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    return found


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "offpath(store, url): the store that offpath_store swaps to in this test"
    )


@pytest.fixture
def offpath_drain() -> Callable[..., Awaitable[AttemptCounts]]:
    """The function that runs everything due, as ``offpath.testing.drain``: await its call."""
    from offpath.testing import drain

    def run(app: App, **options: Any) -> Awaitable[AttemptCounts]:  # noqa: ANN401 - those of drain
        return drain(app, **options)

    return run
