"""The economy's HTTP service: an ASGI app to mount in a service of your own.

``POST /submit`` takes an operation, ``POST /webhooks/{provider}`` keeps what a provider reports,
``GET /healthz`` says that the process answers, ``GET /readyz`` that the store does, and
``GET /openapi.json`` describes it. See :func:`economy_service`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from offpath.economy.web.authorization import Authorize, Offer, Offers, priced
from offpath.economy.web.service import (
    Authenticate,
    RateLimiter,
    Reading,
    Service,
    Users,
)
from offpath.errors import InvalidArgument, MissingExtra
from offpath.model.browsers import ANY
from offpath.runtime.seats import check_seat
from offpath.web.asked import Asked
from offpath.web.body import MOST_BYTES, TIMEOUT

if TYPE_CHECKING:
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
    for name, given in (
        ("authenticate", authenticate),
        ("rate_limit", rate_limit),
        ("authorize", authorize),
        ("prices", prices),
    ):
        check_seat(given, name)
    users = _users(authorize, prices, trusted=trust_callers or authenticate is False)
    try:
        from offpath.economy.web import routes
    except ImportError as error:
        raise MissingExtra("the HTTP service needs starlette", "web") from error
    service = Service(
        economy,
        authenticate=authenticate,
        users=users,
        rate_limit=rate_limit,
        origins=tuple(cors_origins),
        reading=Reading(max_body_bytes, body_timeout),
    )
    return routes.app(service, dict(webhooks or {}), tuple(cors_origins))


def _users(authorize: Authorize | None, prices: Offers | None, *, trusted: bool) -> Users:
    """The function that decides on users' operations: ``"trusted"`` is as they come, None not at
    all.
    """
    given = [one for one in (authorize, prices) if one is not None]
    if len(given) > 1:
        raise InvalidArgument("give authorize= or prices=, not both")
    if authorize is not None and not callable(authorize):
        raise InvalidArgument("authorize is a function of an actor and their operation: give one")
    if prices is not None:
        return priced(prices)
    return authorize if authorize is not None or not trusted else "trusted"
