"""The routes of the economy's service. The only module that needs Starlette to be imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from offpath.model.correlation import HEADER

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from offpath.economy.web.service import Service


def app(
    service: Service, webhooks: Mapping[str, ASGIApp], cors_origins: tuple[str, ...]
) -> Starlette:
    """The app: routes, doors of providers, and CORS where origins are listed."""
    cors = Middleware(
        CORSMiddleware,
        allow_origins=cors_origins,
        allow_methods=["POST", "GET"],
        allow_headers=["authorization"],
    )
    return Starlette(
        routes=[
            Route("/submit", service.submit, methods=["POST"]),
            Route("/healthz", service.healthz, methods=["GET"]),
            Route("/readyz", service.readyz, methods=["GET"]),
            Route("/openapi.json", service.openapi, methods=["GET"]),
            *(
                Route(f"/webhooks/{name}", LimitedRoute(service, door))
                for name, door in webhooks.items()
            ),
        ],
        middleware=[cors] if cors_origins else [],
        exception_handlers={404: service.missing, 405: service.missing},
    )


class LimitedRoute:
    """A door behind the rate limiter, whose answers have the request's id as all others do."""

    def __init__(self, service: Service, door: ASGIApp) -> None:
        self._service = service
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._door(scope, receive, send)
            return
        request = Request(scope, receive)
        refused: Response | None = await self._service.refused(request)
        if refused is not None:
            await refused(scope, receive, send)
            return
        found_by = (HEADER.encode(), self._service.correlation(request).encode())
        # The door is told the same id: it keeps it for what the delivery will have caused.
        own = [pair for pair in scope["headers"] if pair[0].lower() != found_by[0]]
        told = {**scope, "headers": [*own, found_by]}
        await self._door(told, receive, _answering(send, found_by))


def _answering(send: Send, header: tuple[bytes, bytes]) -> Send:
    """Send answers with a header more."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return sent
