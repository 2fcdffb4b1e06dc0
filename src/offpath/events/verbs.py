"""What an app offers for routers and webhooks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offpath.events.registry import Events
    from offpath.events.router import Router
    from offpath.events.routers import Routers
    from offpath.events.source import Keyset
    from offpath.events.webhook.endpoints import Webhooks


class RoutingVerbs:
    """The routers and webhooks of :class:`offpath.App`."""

    _events: Events

    @property
    def routers(self) -> Routers:
        """The routers that were declared, and the master gate of all."""
        return self._events.routers

    @property
    def webhooks(self) -> Webhooks:
        """Which streams are posted to endpoints, and the endpoints: add, pause, rotate, replay."""
        return self._events.webhooks

    def router(
        self,
        name: str,
        /,
        *,
        domain: str,
        start: str | int,
        partitions: int = 1,
        read: Keyset | None = None,
        safety_lag: float | timedelta = 5.0,
        concurrency: int = 50,
        timeout: float = 20.0,
    ) -> Router:
        """Route the events of a domain: ``iu = app.router("iu", domain="iu", start="beginning")``.

        ``start`` says where it begins when it is new: ``beginning``, ``now`` or a position. Each of
        ``partitions`` has a cursor of its own and the events of its keys. Deliverers outside of the
        database get ``timeout`` seconds, ``concurrency`` of them at once. ``read`` reads a table of
        your own instead of the log, by position and with a ``safety_lag``: its guarantee is weaker.

        A new router's gate is closed until it is opened. Raises ``InvalidArgument``.
        """
        return self._events.routers.declare(
            name,
            domain=domain,
            start=start,
            partitions=partitions,
            read=read,
            safety_lag=safety_lag,
            concurrency=concurrency,
            timeout=timeout,
        )
