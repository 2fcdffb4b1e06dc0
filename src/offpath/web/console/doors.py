"""The doors of the console: who is let in, from where, and with which headers everybody leaves.

All of it is here and comes before any route, so that a new page is closed without being told so.
"""

from __future__ import annotations

import ipaddress
import logging
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote, urlsplit

from msgspec import Struct
from starlette.requests import Request

from offpath.errors import TaskError
from offpath.model.browsers import named_host, to_loopback
from offpath.runtime.seats import asked as answer_of
from offpath.web.asked import asked_of
from offpath.web.console.answers import stopped
from offpath.web.console.attempts import Attempts
from offpath.web.console.renderer import Pages
from offpath.web.console.sign_in import COOKIE, Cookies
from offpath.web.console.stops import Stop
from offpath.web.console.visits import Visit, keep, route_of, wants_json
from offpath.web.viewers import OPERATOR, Authenticate, Can, Viewer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("offpath.dashboard")

MOST_AT_ONCE: Final = 32
MOST_STRANGERS: Final = 4
"""The seats of pages without credentials, as the sign-in's: a stranger who sends a body slowly
takes none from whoever is known.
"""
MOST_QUERY: Final = 8_192
"""Bytes of a query."""
SAFE: Final = frozenset({"GET", "HEAD"})
ALIVE: Final = "/healthz"
OPEN: Final = frozenset({ALIVE, "/readyz", "/sign-in"})
ASSETS: Final = "/assets/"
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
NOBODY: Final = Viewer("somebody on this machine", OPERATOR)
"""The viewer where nobody is asked who they are."""


class DoorRules(Struct, frozen=True, kw_only=True):
    """The rules of the doors."""

    authenticate: Authenticate | Literal[False]
    """False: everybody who reaches this machine's own address."""
    hosts: Collection[str] = ()
    """Host names that are answered; none: any."""
    loopback: bool = False
    """True: only names of this machine are answered, so that no page of the internet reaches it
    by a name of its own that leads here."""


