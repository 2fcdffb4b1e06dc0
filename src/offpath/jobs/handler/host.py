"""The host of a handler: the worker that runs it, as far as a context needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from offpath.jobs.handler.resources import Resources
    from offpath.jobs.values.run import Run
    from offpath.jobs.values.runnable import Runnable
    from offpath.jobs.values.services import EventWriter, HandlerThreads
    from offpath.runtime.clock import Clock
    from offpath.runtime.codec import Codec
    from offpath.runtime.extensions import Extensions
    from offpath.store.protocol import Store


class Host(Protocol):
    """The worker, as the context of a job that it runs needs it."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    store: Store
    secrets: frozenset[str]
    """Names of fields that no log record shows."""
    writer: EventWriter
    """Makes events."""
    codec: Codec
    """The app's: signals are written with it."""
    threads: HandlerThreads
    """The threads in which blocking functions run."""
    max_result_bytes: int
    max_children: int
    """The most jobs that one attempt queues in one transaction."""
    extensions: Extensions | None
    resources: Resources

    @property
    def tasks(self) -> Mapping[str, Runnable]:
        """The tasks that it knows, by name."""
        ...

    def progressed(self, run: Run) -> None:
        """Note that ``run`` has progress to write."""
        ...
