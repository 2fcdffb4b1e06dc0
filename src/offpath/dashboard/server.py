"""Serving the dashboard by uvicorn: a socket of this machine, a prefix, an end within seconds."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from offpath.errors import ConfigurationError, MissingExtra

if TYPE_CHECKING:
    from starlette.types import ASGIApp

TRUSTED_PROXIES: Final = "FORWARDED_ALLOW_IPS"
"""uvicorn's variable of the peers whose ``X-Forwarded-*`` headers are believed."""
GRACE: Final = 3
"""Seconds that requests have to end after a signal."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ``ConfigurationError`` where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}, port {port}: {error}; --port 0 takes any free one"
        ) from error


def serve(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; ``ready`` is called before the first one."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("the dashboard needs uvicorn", "dashboard") from error
    config = uvicorn.Config(
        app,
        log_level="warning",
        server_header=False,
        lifespan="on",
        # A caller of this machine who names another address in each request would have five guesses
        # for each of them. uvicorn believes such a caller unless it is told otherwise.
        proxy_headers=TRUSTED_PROXIES in os.environ,
        timeout_graceful_shutdown=GRACE,
    )
    # uvicorn raises the signal again when it has ended: that one must not end the process.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: None)
    ready()
    uvicorn.Server(config).run(sockets=[listener])
