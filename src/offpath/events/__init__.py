"""Events: facts that leave the service, and those that come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.runtime.late import late_names

if TYPE_CHECKING:
    from offpath.events.deliveries import Outbox, RoutedEvent
    from offpath.events.dispatcher import BatchDispatcher, Dispatcher, Event, Undeliverable
    from offpath.events.door import Incoming
    from offpath.events.inbox import Accepted, Duplicate, InboxContext, InboxMessage, Rejected
    from offpath.events.router import Router
    from offpath.events.router_run import RouterRun
    from offpath.events.source import SourceEvent
    from offpath.events.webhook.guard import Forbidden
    from offpath.events.webhook.signature import BadSignature, Verifier, new_key_pair, new_secret
    from offpath.model.message import MessageRecord, MessageState
    from offpath.model.route import LogEvent

__all__ = [
    "Accepted",
    "BadSignature",
    "BatchDispatcher",
    "Dispatcher",
    "Duplicate",
    "Event",
    "Forbidden",
    "InboxContext",
    "InboxMessage",
    "Incoming",
    "LogEvent",
    "MessageRecord",
    "MessageState",
    "Outbox",
    "Rejected",
    "RoutedEvent",
    "Router",
    "RouterRun",
    "SourceEvent",
    "Undeliverable",
    "Verifier",
    "new_key_pair",
    "new_secret",
]

_PLACES = {
    "Accepted": "offpath.events.inbox",
    "BadSignature": "offpath.events.webhook.signature",
    "BatchDispatcher": "offpath.events.dispatcher",
    "Dispatcher": "offpath.events.dispatcher",
    "Duplicate": "offpath.events.inbox",
    "Event": "offpath.events.dispatcher",
    "Forbidden": "offpath.events.webhook.guard",
    "InboxContext": "offpath.events.inbox",
    "InboxMessage": "offpath.events.inbox",
    "Incoming": "offpath.events.door",
    "LogEvent": "offpath.model.route",
    "MessageRecord": "offpath.model.message",
    "MessageState": "offpath.model.message",
    "Outbox": "offpath.events.deliveries",
    "Rejected": "offpath.events.inbox",
    "RoutedEvent": "offpath.events.deliveries",
    "Router": "offpath.events.router",
    "RouterRun": "offpath.events.router_run",
    "SourceEvent": "offpath.events.source",
    "Undeliverable": "offpath.events.dispatcher",
    "Verifier": "offpath.events.webhook.signature",
    "new_key_pair": "offpath.events.webhook.signature",
    "new_secret": "offpath.events.webhook.signature",
}

if not TYPE_CHECKING:  # so that a name that is not there is an error to type checkers
    __getattr__ = late_names(__name__, _PLACES)
