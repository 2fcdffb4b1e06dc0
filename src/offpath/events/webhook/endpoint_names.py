"""The names of endpoints, looked up for aiohttp in threads that handlers do not use."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from aiohttp.abc import AbstractResolver, ResolveResult

if TYPE_CHECKING:
    from offpath.runtime.resolver import Resolver


class EndpointNames(AbstractResolver):
    """aiohttp's view of our resolver. A name that is slow costs the posts to it, and no others."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of an endpoint's host. Raises ``OSError``."""
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=found,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found, _, protocol, _, address in await self._resolver.resolve(host, port, family)
        ]

    async def close(self) -> None:
        """Nothing is open."""
