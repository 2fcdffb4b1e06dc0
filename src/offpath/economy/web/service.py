"""The service of one economy: its requests, answered."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec
from msgspec import Struct

from offpath.economy.ledger.actors import Actor
from offpath.economy.ledger.outcome import Outcome, Rejected
from offpath.economy.ledger.wire import camel, decode
from offpath.economy.web.authorization import (
    NOT_AUTHORIZED,
    Authorize,
    Authorized,
    authorized,
)
from offpath.economy.web.openapi import document
from offpath.errors import TaskError
from offpath.model.browsers import foreign, says_json, to_loopback
from offpath.model.correlation import HEADER, correlation_id
from offpath.model.json_text import decode_json
from offpath.runtime.seats import asked
from offpath.web.asked import Asked, asked_of
from offpath.web.body import CutBody, SlowBody, TooLargeBody, read_body
from offpath.web.problem import MEDIA_TYPE, Problem, problem, problem_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from offpath.economy import Economy

_log = logging.getLogger("offpath.economy.http")
DEGRADED: Final = "offpath_economy_ratelimit_degraded_total"


Authenticate = Callable[[Asked], "Actor | Awaitable[Actor | None] | None"]
"""The caller, by the credentials; None for an unknown one."""


Users = Authorize | Literal["trusted"] | None
"""The function that decides on the operations of users."""


class RateLimiter(Protocol):
    """Says who asks too often."""

    def __call__(self, asked: Asked, /) -> float | Awaitable[float | None] | None:
        """None to let it through, or the seconds after which to come again."""
        ...


class ServiceStop(Exception):
    """Ends a request with a problem."""

    def __init__(self, found: Problem, **headers: str) -> None:
        super().__init__(found.code)
        self.problem = found
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


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
        """The answer to whoever asks too often; None lets it through."""
        try:
            await self._admit(request)
        except ServiceStop as stop:
            return self._problem(request, stop.problem, stop.headers)
        return None

    async def _admit(self, request: Request) -> None:
        if self._rate_limit is None:
            return
        try:
            seconds = await asked(self._rate_limit, asked_of(request))
            whole = None if seconds is None else max(1, math.ceil(seconds))
        except Exception as error:  # noqa: BLE001 - the host's
            # A limiter that is down must not take the service down with it.
            self._economy.report(error, "rate_limit")
            _log.warning("the rate limiter failed: let through", exc_info=True)
            self._economy.app.metrics.counter(DEGRADED).add()
            return
        if whole is not None:
            raise ServiceStop(problem(429, "RATE_LIMITED", retryable=True), retry_after=str(whole))

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
        operation = decode(document, actor=actor, completing=shop is not None)
        if shop is None or operation.actor.trusted:
            return operation
        return await authorized(shop, operation.actor, operation)

    def _guard(self, request: Request) -> None:
        """Refuse what only a page of somebody else would have a browser send."""
        if self._authenticate is False and not to_loopback(request.headers):
            raise ServiceStop(problem(403, "HOST.NOT_LOOPBACK"))
        if foreign(request.headers, self._origins):
            raise ServiceStop(problem(403, "ORIGIN.FOREIGN"))
        if not says_json(request.headers):
            raise ServiceStop(problem(415, "BODY_NOT_JSON"), accept="application/json")

    async def _ready(self, _: Request) -> Any:  # noqa: ANN401 - JSON
        try:
            await self._economy.read.balance("platform:trust_cash")
        except Exception as error:
            _log.warning("not ready: %s", type(error).__name__)
            raise ServiceStop(problem(503, "NOT_READY", retryable=True)) from error
        return {"status": "ready"}

    async def _actor(self, request: Request) -> Actor | None:
        if self._authenticate is False:
            return None
        actor: object = await asked(self._authenticate, asked_of(request))
        if actor is None:
            raise ServiceStop(problem(401, "AUTH.UNAUTHORIZED"), www_authenticate="Bearer")
        if not isinstance(actor, Actor):
            raise TaskError(
                f"authenticate returned {type(actor).__name__}: return an Actor, None for nobody"
            )
        return actor

    async def _answered(
        self, request: Request, work: Callable[[Request], Awaitable[Any]]
    ) -> Response:
        try:
            return self._json(request, 200, await work(request))
        except ServiceStop as stop:
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
            if not found.retryable:
                self._economy.report(error, "economy service")
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


def _outcome(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Rejected):
        return {"status": "rejected", "reason": outcome.reason, "detail": outcome.fields}
    receipt = outcome.receipt
    facts = {camel(name): value for name, value in receipt.facts.items()}
    transaction = {"id": receipt.id, "postings": list(receipt.postings), **facts}
    return {"status": outcome.__struct_config__.tag, "transaction": transaction}
