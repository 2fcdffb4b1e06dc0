"""Events to Amazon SQS."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, json

from offpath.events.dispatcher import Event, Outcomes, Undeliverable
from offpath.events.dispatchers.link import (
    Link,
    NameTemplate,
    NotAcknowledged,
    addresses,
    event_headers,
    extra,
    further,
    shown,
    told,
    wait_limit,
)
from offpath.model import checks

if TYPE_CHECKING:
    from datetime import timedelta

_SET_BY_US: Final = frozenset({"config"})
_MOST_ENTRIES: Final = 10
_MOST_ATTRIBUTES: Final = 10
_LARGEST: Final = 1_048_576
"""Bytes of a message, and of all messages of one request, with their attributes."""
_NAME: Final = re.compile(
    r"(?!(aws|amazon)\.)(?!\.)(?!.*\.\.)[a-z0-9_.-]{1,256}(?<!\.)", re.IGNORECASE
)
_PASSING: Final = re.compile("throttl|accessdenied|kms|overlimit|unavailable", re.IGNORECASE)
"""Codes that blame the sender, and yet pass: by waiting, or by a right that is given."""


class _SqsEntry(Struct, frozen=True):
    """One message of a request."""

    at: int
    """Its place among the events."""
    size: int
    fields: dict[str, Any]


class SqsDispatcher:
    """Sends events to queues of Amazon SQS, up to ten in one request.

    **Delivered** means that SQS answered with the message's id: it is stored redundantly.

    **Duplicates** are for the receiver to drop, by the attribute ``Offpath-Id``: the event's id,
    the same at every attempt. A FIFO queue drops those of the last five minutes by itself. It keeps
    the order of each key (the group of its messages); other queues keep none.

    The body is the payload as stored (JSON). Attributes are the event's headers, and
    ``Offpath-Id``, ``-Topic``, ``-Stream``, ``-Key``, ``-Created``. A message has at most ten of
    them: where there are more, or SQS takes a name or a value not, the event's own headers are one
    attribute, ``Offpath-Headers``, a JSON object.

    What SQS refuses for the message's sake, or is over ``max_bytes``, is ``Undeliverable``: a dead
    letter at once, alone. Throttling, rights that are missing and lost connections fail, and are
    due again.
    """

    def __init__(
        self,
        queue: str,
        /,
        *,
        max_bytes: int = _LARGEST,
        timeout: float | timedelta = 10.0,
        connect_timeout: float | timedelta = 5.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """``queue`` is its URL, and may have the fields ``{topic}``, ``{stream}`` and ``{key}``.

        ``timeout`` is for the answers of one batch and should be below the outbox's own;
        ``options`` go to ``create_client``, as ``{"region_name": …}`` or ``{"endpoint_url": …}``.
        Credentials are found as by any program of AWS. Raises ``InvalidArgument`` and, without the
        extra ``sqs``, ``MissingExtra``.
        """
        self._session = extra("aiobotocore.session", "sqs")
        self._config = extra("aiobotocore.config", "sqs").AioConfig
        failures = extra("botocore.exceptions", "sqs")
        self._errors: tuple[type[Exception], ...] = (
            failures.ClientError, failures.BotoCoreError, extra("aiohttp", "sqs").ClientError,
            OSError, TimeoutError,
        )  # fmt: skip
        self._urls = addresses((queue,), ("https", "http"))
        self._queue = NameTemplate(queue, "queue")
        self._max_bytes = checks.integer(max_bytes, "max_bytes", least=1_024, most=_LARGEST)
        self._timeout = wait_limit(timeout, "timeout")
        self._connect_timeout = wait_limit(connect_timeout, "connect_timeout")
        self._options = further(options, _SET_BY_US)
        self._stack = AsyncExitStack()
        self._link: Link[Any] = Link(self._connect, lambda _client: True)

    def __repr__(self) -> str:
        """Show where to; never who as."""
        return f"<SqsDispatcher {shown(self._urls)}>"

    async def open(self) -> None:
        """Make the client. Raises ``NotAcknowledged`` where it lacks a region or credentials."""
        await self._link.get()

    async def close(self) -> None:
        """Close the connections."""
        await self._link.take()
        await self._stack.aclose()

    async def _connect(self) -> Any:  # noqa: ANN401 - the client's class is made at run time
        config = self._config(
            connect_timeout=self._connect_timeout,
            read_timeout=self._timeout,
            retries={"total_max_attempts": 1},  # the relay repeats, and spaces the attempts
        )
        try:
            made = self._session.get_session().create_client("sqs", config=config, **self._options)
            return await self._stack.enter_async_context(made)
        except self._errors as error:
            raise NotAcknowledged(f"SQS: {told(error, self._urls)}") from None

    async def dispatch_many(self, events: Sequence[Event], /) -> Outcomes:
        """Send them all, in as few requests as there may be."""
        client = await self._link.get()
        outcomes: list[Exception | None] = [None] * len(events)
        queues: dict[str, list[_SqsEntry]] = {}
        for at, event in enumerate(events):
            try:
                queue = self._queue.of(event)
                queues.setdefault(queue, []).append(self._entry(at, event, queue))
            except Undeliverable as error:
                outcomes[at] = error
        requests = [
            self._send(client, queue, entries, outcomes)
            for queue, several in queues.items()
            for entries in _requests(several)
        ]
        await asyncio.gather(*requests)
        return outcomes

    async def _send(
        self,
        client: Any,  # noqa: ANN401 - see `_connect`
        queue: str,
        entries: list[_SqsEntry],
        outcomes: list[Exception | None],
    ) -> None:
        refused: dict[int, Exception]
        try:
            async with asyncio.timeout(self._timeout):
                answer = await client.send_message_batch(
                    QueueUrl=queue, Entries=[one.fields for one in entries]
                )
        except self._errors as error:
            failed = NotAcknowledged(f"SQS: {told(error, self._urls)}")
            refused = {one.at: failed for one in entries}
        else:
            taken = {int(one["Id"]) for one in answer.get("Successful", ())}
            unsaid = NotAcknowledged("SQS did not say what became of it")
            refused = {one.at: unsaid for one in entries if one.at not in taken}
            refused |= {int(one["Id"]): _refusal(one) for one in answer.get("Failed", ())}
        for at, refusal in refused.items():
            outcomes[at] = refusal

    def _entry(self, at: int, event: Event, queue: str) -> _SqsEntry:
        """One message. Raises ``Undeliverable`` for one that is too large."""
        attributes = _attributes(event)
        size = len(event.body.encode()) + sum(
            len(name.encode()) + len("String") + len(text.encode())
            for name, text in attributes.items()
        )
        if size > self._max_bytes:
            raise Undeliverable(
                f"body and attributes have {size} bytes; SQS takes {self._max_bytes} (max_bytes)"
            )
        fields: dict[str, Any] = {
            "Id": str(at),
            "MessageBody": event.body,
            "MessageAttributes": {
                name: {"DataType": "String", "StringValue": text}
                for name, text in attributes.items()
            },
        }
        if queue.endswith(".fifo"):
            # without a key there is no order to keep: each is a group of its own
            fields["MessageGroupId"] = event.key or event.id
            fields["MessageDeduplicationId"] = event.id
        return _SqsEntry(at, size, fields)


def _attributes(event: Event) -> dict[str, str]:
    found = event_headers(event) | {"Offpath-Id": event.id}
    fits = len(found) <= _MOST_ATTRIBUTES and all(
        text and _NAME.fullmatch(name) for name, text in found.items()
    )
    if fits:
        return found
    ours = {name: text for name, text in found.items() if name.startswith("Offpath-") and text}
    return ours | {"Offpath-Headers": json.encode(dict(event.headers)).decode()}


def _requests(entries: Sequence[_SqsEntry]) -> Iterator[list[_SqsEntry]]:
    """Entries in requests of at most ten and of at most the bytes that SQS takes."""
    request: list[_SqsEntry] = []
    size = 0
    for one in entries:
        if request and (len(request) == _MOST_ENTRIES or size + one.size > _LARGEST):
            yield request
            request, size = [], 0
        request.append(one)
        size += one.size
    if request:
        yield request


def _refusal(failed: Mapping[str, Any]) -> Exception:
    code = str(failed.get("Code", ""))
    text = f"SQS refused it: {code} {failed.get('Message', '')}".strip()[:300]
    lasting = failed.get("SenderFault") and not _PASSING.search(code)
    return Undeliverable(text) if lasting else NotAcknowledged(text)
