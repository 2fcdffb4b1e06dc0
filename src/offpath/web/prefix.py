"""Standing below a path that a router, or a proxy, has taken away without saying so."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def under(app: ASGIApp, prefix: str) -> ASGIApp:
    """The app below a prefix, whether it is taken away before, or left.

    Routers of Starlette's family say where they have mounted an app, and need none of this. Others
    take the prefix away and say nothing, so that every link would miss it, and may append a slash.
    """
    root = f"/{prefix.strip('/')}" if prefix.strip("/") else ""
    if not root:
        return app

    async def placed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "root_path": root, "path": _path(scope, root)}
        await app(scope, receive, send)

    return placed


def _path(scope: Scope, root: str) -> str:
    """The path with the prefix, as it was asked for."""
    raw: bytes = scope.get("raw_path") or b""
    given: str = scope["path"]
    for path in (unquote(raw.decode("latin-1")), given):
        if path == root or path.startswith(f"{root}/"):
            return path
    return root + given
