"""The economy's HTTP service: an ASGI app to mount in a service of your own.

``POST /submit`` takes an operation, ``POST /webhooks/{provider}`` keeps what a provider reports,
``GET /healthz`` says that the process answers, ``GET /readyz`` that the store does, and
``GET /openapi.json`` describes it. See :func:`economy_service`.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec
from msgspec import Struct

from offpath.errors import InvalidArgument, MissingExtra
from offpath.ledger.actors import Actor
from offpath.ledger.outcome import Outcome, Rejected
from offpath.ledger.wire import camel, decode
from offpath.model.browsers import ANY, foreign, says_json, to_loopback
from offpath.model.correlation import HEADER, correlation_id
from offpath.model.json_text import decode_json
from offpath.web.authorizing import (
    NOT_AUTHORIZED,
    Authorize,
    Authorized,
    Offer,
    Offers,
    authorized,
    priced,
)
from offpath.web.openapi import document
from offpath.web.problem import MEDIA_TYPE, Problem, problem, problem_of
from offpath.web.reading import MOST_BYTES, TIMEOUT, CutBody, SlowBody, TooLargeBody, read_body

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from offpath.economy import Economy

__all__ = [
    "Asked",
    "Authenticate",
    "Authorize",
    "Offer",
    "Offers",
    "RateLimiter",
    "economy_service",
]

_log = logging.getLogger("offpath.economy.http")
DEGRADED: Final = "offpath_economy_ratelimit_degraded_total"


class Asked(Struct, frozen=True, kw_only=True):
    """What an authenticator and a rate limiter see of a request. Never its body."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    client: str | None
    """The peer's address."""


Authenticate = Callable[[Asked], "Actor | Awaitable[Actor | None] | None"]
"""Who asks, by his credentials; None: nobody that we know."""


Users = Authorize | Literal["trusted"] | None
"""What decides on the operations of users."""


class RateLimiter(Protocol):
    """Says who asks too often."""

    def __call__(self, asked: Asked, /) -> float | Awaitable[float | None] | None:
        """None to let it through, or the seconds after which to come again."""
        ...


class Stop(Exception):
    """Ends a request with a problem."""

    def __init__(self, found: Problem, **headers: str) -> None:
        super().__init__(found.code)
        self.problem = found
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def economy_service(
    economy: Economy,
    *,
    authenticate: Authenticate | Literal[False],
    rate_limit: RateLimiter | None = None,
    authorize: Authorize | None = None,
    prices: Offers | None = None,
    trust_callers: bool = False,
    webhooks: Mapping[str, ASGIApp] | None = None,
    cors_origins: Sequence[str] = (),
    max_body_bytes: int = MOST_BYTES,
    body_timeout: float = TIMEOUT,
) -> ASGIApp:
    """The service, as a Starlette app.

    ``authenticate`` tells who asks, before the body is read; a request that it knows nobody for is
    401, and a body must not name an actor. ``False`` trusts every program on this machine: the body
    names the actor, and a request that is not addressed to a loopback name is 403.

    ``authorize(actor, operation)`` decides on what a *user* asks for, and returns the operation to
    submit, priced and completed, or a ``Rejected``. It is given the operation with the key and the
    order's id in the user's namespace (``user:ann:...``), without promo credits, and with no
    recipients where the body has none. ``prices`` maps a sku to an :class:`Offer` (or is a
    function that does, sync or async), and makes an ``authorize`` of that. With neither, users'
    operations are declined with ``NOT_AUTHORIZED``. Operators and systems are not asked.

    ``trust_callers=True`` takes users' operations as they come: whoever holds a user's token names
    the price, the sellers, the order's id and the key himself, may buy a thing for a hundredth, and
    may turn promo credits into a seller's money. It is for a service whose only callers are
    your own back ends, which have decided all of it.

    ``rate_limit`` comes first; what it denies is 429 with ``Retry-After``,
    and one that raises lets requests through and counts ``economy_ratelimit_degraded``.
    ``webhooks`` maps a provider's name to its door (``economy.webhook_door(...)``). Bodies over
    ``max_body_bytes`` are 413, those that take longer than ``body_timeout`` seconds 408, those that
    are not said to be JSON 415. What a page of another origin has a browser send is 403, unless
    ``cors_origins`` lists it; there is no CORS for others.

    Outcomes are 200, also declines: ``{"status": "rejected", "reason": …, "detail": {…}}``. Faults
    are ``application/problem+json``. Raises ``InvalidArgument``, ``MissingExtra``.
    """
    if authenticate is not False and not callable(authenticate):
        raise InvalidArgument(
            "authenticate is a function from a request to an Actor; or say authenticate=False to "
            "trust everybody who reaches the service"
        )
    if authenticate is False and ANY in cors_origins:
        raise InvalidArgument(
            "cors_origins=['*'] with authenticate=False lets every page that somebody visits move "
            "money here: list the origins, or give an authenticate"
        )
    users = _users(authorize, prices, trusted=trust_callers or authenticate is False)
    try:
        from offpath.web import routing
    except ImportError as error:
        raise MissingExtra(
            "the HTTP service needs starlette: pip install 'offpath[web]'"
        ) from error
    service = Service(
        economy,
        authenticate=authenticate,
        users=users,
        rate_limit=rate_limit,
        origins=tuple(cors_origins),
        reading=Reading(max_body_bytes, body_timeout),
    )
    return routing.app(service, dict(webhooks or {}), tuple(cors_origins))


