"""A visit: one request behind the doors, and the places that its links are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from msgspec import Struct

from offpath.web.viewers import Viewer

if TYPE_CHECKING:
    from starlette.requests import Request

_KEY = "offpath.visit"
API = "/api/"


class Visit(Struct, frozen=True):
    """A request that was let in."""

    viewer: Viewer
    top: str
    """The path at which the whole console is mounted, quoted; empty at the root."""


def keep(scope: Any, visit: Visit) -> None:  # noqa: ANN401 - ASGI's own
    """Keep the visit with its request."""
    scope[_KEY] = visit


def visit_of(request: Request) -> Visit:
    """The visit of a request that was let in."""
    return cast("Visit", request.scope[_KEY])


def base_of(request: Request) -> str:
    """The path before every link of the database that is looked at, quoted."""
    return quote(request.scope.get("root_path", "").rstrip("/"))


def route_of(request: Request) -> str:
    """The path of a request without the prefix at which the app that answers is mounted."""
    root: str = request.scope.get("root_path", "").rstrip("/")
    path: str = request.scope["path"]
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def wants_json(request: Request) -> bool:
    """True if a program asks: below ``/api``, or for JSON rather than for a page."""
    if API in f"{route_of(request)}/":
        return True
    accepted = request.headers.get("accept", "")
    return "json" in accepted and "html" not in accepted
