"""The verbs of an app for routers and webhooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from offpath.config import Settings
    from offpath.events.door import Door, Key, Verifies, Verify
    from offpath.events.inbox import Accepted
    from offpath.events.registry import Events
    from offpath.events.router import Router
    from offpath.events.routers import Routers
    from offpath.events.source import Keyset
    from offpath.events.webhook.endpoints import Webhooks


class DoorHome(Protocol):
    """The app, as the inbox door needs it."""

    settings: Settings
    _events: Events

    async def accept(
        self,
        source: str,
        key: str,
        payload: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Accepted:
        """Store a message once per source and key."""
        ...


class RoutingVerbs:
    """The routers and webhooks of :class:`offpath.App`."""

    _events: Events

    @property
    def routers(self) -> Routers:
        """The routers that were declared, and the master gate of all."""
        return self._events.routers

    @property
    def webhooks(self) -> Webhooks:
        """The streams that are posted to endpoints, and the endpoints: add, pause, rotate,
        replay.
        """
        return self._events.webhooks

    def router(  # noqa: PLR0913 - each is a choice of its own
        self,
        name: str,
        /,
        *,
        domain: str,
        start: str | int | tuple[Any, ...],
        partitions: int = 1,
        read: Keyset | None = None,
        table: str | None = None,
        order: Sequence[str] = (),
        columns: Mapping[str, str] | None = None,
        safety_lag: float | timedelta = 5.0,
        concurrency: int = 50,
        timeout: float = 20.0,
    ) -> Router:
        """Route the events of a domain: ``iu = app.router("iu", domain="iu", start="beginning")``.

        ``start`` says where it begins when it is new: ``beginning``, ``now`` or a position. Each of
        ``partitions`` has a cursor of its own and the events of its keys. Deliverers outside of the
        database get ``timeout`` seconds, ``concurrency`` of them at once.

        ``table`` with ``order`` reads a table of your own in this database instead of the log, and
        ``columns`` says which of its columns are ``id``, ``type``, ``payload``, ``at``, ``stream``
        and ``key``. ``read`` asks a function of yours. Both read by position and with a
        ``safety_lag``: the guarantee is weaker than the log's.

        A new router's gate is closed until it is opened. Raises ``InvalidArgument``.
        """
        return self._events.routers.declare(
            name,
            domain=domain,
            start=start,
            partitions=partitions,
            read=read,
            table=table,
            order=order,
            columns=columns,
            safety_lag=safety_lag,
            concurrency=concurrency,
            timeout=timeout,
        )

    def inbox_door(
        self: DoorHome,
        source: str,
        /,
        *,
        verifier: Verifies | Verify,
        key: Key | None = None,
        keep_headers: Collection[str] = (),
        most_bytes: int | None = None,
        timeout: float | timedelta = 30.0,
    ) -> Door:
        """An ASGI app that accepts what a source posts: give it a route, or to a server.

        ``verifier`` is an :class:`Verifier`, or a function ``(body, headers)``, sync or
        async, that raises :class:`BadSignature` or returns the message's id. ``key`` finds
        the key in an :class:`Incoming`; without it the id is the key, for Standard Webhooks
        their ``webhook-id``. ``keep_headers`` names headers that the handler gets with the message.

        A post is verified, then accepted, and never applied here. It is answered 202 ``accepted``
        or 200 ``duplicate``; 401 when it is not genuine or too old, 413 over ``most_bytes``
        (``max_input_bytes``), 408 when its body takes longer than ``timeout`` seconds, 400 when it
        is not JSON or has no key, and 503 with ``Retry-After`` while the store is away.

        Raises ``InvalidArgument``.
        """
        from offpath.events.door import Door

        return Door(
            source,
            verifier=verifier,
            key=key,
            accept=self.accept,
            report=self._events.report,
            most_bytes=most_bytes or self.settings.max_input_bytes,
            timeout=timeout,
            keep_headers=keep_headers,
            verbatim=self._events.plain_json,
        )