def _users(authorize: Authorize | None, prices: Offers | None, *, trusted: bool) -> Users:
    """What decides on users' operations: ``"trusted"`` is as they come, None not at all."""
    given = [one for one in (authorize, prices) if one is not None]
    if len(given) > 1:
        raise InvalidArgument("give authorize= or prices=, not both")
    if authorize is not None and not callable(authorize):
        raise InvalidArgument("authorize is a function from an actor and his operation to another")
    if prices is not None:
        return priced(prices)
    return authorize if authorize is not None or not trusted else "trusted"


class Reading(Struct, frozen=True):
    """The bounds of a body."""

    most: int
    timeout: float


class Service:
    """Answers the requests of one economy."""

    def __init__(
        self,
        economy: Economy,
        *,
        authenticate: Authenticate | Literal[False],
        users: Users,
        rate_limit: RateLimiter | None,
        origins: tuple[str, ...],
        reading: Reading,
    ) -> None:
        self._economy = economy
        self._authenticate = authenticate
        self._users = users
        self._rate_limit = rate_limit
        self._origins = origins
        self._reading = reading
        self._described = document(authenticated=authenticate is not False)

    async def submit(self, request: Request) -> Response:
        """``POST /submit``."""
        return await self._answered(request, self._submitted)

    async def healthz(self, request: Request) -> Response:
        """``GET /healthz``: without I/O."""
        return self._json(request, 200, {"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """``GET /readyz``: one read of the store."""
        return await self._answered(request, self._ready)

    async def openapi(self, request: Request) -> Response:
        """``GET /openapi.json``."""
        return self._json(request, 200, self._described)

    async def missing(self, request: Request, _: Exception) -> Response:
        """Every other path, and every other method of ours: 404."""
        return self._problem(request, problem(404, "NOT_FOUND"))

    async def refused(self, request: Request) -> Response | None:
        """The answer to who asks too often; None lets it through."""
        try:
            await self._admit(request)
        except Stop as stop:
            return self._problem(request, stop.problem, stop.headers)
        return None

    async def _admit(self, request: Request) -> None:
        if self._rate_limit is None:
            return
        try:
            wait = self._rate_limit(_asked(request))
            seconds = await wait if inspect.isawaitable(wait) else wait
            whole = None if seconds is None else max(1, math.ceil(seconds))
        except Exception:  # noqa: BLE001 - the host's
            # A limiter that is down must not take the service down with it.
            _log.warning("the rate limiter failed: let through", exc_info=True)
            self._economy.app.metrics.counter(DEGRADED).add()
            return
        if whole is not None:
            raise Stop(problem(429, "RATE_LIMITED", retryable=True), retry_after=str(whole))

    async def _submitted(self, request: Request) -> Any:  # noqa: ANN401 - JSON
        await self._admit(request)
        self._guard(request)
        actor = await self._actor(request)
        bounds = self._reading
        body = await read_body(request, most=bounds.most, timeout=bounds.timeout)
        found = await self._meant(decode_json(body, "the body"), actor)
        if isinstance(found, Rejected):
            return _outcome(found)
        found_by = self.correlation(request)
        return _outcome(await self._economy.submit(found, correlation_id=found_by))

    async def _meant(self, document: object, actor: Actor | None) -> Authorized:
        """The operation to submit: what was asked, or for users what the shop makes of it."""
        if self._users is None and actor is not None and not actor.trusted:
            return NOT_AUTHORIZED
        shop = self._users if callable(self._users) else None
        asked = decode(document, actor=actor, completing=shop is not None)
        if shop is None or asked.actor.trusted:
            return asked
        return await authorized(shop, asked.actor, asked)

    def _guard(self, request: Request) -> None:
        """Refuse what only a page of somebody else would have a browser send."""
        if self._authenticate is False and not to_loopback(request.headers):
            raise Stop(problem(403, "HOST.NOT_LOOPBACK"))
        if foreign(request.headers, self._origins):
            raise Stop(problem(403, "ORIGIN.FOREIGN"))
        if not says_json(request.headers):
            raise Stop(problem(415, "BODY_NOT_JSON"), accept="application/json")

    async def _ready(self, _: Request) -> Any:  # noqa: ANN401 - JSON
        try:
            await self._economy.read.balance("platform:trust_cash")
        except Exception as error:
            _log.warning("not ready: %s", type(error).__name__)
            raise Stop(problem(503, "NOT_READY", retryable=True)) from error
        return {"status": "ready"}

    async def _actor(self, request: Request) -> Actor | None:
        if self._authenticate is False:
            return None
        found = self._authenticate(_asked(request))
        actor = await found if inspect.isawaitable(found) else found
        if actor is None:
            raise Stop(problem(401, "AUTH.UNAUTHORIZED"), www_authenticate="Bearer")
        return actor

    async def _answered(
        self, request: Request, work: Callable[[Request], Awaitable[Any]]
    ) -> Response:
        try:
            return self._json(request, 200, await work(request))
        except Stop as stop:
            return self._problem(request, stop.problem, stop.headers)
        except TooLargeBody:
            return self._problem(request, problem(413, "BODY_TOO_LARGE"))
        except SlowBody:
            return self._problem(request, problem(408, "BODY_TOO_SLOW", retryable=True))
        except CutBody:  # nobody reads it: the caller has gone
            return self._problem(request, problem(400, "BODY_CUT"))
        except Exception as error:  # noqa: BLE001 - a caller is answered, the cause logged
            return self._fault(request, error)

    def _fault(self, request: Request, error: Exception) -> Response:
        found = problem_of(error)
        if found.status >= 500:  # noqa: PLR2004 - HTTP's own
            _log.error("%s %s: %s", request.method, request.url.path, found.code, exc_info=error)
        else:  # The answer has the code only; whoever builds a client may turn this on.
            _log.debug("%s %s: %s: %s", request.method, request.url.path, found.code, error)
        return self._problem(request, found)

    def _json(self, request: Request, status: int, content: object) -> Response:
        return self._response(request, status, msgspec.json.encode(content), "application/json", {})

    def _problem(
        self, request: Request, found: Problem, headers: Mapping[str, str] | None = None
    ) -> Response:
        return self._response(request, found.status, found.body(), MEDIA_TYPE, headers or {})

    def _response(
        self, request: Request, status: int, body: bytes, kind: str, headers: Mapping[str, str]
    ) -> Response:
        from starlette.responses import Response

        given = {**headers, HEADER: self.correlation(request)}
        return Response(body, status, given, kind)

    def correlation(self, request: Request) -> str:
        """The request's id: the same in its answer and on what it caused, also when it is ours."""
        found: str | None = request.scope.get(HEADER)
        if found is None:
            found = correlation_id(request.headers, self._economy.app.new_id)
            request.scope[HEADER] = found
        return found


def _asked(request: Request) -> Asked:
    return Asked(
        method=request.method,
        path=request.url.path,
        headers=dict(request.headers),
        client=None if request.client is None else request.client.host,
    )


def _outcome(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Rejected):
        return {"status": "rejected", "reason": outcome.reason, "detail": outcome.fields}
    receipt = outcome.receipt
    facts = {camel(name): value for name, value in receipt.facts.items()}
    transaction = {"id": receipt.id, "postings": list(receipt.postings), **facts}
    return {"status": outcome.__struct_config__.tag, "transaction": transaction}
