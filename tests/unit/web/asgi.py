"""Requests to an ASGI app, as a server hands them over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct


class Answered(Struct, frozen=True):
    """The answer that came back."""

    code: int
    body: bytes
    headers: dict[str, str]

    @property
    def document(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


async def ask(
    app: Any,
    method: str,
    path: str,
    body: bytes | Sequence[bytes] = b"",
    headers: Mapping[str, str] | None = None,
) -> Answered:
    """One request; the body may come in parts, and after the last one nothing comes any more.

    Without other headers it is a program's on this machine, and JSON.
    """
    given_headers = {"host": "localhost", "content-type": "application/json", **(headers or {})}
    parts = [body] if isinstance(body, bytes) else list(body)
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "client": ("10.0.0.9", 1),
        "server": ("testserver", 80),
        "headers": [(name.encode(), value.encode()) for name, value in given_headers.items()],
    }
    ahead = [
        {"type": "http.request", "body": part, "more_body": at < len(parts)}
        for at, part in enumerate(parts, start=1)
    ]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return ahead.pop(0) if ahead else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *rest = sent
    given = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Answered(start["status"], b"".join(one.get("body", b"") for one in rest), given)
