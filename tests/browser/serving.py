"""The dashboard behind a real server, in a thread, for a real browser."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from playwright.async_api import Page

from offpath.web import auth, dashboard
from tests.chromium import chromium

CHROMIUM = chromium() or "/usr/bin/chromium"
TOKEN = "a token of the tests, long enough"


class Served:
    """A running dashboard."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    async def sign_in(self, page: Page) -> None:
        """Sign in as a person does."""
        await page.goto(f"{self.url}/")
        await page.get_by_label("Token").fill(TOKEN)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_selector("#live")


@contextlib.contextmanager
def served(app: Any, *, can: Any = auth.OPERATOR, **terms: Any) -> Iterator[Served]:
    """Serve it on a free port of this machine, until the end."""
    site = dashboard(app, auth=auth.token(TOKEN, can=can), **terms)
    config = uvicorn.Config(site, log_level="warning", lifespan="on")
    server = uvicorn.Server(config)
    # It listens from now on: who comes before the server has started waits a moment.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield Served(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(20)
