"""Readings of messages, endpoints and routers."""

from __future__ import annotations

from typing import Any, Final

from offpath.app import App
from offpath.operating.documents import endpoints, messages, routers
from offpath.operating.documents.endpoints import EndpointList
from offpath.operating.documents.messages import MessageListing, MessageShown
from offpath.operating.documents.routers import RouterList, RouterShown
from offpath.runtime.ids import parse_id
from offpath.web.console.document_row import Asking, DocumentReading
from offpath.web.console.queries import MESSAGE_NAMES

_LETTERS: Final = 50
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
    page = await app.messages.find(limit=query.limit(), after=query.one("after"), **where)
    return messages.describe_page(page, await app.message_backlog(), asking.seen)


async def _message(app: App, asking: Asking) -> MessageShown:
    found = await app.messages.get(parse_id(asking.path["id"], "id"))
    return messages.describe_whole(found, asking.seen)


async def _endpoints(app: App, _: Asking) -> EndpointList:
    return endpoints.describe_all(await app.webhooks.list(), await app.message_backlog())


async def _routers(app: App, _: Asking) -> RouterList:
    return routers.describe_all(await app.routers.records(), await app.store().router_lags())


async def _router(app: App, asking: Asking) -> RouterShown:
    stored = app.routers.stored(asking.path["name"])
    record = await stored.record()
    letters = await stored.letters(limit=_LETTERS + 1)
    lags = {one.router: one.oldest_at for one in await app.store().router_lags()}
    return routers.describe_shown(
        record,
        lags.get(record.name),
        letters[:_LETTERS],
        more=len(letters) > _LETTERS,
        seen=asking.seen,
    )


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
