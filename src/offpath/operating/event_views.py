"""Views of endpoints, routers and the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from offpath.app import App
from offpath.errors import InvalidArgument, NotFound
from offpath.events.messages import message_filter
from offpath.model.action import ActionFilter, ActionRecord
from offpath.model.brief import Kind
from offpath.model.endpoint import endpoint_of, is_delivery, stream_of
from offpath.model.message import Box, MessageFilter
from offpath.model.route import AttemptStatus, RouterStanding
from offpath.operating.documents import endpoints, events, messages, routers
from offpath.operating.documents.endpoints import EndpointShown
from offpath.operating.documents.events import EventDocument, EventPage
from offpath.operating.documents.messages import MessageListing, MessageShown
from offpath.operating.documents.routers import AttemptPage, RouterChecked, RouterShown
from offpath.operating.panels import Panels
from offpath.operating.redaction import PLAIN, Redaction, decoded
from offpath.operating.short_ids import whole
from offpath.store.browse import MOST_LOOKED_AT

_LETTERS: Final = 50
_TRIED: Final = 10
"""Attempts that are shown on the page of a router."""
_LOOKED_AT: Final = 50
"""Actions among which the last checks of a router are looked for."""
_VERIFIED: Final = ActionFilter(verbs=("router.verify",))
_UNREAD: Final = RouterStanding(partitions=(), decisions=())
_NEWEST: Final = 20
"""Messages of an endpoint that are shown."""


async def endpoint(
    app: App, name: str, seen: Redaction = PLAIN, panels: Panels | None = None
) -> EndpointShown:
    """An endpoint, its last posts and the newest messages of its stream. Raises ``NotFound``."""
    panels, store = panels or Panels(), app.store()
    where = MessageFilter(box=Box.OUT, streams=(stream_of(name),))
    receivers, backlog, page, posts = await asyncio.gather(
        app.webhooks.list(),
        panels.read(app.message_backlog(), [], "due", "dead"),
        panels.read(
            store.look_at_messages(where, limit=_NEWEST), None, "messages", "delivered", "failed"
        ),
        panels.read(store.posts(name), [], "posts", "posts_delivered"),
    )
    found = endpoints.describe_all(receivers, backlog)
    one = next((each for each in found.items if each.name == name), None)
    if one is None:
        known = ", ".join(each.name for each in found.items[:20]) or "none"
        raise NotFound(f"there is no endpoint {name!r:.80}; there are: {known}")
    newest = [messages.describe(each, seen) for each in (page.items if page else ())]
    return endpoints.describe_shown(one, newest, posts, panels.cut)


async def message_list(
    app: App,
    where: Mapping[str, Any],
    seen: Redaction = PLAIN,
    *,
    limit: int = 50,
    after: str | None = None,
    panels: Panels | None = None,
) -> MessageListing:
    """Messages that match among the next 20,000 rows, how far that came, and what waits.

    ``where`` has the names of ``app.messages.find``. Raises ``InvalidArgument``.
    """
    panels = panels or Panels()
    page, backlog = await asyncio.gather(
        app.store().look_at_messages(
            message_filter(dict(where)),  # type: ignore[arg-type]
            limit=limit,
            after=None if after is None else str(_number(after)),
        ),
        panels.read(app.message_backlog(), [], "streams"),
    )
    return messages.describe_page(page, MOST_LOOKED_AT, backlog, seen, panels.cut)


async def message(app: App, message_id: str, seen: Redaction = PLAIN) -> MessageShown:
    """A message, with those of its posts that its endpoint still has. Raises ``NotFound``."""
    found = await app.messages.get(await whole(app, Kind.MESSAGE, message_id))
    told = found.box is Box.OUT and is_delivery(found.stream)
    posts = await app.store().posts(endpoint_of(found.stream)) if told else []
    return messages.describe_whole(found, seen, [one for one in posts if one.message == found.id])


async def router(
    app: App, name: str, seen: Redaction = PLAIN, panels: Panels | None = None
) -> RouterShown:
    """A router: how far each partition is, what it decided, its letters. Raises ``NotFound``."""
    stored, store, panels = app.routers.stored(name), app.store(), panels or Panels()
    record = await stored.record()
    (letters, tried), (behind, standing), (asked, newest) = await asyncio.gather(
        asyncio.gather(
            panels.read(stored.letters(limit=_LETTERS + 1), [], "letters", "more_letters"),
            panels.read(store.attempts(name, limit=_TRIED, newest=True), [], "attempts"),
        ),
        asyncio.gather(
            panels.read(store.router_lags(), [], "oldest_at"),
            panels.read(store.router_standing(name), _UNREAD, "cursors", "decisions", "counted"),
        ),
        asyncio.gather(
            panels.read(store.actions(_VERIFIED, limit=_LOOKED_AT), [], "verified"),
            panels.read(store.newest_events(domain=record.domain, limit=1), [], "head"),
        ),
    )
    lags = {one.router: one.oldest_at for one in behind}
    last = next((one for one in asked if _named(one) == name), None)
    return routers.describe_shown(
        record,
        lags.get(name),
        letters[:_LETTERS],
        more=len(letters) > _LETTERS,
        head=newest[0].position if newest else 0,
        standing=standing,
        attempts=tried,
        verified=None if last is None else routers.describe_verified(last),
        seen=seen,
        cut=panels.cut,
    )


def _named(one: ActionRecord) -> str | None:
    """The name of the thing that an action is about."""
    target = decoded(one.target)
    return target.get("name") if isinstance(target, dict) else None


async def attempts(
    app: App,
    router: str,
    *,
    event: str | None = None,
    status: str | None = None,
    limit: int = 50,
    after: str | None = None,
    newest: bool = False,
) -> AttemptPage:
    """Attempts of a router in the log's order, or the ``newest`` first.

    Raises ``RouterNotFound``, ``InvalidArgument``.
    """
    found = await app.routers.stored(router).attempts(
        event=event, status=_status(status), limit=limit, after=_place(after), newest=newest
    )
    return routers.describe_attempts(found, limit)


async def checks(app: App, router: str) -> RouterChecked:
    """The checks of a router, as ``offpath router verify`` makes them. It reads only.

    Routes are compared with their deliverers only by an app that declares the router. Raises
    ``RouterNotFound``.
    """
    return routers.describe_checks(router, await app.routers.stored(router).verify())


async def event(app: App, event_id: str, seen: Redaction = PLAIN) -> EventDocument:
    """One event of the log. Raises ``NotFound``, ``InvalidArgument``."""
    event_id = await whole(app, Kind.EVENT, event_id)
    found = await app.store().find_events((event_id,))
    if not found:
        raise NotFound(f"there is no event {event_id} in the log (any more)")
    return events.describe(found[0], seen)


async def log(
    app: App,
    seen: Redaction = PLAIN,
    *,
    domain: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> EventPage:
    """The log from its head, newest first. Raises ``InvalidArgument``."""
    before = None if after is None else _number(after)
    found = await app.store().newest_events(domain=domain, before=before, limit=limit)
    return events.describe_page(found, limit, seen)


def _status(given: str | None) -> AttemptStatus | None:
    if given is None:
        return None
    try:
        return AttemptStatus(given)
    except ValueError as error:
        known = ", ".join(AttemptStatus)
        raise InvalidArgument(f"there is no status {given!r:.60}; there are: {known}") from error


def _place(given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    position, _, number = given.partition(":")
    return _number(position), _number(number or "1")


def _number(given: str) -> int:
    if not given.isascii() or not given.isdecimal() or len(given) > len(str(2**62)):
        raise InvalidArgument(f"after is given back as it was answered, not as {given!r:.60}")
    return int(given)
