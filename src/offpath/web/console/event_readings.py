"""Readings of messages, endpoints, routers and the log."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.operating import event_views
from offpath.operating.documents import endpoints, routers
from offpath.operating.documents.endpoints import EndpointList, EndpointShown
from offpath.operating.documents.events import EventDocument, EventPage
from offpath.operating.documents.fields import filled
from offpath.operating.documents.messages import (
    MessageListing,
    MessageShown,
    StreamList,
    StreamStanding,
)
from offpath.operating.documents.routers import (
    AttemptPage,
    LetterPage,
    RouterChecked,
    RouterList,
    RouterShown,
)
from offpath.web.console.document_row import Asking, DocumentReading
from offpath.web.console.queries import ATTEMPT_NAMES, LOG_NAMES, MESSAGE_NAMES

_PLURAL: Final = {
    "stream": "streams",
    "topic": "topics",
    "state": "states",
    "key": "keys",
    "reason": "reasons",
}


async def _messages(app: App, asking: Asking) -> MessageListing:
    query = asking.query
    where: dict[str, Any] = {
        plural: values for name, plural in _PLURAL.items() if (values := query.many(name))
    }
    if (box := query.one("box")) is not None:
        where["box"] = box
    return await event_views.message_list(
        app,
        where,
        asking.seen,
        limit=query.limit(),
        after=query.one("after"),
        panels=asking.panels,
    )


async def _message(app: App, asking: Asking) -> MessageShown:
    return await event_views.message(app, asking.path["id"], asking.seen)


async def _endpoints(app: App, _: Asking) -> EndpointList:
    return endpoints.describe_all(*await asyncio.gather(app.webhooks.list(), app.message_backlog()))


async def _endpoint(app: App, asking: Asking) -> EndpointShown:
    return await event_views.endpoint(app, asking.path["name"], asking.seen, asking.panels)


async def _log(app: App, asking: Asking) -> EventPage:
    query = asking.query
    return await event_views.log(
        app,
        asking.seen,
        domain=query.one("domain"),
        limit=query.limit(),
        after=query.one("after"),
    )


async def _event(app: App, asking: Asking) -> EventDocument:
    return await event_views.event(app, asking.path["id"], asking.seen)


async def _attempts(app: App, asking: Asking) -> AttemptPage:
    query = asking.query
    return await event_views.attempts(
        app,
        asking.path["router"],
        event=query.one("event"),
        status=query.one("status"),
        limit=query.limit(),
        after=query.one("after"),
        newest=query.one("sort") is not None and query.newest(),
    )


async def _letters(app: App, asking: Asking) -> LetterPage:
    query = asking.query
    after = query.one("after")
    if after is not None and not (after.isascii() and after.isdecimal()):
        raise InvalidArgument(f"after is the `next` of the page before, not {after!r:.40}")
    limit = query.limit()
    record = await app.routers.stored(asking.path["router"]).record()
    found = await app.store().letters(
        record.name, limit=limit + 1, after=None if after is None else int(after[:18])
    )
    return routers.describe_letters(found, limit, asking.seen)


async def _streams(app: App, _: Asking) -> StreamList:
    return StreamList(
        items=tuple(filled(StreamStanding, one) for one in await app.message_backlog())
    )


async def _checks(app: App, asking: Asking) -> RouterChecked:
    return await event_views.checks(app, asking.path["router"])


async def _routers(app: App, _: Asking) -> RouterList:
    return routers.describe_all(
        *await asyncio.gather(app.routers.records(), app.store().router_lags())
    )


async def _router(app: App, asking: Asking) -> RouterShown:
    return await event_views.router(app, asking.path["name"], asking.seen, asking.panels)


EVENT_READINGS: Final[tuple[DocumentReading, ...]] = (
    DocumentReading(
        name="messages",
        path="/messages",
        summary="Messages of outbox and inbox, newest first, and the streams in which some wait.",
        document=MessageListing,
        read=_messages,
        names=MESSAGE_NAMES,
    ),
    DocumentReading(
        name="message",
        path="/messages/{id}",
        summary="One message, with what it carries.",
        document=MessageShown,
        read=_message,
        parts=("payload",),
    ),
    DocumentReading(
        name="endpoints",
        path="/endpoints",
        summary="Endpoints of webhooks: their state, and what waits for each.",
        document=EndpointList,
        read=_endpoints,
        shared=True,
    ),
    DocumentReading(
        name="endpoint",
        path="/endpoints/{name}",
        summary="One endpoint, its last twenty posts, and its newest messages.",
        document=EndpointShown,
        read=_endpoint,
    ),
    DocumentReading(
        name="log",
        path="/events",
        page="/log",
        summary="Events of the log, newest first.",
        document=EventPage,
        read=_log,
        names=LOG_NAMES,
    ),
    DocumentReading(
        name="event",
        path="/events/{id}",
        page="/log/{id}",
        summary="One event of the log, with what it carries.",
        document=EventDocument,
        read=_event,
        parts=("payload",),
    ),
    DocumentReading(
        name="attempts",
        path="/routers/{router}/attempts",
        summary="What a router decided about each event, in the log's order or the newest first.",
        document=AttemptPage,
        read=_attempts,
        names=ATTEMPT_NAMES,
        within="routers",
    ),
    DocumentReading(
        name="letters",
        path="/routers/{router}/letters",
        summary="Dead letters of a router that nobody has resolved, in the log's order.",
        document=LetterPage,
        read=_letters,
        names=("after", "limit"),
        paged=False,
    ),
    DocumentReading(
        name="streams",
        path="/streams",
        summary="Streams of outbox and inbox: what is due and dead in each.",
        document=StreamList,
        read=_streams,
        shared=True,
        paged=False,
    ),
    DocumentReading(
        name="checks",
        path="/routers/{router}/checks",
        summary="What must hold for a router, checked now. It reads only.",
        document=RouterChecked,
        read=_checks,
        within="routers",
    ),
    DocumentReading(
        name="routers",
        path="/routers",
        summary="Routers: their gates, and how far they are behind.",
        document=RouterList,
        read=_routers,
        shared=True,
    ),
    DocumentReading(
        name="router",
        path="/routers/{name}",
        summary="One router, its routes, cursors and dead letters.",
        document=RouterShown,
        read=_router,
    ),
)
