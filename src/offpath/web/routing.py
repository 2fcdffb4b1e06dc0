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

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from offpath.web.economy import Service


def app(
    service: Service, webhooks: Mapping[str, ASGIApp], cors_origins: tuple[str, ...]
) -> Starlette:
    """The app: routes, doors of providers, and CORS where origins are listed."""
    cors = Middleware(CORSMiddleware, allow_origins=cors_origins, allow_methods=["POST", "GET"])
    return Starlette(
        routes=[
            Route("/submit", service.submit, methods=["POST"]),
            Route("/healthz", service.healthz, methods=["GET"]),
            Route("/readyz", service.readyz, methods=["GET"]),
            Route("/openapi.json", service.openapi, methods=["GET"]),
            *(
                Route(f"/webhooks/{name}", Admitted(service, door))
                for name, door in webhooks.items()
            ),
        ],
        middleware=[cors] if cors_origins else [],
        exception_handlers={404: service.missing, 405: service.missing},
    )


class Admitted:
    """A door behind the rate limiter."""

    def __init__(self, service: Service, door: ASGIApp) -> None:
        self._service = service
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._door(scope, receive, send)
            return
        refused: Response | None = await self._service.refused(Request(scope, receive))
        await (refused or self._door)(scope, receive, send)
