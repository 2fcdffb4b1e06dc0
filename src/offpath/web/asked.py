"""A request, as far as who decides on it may see: never its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from starlette.requests import Request


class Asked(Struct, frozen=True, kw_only=True):
    """The part of a request that an authenticator and a rate limiter see. Never its body."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    client: str | None
    """The peer's address."""


def asked_of(request: Request) -> Asked:
    """The part of a request that may be seen."""
    return Asked(
        method=request.method,
        path=request.url.path,
        headers=dict(request.headers),
        client=None if request.client is None else request.client.host,
    )
