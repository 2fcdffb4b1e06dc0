"""Jobs in the tests of ``unittest``: the verbs of this package as methods, each blocking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from offpath.testing.assertions import assert_enqueued, enqueued, refute_enqueued
from offpath.testing.due_work import drain_blocking
from offpath.testing.memory_swap import MemorySwap, swap_to_memory
from offpath.testing.single_attempt import perform
from offpath.testing.time_passage import pass_time

if TYPE_CHECKING:
    from datetime import timedelta

    from offpath.app import App
    from offpath.jobs.values.job import Job
    from offpath.jobs.worker.terms import AttemptCounts
    from offpath.model.job import JobRecord
    from offpath.runtime.clock import ManualClock

S = TypeVar("S")


class MemoryTests:
    """A mixin for ``unittest.TestCase``: the app works in memory in each test.

    ::

        class Orders(MemoryTests, unittest.TestCase):
            offpath_app = jobs

            def test_an_order_sends_a_receipt(self) -> None:
                place_order("A-1")
                self.assert_enqueued(send_receipt.job("A-1"))
                self.drain()

    In an ``IsolatedAsyncioTestCase`` write ``await self.enterAsyncContext(swap_to_memory(app))``,
    and use the functions themselves.
    """

    offpath_app: ClassVar[App]
    memory: MemorySwap[ManualClock]

    def setUp(self) -> None:
        """Put a store in memory in the place of the app's."""
        super().setUp()  # type: ignore[misc] # that of the test case
        self.memory = swap_to_memory(self.offpath_app)
        self.enterContext(self.memory)  # type: ignore[attr-defined] # as above

    def drain(self, **options: Any) -> AttemptCounts:  # noqa: ANN401 - those of drain
        """Run what is due, sync handlers in this thread: see :func:`drain_blocking`."""
        return drain_blocking(self.offpath_app, **options)

    def perform(self, job: Job[S, Any], /, *, timeout: float = 30.0) -> S:
        """Run one attempt of one job: see :func:`offpath.testing.perform`."""
        app = self.offpath_app
        return app.blocking.run(lambda: perform(app, job, timeout=timeout))

    def pass_time(self, seconds: float | timedelta) -> None:
        """Move the time on, and run what falls due on the way."""
        app = self.offpath_app
        app.blocking.run(lambda: pass_time(app, self.memory.clock, seconds))

    def enqueued(self, **where: Any) -> list[JobRecord]:  # noqa: ANN401 - those of enqueued
        """Every job in the store: see :func:`offpath.testing.enqueued`."""
        return self.offpath_app.blocking.run(lambda: enqueued(self.offpath_app, **where))

    def assert_enqueued(self, wanted: Any, /, **terms: Any) -> list[JobRecord]:  # noqa: ANN401 - as above
        """Assert that jobs were enqueued: see :func:`offpath.testing.assert_enqueued`."""
        app = self.offpath_app
        return app.blocking.run(lambda: assert_enqueued(app, wanted, **terms))

    def refute_enqueued(self, wanted: Any, /, **terms: Any) -> None:  # noqa: ANN401 - as above
        """Assert that no such job was enqueued."""
        app = self.offpath_app
        app.blocking.run(lambda: refute_enqueued(app, wanted, **terms))
