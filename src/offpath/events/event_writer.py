"""Writing: from what callers say to the messages and events of the log that a store takes.

Everything that can be refused is refused here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import json

from offpath.errors import InvalidArgument, TooLarge
from offpath.model import checks
from offpath.model.effects import Effects
from offpath.model.headers import encoded_headers
from offpath.model.new import Box, NewLogEvent, NewMessage
from offpath.model.route import slot_of
from offpath.runtime.codec import Codec

DEFAULT_STREAM = "default"
_MOST_HEADERS = 50
_LONGEST_HEADER = 2_000
_NO_HEADERS = "{}"
_encode = json.Encoder().encode


class MessageWriter:
    """Makes messages and events of the log for one app. Usable from any thread."""

    def __init__(self, codec: Codec, new_id: Callable[[], str], most_bytes: int) -> None:
        self._codec = codec
        self._new_id = new_id
        self._most_bytes = most_bytes

    def message(
        self,
        topic: str,
        payload: object = None,
        *,
        key: str | None = None,
        stream: str = DEFAULT_STREAM,
        headers: Mapping[str, str] | None = None,
    ) -> NewMessage:
        """A message for the outbox. Raises ``InvalidArgument`` and ``TooLarge``."""
        return NewMessage(
            id=self._new_id(),
            box=Box.OUT,
            stream=checks.name(stream, "stream"),
            topic=checks.name(topic, "topic"),
            payload=self._text(payload, "an event"),
            key=None if key is None else checks.text(key, "key", longest=checks.MAX_KEY),
            headers=_headers(headers),
        )

    def inbound(
        self,
        source: str,
        key: str,
        payload: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> NewMessage:
        """A message for the inbox. Raises ``InvalidArgument`` and ``TooLarge``."""
        return NewMessage(
            id=self._new_id(),
            box=Box.IN,
            stream=checks.name(source, "source"),
            payload=self._text(payload, "a message"),
            key=checks.text(key, "key", longest=checks.MAX_KEY),
            headers=_headers(headers),
        )

    def log_event(
        self,
        domain: str,
        type: str,  # noqa: A002 - the log's word
        stream: str,
        payload: object = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> NewLogEvent:
        """An event for the log. Raises ``InvalidArgument`` and ``TooLarge``."""
        event_id = self._new_id()
        key = None if key is None else checks.text(key, "key", longest=checks.MAX_KEY)
        return NewLogEvent(
            id=event_id,
            domain=checks.name(domain, "domain"),
            type=checks.name(type, "type"),
            stream=checks.name(stream, "stream"),
            payload=self._text(payload, "an event"),
            key=key,
            slot=slot_of(event_id if key is None else key),
            headers=encoded_headers(headers),
        )

    def _text(self, payload: object, what: str) -> str:
        text = self._codec.encode(payload)
        limit = self._most_bytes
        # A character is at most four bytes: only a large text is worth encoding to be measured.
        if len(text) * 4 > limit and (size := len(text.encode())) > limit:
            raise TooLarge(
                f"the payload of {what} has {size} bytes, over the limit of {limit} "
                "(max_input_bytes); store the data elsewhere and send a reference to it"
            )
        return text


def _headers(headers: Mapping[str, str] | None) -> str:
    if not headers:
        return _NO_HEADERS
    if len(headers) > _MOST_HEADERS:
        raise InvalidArgument(f"a message may have {_MOST_HEADERS} headers, not {len(headers)}")
    checked = {
        checks.name(name, "header name"): checks.text(value, "header", longest=_LONGEST_HEADER)
        for name, value in headers.items()
    }
    return _encode(checked).decode()


def effects_of(*, message: NewMessage | None = None, log: NewLogEvent | None = None) -> Effects:
    """The effects that commit one of them."""
    return Effects(
        messages=() if message is None else (message,), log=() if log is None else (log,)
    )
