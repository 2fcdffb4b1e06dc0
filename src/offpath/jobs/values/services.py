"""Services that a context and a worker are given: threads for sync code, a maker of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from offpath.model.new import NewLogEvent, NewMessage


class HandlerThreads(Protocol):
    """The threads in which sync handlers run."""

    def run(self, function: Callable[[], Any], /) -> Awaitable[Any]:
        """Call ``function`` in a thread, with the caller's context variables."""
        ...

    def widen(self) -> None:
        """Allow one thread more: one of them only waits for another call."""
        ...

    def narrow(self) -> None:
        """Allow one thread less, after :meth:`widen`."""
        ...


class EventWriter(Protocol):
    """Makes events from what callers say: the app's."""

    def message(
        self,
        topic: str,
        payload: object = None,
        *,
        key: str | None = None,
        stream: str = "default",
        headers: Mapping[str, str] | None = None,
    ) -> NewMessage:
        """A message for the outbox."""
        ...

    def inbound(
        self,
        source: str,
        key: str,
        payload: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> NewMessage:
        """A message for the inbox."""
        ...

    def log_event(
        self,
        domain: str,
        type: str,  # noqa: A002 - the log's word
        stream: str,
        payload: object = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> NewLogEvent:
        """An event for the log."""
        ...