class Doors:
    """An ASGI app that lets requests through to another one."""

    def __init__(
        self,
        inner: ASGIApp,
        rules: DoorRules,
        *,
        pages: Pages,
        cookies: Cookies | None,
        attempts: Attempts,
    ) -> None:
        self._inner = inner
        self._rules = rules
        self._pages = pages
        self._cookies = cookies
        self._attempts = attempts
        self._now = 0
        self._strangers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, _leaving(send))
        else:  # there is no websocket here: an end before the handshake is a 403
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        stranger = route_of(request) in OPEN
        self._now += 1
        self._strangers += stranger
        try:
            await self._let_in(request)
            await self._inner(scope, receive, send)
        except Stop as stop:
            await stopped(request, stop, self._pages)(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - somebody waits for an answer
            # What it says may hold anything: the log has it, the answer does not.
            _log.exception("%s %s", request.method, route_of(request), exc_info=error)
            broken = Stop(500, "INTERNAL", "Something is wrong here; the log has it.")
            await stopped(request, broken, self._pages)(scope, receive, send)
        finally:
            self._now -= 1
            self._strangers -= stranger

    async def _let_in(self, request: Request) -> None:
        top = quote(request.scope.get("root_path", "").rstrip("/"))
        self._bound(request)
        self._check_host(request)
        if request.method not in SAFE:
            _refuse_forgery(request, self._rules.hosts)
        route = route_of(request)
        if route in OPEN or route.startswith(ASSETS):
            return
        viewer = await self._viewer(request)
        if request.method in SAFE and Can.READ not in viewer.can:
            raise Stop(403, "RIGHT.MISSING", "To look needs the right 'read', which you lack.")
        keep(request.scope, Visit(viewer, top))

    def _bound(self, request: Request) -> None:
        # a database that hangs fills the seats with those who wait for it: the process lives
        crowded = self._strangers > MOST_STRANGERS and route_of(request) in OPEN
        if (self._now > MOST_AT_ONCE or crowded) and route_of(request) != ALIVE:
            raise Stop(503, "BUSY", "Too many ask at once.", retryable=True, retry_after="1")
        if len(request.scope.get("query_string", b"")) > MOST_QUERY:
            raise Stop(414, "QUERY_TOO_LONG", f"The query is longer than {MOST_QUERY} bytes.")

    def _check_host(self, request: Request) -> None:
        rules = self._rules
        if to_loopback(request.headers) and (rules.loopback or rules.hosts):
            return
        listed = bool(rules.hosts) and named_host(request.headers.get("host", "")) in rules.hosts
        if (rules.loopback or rules.hosts) and not listed:
            text = "This name is not one of the dashboard's: ask by localhost, or allow_hosts."
            raise Stop(403, "HOST.UNKNOWN", text)

    async def _viewer(self, request: Request) -> Viewer:
        if self._rules.authenticate is False:
            if not _from_here(_address(request)):
                raise Stop(
                    403,
                    "PEER.FOREIGN",
                    "Without auth only this machine is answered: give auth=, to let others in.",
                )
            return NOBODY
        if self._cookies is not None and (known := self._cookies.viewer(request)):
            return known
        found = await self._asked(self._rules.authenticate, request)
        if found is None:
            raise self._unknown(request)
        return found

    async def _asked(self, authenticate: Authenticate, request: Request) -> Viewer | None:
        address = _address(request)
        given = "authorization" in request.headers
        if given and (seconds := self._attempts.wait_for(address)) is not None:
            raise too_many(seconds)
        found: object = await answer_of(authenticate, asked_of(request))
        if found is None and given:
            self._attempts.wrong(address)
        if found is not None and not isinstance(found, Viewer):
            raise TaskError(
                f"the authenticator returned {type(found).__name__}: a Viewer, or None for nobody"
            )
        return found

    def _unknown(self, request: Request) -> Stop:
        """The way to sign in, for people; 401 for programs."""
        authenticate = self._rules.authenticate
        challenge = getattr(authenticate, "challenge", None)
        headers = {"www_authenticate": challenge} if challenge else {}
        if not wants_json(request) and (place := self._sign_in_page(request)):
            return Stop(303, "AUTH.SIGN_IN", "Sign in first.", location=place)
        return Stop(401, "AUTH.UNAUTHORIZED", "Nobody is known by these credentials.", **headers)

    def _sign_in_page(self, request: Request) -> str | None:
        if self._cookies is not None:
            route, query = route_of(request), request.url.query
            back = f"{route}?{query}" if query else route
            top = quote(request.scope.get("root_path", "").rstrip("/"))
            return f"{top}/sign-in?next={quote(back, safe='')}"
        login: str | None = getattr(self._rules.authenticate, "login_url", None)
        return login


def too_many(seconds: float) -> Stop:
    """The answer to whoever has guessed too often."""
    text = "Too many wrong tokens from this address: wait a minute."
    wait = str(max(1, math.ceil(seconds)))
    return Stop(429, "AUTH.TOO_MANY", text, retryable=True, retry_after=wait)


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _from_here(address: str) -> bool:
    """True for a peer on this machine. A caller writes the Host header, and not its address.

    A socket of this machine and a test have no address.
    """
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return True
    mapped = getattr(known, "ipv4_mapped", None)
    return bool((mapped or known).is_loopback)


def _refuse_forgery(request: Request, hosts: Collection[str]) -> None:
    """Refuse what another site's page may have had the browser send."""
    headers = request.headers
    if (site := headers.get("sec-fetch-site")) is not None:
        if site != "same-origin":
            raise Stop(403, "ORIGIN.FOREIGN", f"Sec-Fetch-Site is {site!r}, not 'same-origin'.")
    elif (origin := headers.get("origin")) is not None:
        place = _netloc(origin)
        if place is None or (
            place != headers.get("host", "").lower() and named_host(place) not in hosts
        ):
            raise Stop(403, "ORIGIN.FOREIGN", "The Origin is not this Host.")
    elif not _by_program(request):
        text = "A request without Sec-Fetch-Site and Origin needs a Bearer token or Offpath-Client."
        raise Stop(403, "ORIGIN.UNKNOWN", text)


def _by_program(request: Request) -> bool:
    bearer = request.headers.get("authorization", "").lower().startswith("bearer ")
    return bearer or "offpath-client" in request.headers


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _leaving(send: Send) -> Send:
    """Send answers with the headers that each of them has."""
    own = {**HEADERS, "cache-control": "no-store"}

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            more = [
                (name.encode(), value.encode())
                for name, value in own.items()
                if name.encode() not in names
            ]
            message = {**message, "headers": [*given, *more]}
        await send(message)

    return sent


__all__ = ["COOKIE", "DoorRules", "Doors", "too_many"]
