"""Posting: the bytes that were signed go out, and the receiver's answer comes back as a value."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Raw, Struct, json

from offpath.errors import MissingExtra
from offpath.events.dispatcher import NO_HEADERS
from offpath.events.webhook.guard import Guard
from offpath.events.webhook.keyring import Keyring, SecretKeyMissing
from offpath.events.webhook.signature import signed_headers, signer
from offpath.model.endpoint import Endpoint
from offpath.model.webhook import LIMIT, Answer, Refused, judged, waiting
from offpath.runtime.baggage import TRACE
from offpath.runtime.resolver import Resolver

if TYPE_CHECKING:
    import aiohttp

    from offpath.runtime.clock import Clock

_headers = json.Decoder(dict[str, str]).decode
_OURS: Final = frozenset({"content-type", "user-agent", "content-length", "host"})
_TRACE: Final = frozenset({TRACE, "tracestate"})
"""The headers of W3C Trace Context."""
AGENT: Final = "offpath-webhooks/1"


class Post(Struct, frozen=True):
    """One post: where to, under which id, and which bytes."""

    endpoint: Endpoint
    id: str
    body: bytes
    topic: str = ""
    attempt: int = 1
    headers: Mapping[str, str] = NO_HEADERS
    """The headers beside the endpoint's own and ours."""


NAMES_AT_ONCE: Final = 64
"""Names that may be looked up at once: so many may hang before others have to wait."""


class Poster(Protocol):
    """Posts; a test may have its own."""

    async def post(self, post: Post) -> Answer:
        """The receiver's answer. Raises nothing but a cancellation."""
        ...

    async def close(self) -> None:
        """Let the connections go."""
        ...


class HttpPoster:
    """Posts with aiohttp, one session for all endpoints of a process.

    Raises ``MissingExtra`` when it is made without aiohttp, so that no delivery is tried for it.
    """

    def __init__(
        self,
        guard: Guard,
        clock: Clock,
        *,
        time_limit: float = LIMIT,
        keyring: Keyring | None = None,
    ) -> None:
        require_aiohttp()
        self._keyring = keyring or Keyring()
        self._guard = guard
        self._clock = clock
        self._time_limit = time_limit
        self._resolver = Resolver(limit=NAMES_AT_ONCE, name="offpath-webhook-name")
        self._session: aiohttp.ClientSession | None = None

    async def post(self, post: Post) -> Answer:
        """Post and judge. A redirect is not followed; the answer's body is not read."""
        try:
            self._guard.check_url(post.endpoint.url)
            async with asyncio.timeout(self._time_limit):
                return await self._send(self._opened(), post)
        except TimeoutError:
            return Refused(f"no answer within {self._time_limit:g} s")
        except OSError as error:
            return Refused(f"not reached: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001 - a post's fault is its message's, not the poster's
            return Refused(_said(error))

    async def _send(self, session: aiohttp.ClientSession, post: Post) -> Answer:
        response = await session.post(
            post.endpoint.url,
            data=post.body,
            headers=self._headers(post),
            allow_redirects=False,
        )
        try:
            now = self._clock.now()
            asked = response.headers.getall("Retry-After", [])
            # of several the longest: who answers so wants no post before it
            longest = max(asked, key=lambda one: waiting(one, now) or -1.0, default=None)
            return judged(response.status, longest, now)
        finally:
            # what a receiver says is of no interest, and may never end
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    def _headers(self, post: Post) -> dict[str, str]:
        signers = [signer(secret) for secret in self._keyring.opened(post.endpoint.secrets)]
        own = _headers(post.endpoint.headers)
        # here, behind all extensions, and also for what was planned before it was declined
        given = post.headers if post.endpoint.trace else _without_trace(post.headers)
        return {
            **_without_ours(given),
            **_without_ours(own),
            "Content-Type": "application/json",
            "User-Agent": AGENT,
            **signed_headers(post.id, self._clock.now(), post.body, signers),
        }

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = _new_session(self._guard, self._resolver)
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _without_ours(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in _OURS and not name.lower().startswith("webhook-")
    }


def _without_trace(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _TRACE}


def require_aiohttp() -> None:
    """Raise ``MissingExtra`` when webhooks cannot be posted from here."""
    try:
        import aiohttp  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise MissingExtra("posting webhooks needs aiohttp", "webhooks") from error


def body_of(topic: str, at: str, payload: str) -> bytes:
    """The body of an event: ``type``, ``timestamp`` and ``data``, as the specification advises.

    A payload that is not JSON (a codec of the user's) is told as a text.
    """
    try:
        data: object = json.decode(payload, type=Raw)
    except ValueError:
        data = payload
    return json.encode({"type": topic, "timestamp": at, "data": data})


def _new_session(guard: Guard, resolver: Resolver) -> aiohttp.ClientSession:
    import aiohttp

    from offpath.events.webhook.endpoint_names import EndpointNames

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0,
            limit_per_host=0,
            socket_factory=guard.socket_factory,
            ttl_dns_cache=30,
            resolver=EndpointNames(resolver),
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None),
    )


def _said(error: Exception) -> str:
    """The record of an error; the URL, which may hold a secret path, is not in it."""
    if isinstance(error, MissingExtra | SecretKeyMissing):
        return f"not posted: {error}"
    cause = error.__cause__ or error
    return f"not posted: {type(cause).__name__}"
