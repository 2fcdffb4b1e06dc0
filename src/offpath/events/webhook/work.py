"""The two works of webhooks: an event becomes a delivery for each endpoint, and each is posted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from offpath.errors import PassFailed, RelayFailed, StoreError
from offpath.events.mover import MoverTerms
from offpath.events.relay import headers_of
from offpath.events.webhook.post_log import PostLog, outcome_of, reason_of
from offpath.events.webhook.poster import Post, Poster, body_of
from offpath.model.effects import Effects
from offpath.model.endpoint import Endpoint, EndpointState, endpoint_of, stream_of
from offpath.model.job import DeadReason, Failure
from offpath.model.message import LeasedMessage, MessageSettlement, StreamRoom
from offpath.model.new import Box, NewMessage
from offpath.model.post import PostRecord
from offpath.model.relay import MoveRules
from offpath.model.settlement import Dead, Released, Retry, Succeeded
from offpath.model.webhook import (
    LIMIT,
    SCHEDULE,
    Answer,
    Delivered,
    Gone,
    Refused,
    RetryLater,
    blocked,
    is_open,
    note_for,
    wait_before,
    wants,
)
from offpath.runtime.baggage import PLAIN, HeaderRules, encoded_texts
from offpath.runtime.clock import Clock
from offpath.runtime.failures import failure_of
from offpath.runtime.ids import derive_id

if TYPE_CHECKING:
    from offpath.model.tally import Tally
    from offpath.store.events import EventStore

FAN_OUT: Final = MoverTerms(done="relayed", concurrency=50, timeout=30.0)
POSTS: Final = MoverTerms(
    done="relayed", concurrency=500, batch=500, timeout=LIMIT + 5.0, lease_seconds=3 * LIMIT + 10.0
)
PER_ENDPOINT: Final = 5
"""Posts to one endpoint at once: a slow one cannot have all places."""
LOOK_EVERY: Final = 2.0
"""Seconds for which what is known of the endpoints is taken to be true."""


class Directory:
    """The endpoints as they were a moment ago."""

    def __init__(self, store: EventStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, Endpoint] = {}
        self._read_at: float | None = None

    async def refresh(self, *, after: float = LOOK_EVERY) -> None:
        """Read them when they were last read that many seconds ago."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= after:
            self._known = {one.name: one for one in await self._store.endpoints()}
            self._read_at = now

    def all(self) -> Sequence[Endpoint]:
        """Every endpoint."""
        return tuple(self._known.values())

    def get(self, name: str) -> Endpoint | None:
        """The endpoint of that name, if it is known."""
        return self._known.get(name)

    async def heard(self, endpoint: Endpoint, answer: Answer) -> None:
        """Record what an answer says of its endpoint."""
        known = self._known.get(endpoint.name, endpoint)
        note = note_for(known, answer, self._clock.now())
        if note is not None and (noted := await self._store.note_endpoint(note)) is not None:
            self._known[noted.name] = noted


class WebhookTools(Struct, frozen=True, kw_only=True):
    """The parts of the app that both works need."""

    directory: Directory
    clock: Clock
    random: Callable[[], float]
    keep: float | None
    """Seconds to keep what was delivered: a replay reaches back so far."""
    headers: HeaderRules = PLAIN


class FanOutWork:
    """Makes of an event one delivery for each endpoint that wants it, in the event's settlement."""

    box = Box.OUT

    def __init__(self, streams: Callable[[], Sequence[str]], tools: WebhookTools) -> None:
        self.rules = MoveRules(keep=tools.keep)
        self._streams = streams
        self._tools = tools
        self._read_for = ""
        self._reading = asyncio.Lock()

    def rooms(self, held: Mapping[str, int], most: int) -> tuple[StreamRoom, ...]:
        """The streams whose events go to endpoints."""
        del held
        return tuple(StreamRoom(stream=stream, limit=most) for stream in self._streams())

    async def open(self) -> None:
        """Nothing is to be opened."""

    async def close(self) -> None:
        """Nothing is held."""

    async def act(self, message: LeasedMessage) -> MessageSettlement:
        """Plan the deliveries; they are written together with the event's end."""
        await self._read(message.holder)
        deliveries = tuple(
            self._delivery(message, endpoint)
            for endpoint in self._tools.directory.all()
            if wants(endpoint, message.stream, message.topic)
        )
        return MessageSettlement(
            message=message,
            outcome=Succeeded(),
            effects=Effects(messages=deliveries),
            keep=self.rules.keep,
        )

    async def _read(self, holder: str) -> None:
        """Read the endpoints after the lease: one that was added before an event was published is
        there then, which it need not be in what was read before the event was leased.
        """
        async with self._reading:
            if self._read_for != holder:
                await self._tools.directory.refresh(after=0.0)
                self._read_for = holder

    def _delivery(self, message: LeasedMessage, endpoint: Endpoint) -> NewMessage:
        return NewMessage(
            id=derive_id(message.id, f"webhook:{endpoint.name}"),
            box=Box.OUT,
            stream=stream_of(endpoint.name),
            topic=message.topic,
            payload=body_of(
                message.topic, message.created_at.isoformat(), message.payload
            ).decode(),
            key=message.key,
            headers=encoded_texts(self._tools.headers.sent(headers_of(message))),
        )

    async def act_on_many(self, messages: Sequence[LeasedMessage]) -> list[MessageSettlement]:
        """One after the other."""
        return [await self.act(message) for message in messages]

    def failed(self, message: LeasedMessage, error: BaseException) -> MessageSettlement:
        """Try again later."""
        failure = failure_of(error, attempt=message.attempt, at=self._tools.clock.now())
        outcome = self.rules.failed(message, failure, self._tools.random())
        return MessageSettlement(message=message, outcome=outcome)

    def all_failed(self, tally: Tally) -> PassFailed:
        """Nothing could be planned."""
        return RelayFailed(f"webhooks: {tally.total} events could not be planned", tally=tally)


class PostWork:
    """Posts deliveries. What an endpoint does wrong is that endpoint's health, not this loop's."""

    box = Box.OUT

    def __init__(
        self,
        poster: Poster,
        tools: WebhookTools,
        *,
        posts: PostLog,
        per_endpoint: int = PER_ENDPOINT,
    ) -> None:
        self.rules = MoveRules(keep=tools.keep)
        self._posts = posts
        self._poster = poster
        self._tools = tools
        self._per_endpoint = per_endpoint
        self.full = False
        """True if an endpoint was not asked for because it had all that it may have."""

    def rooms(self, held: Mapping[str, int], most: int) -> tuple[StreamRoom, ...]:
        """Enabled endpoints that are not blocked; one post at a time while a circuit is open."""
        now = self._tools.clock.now()
        rooms = []
        self.full = False
        for endpoint in self._tools.directory.all():
            stream = stream_of(endpoint.name)
            room = (1 if is_open(endpoint) else self._per_endpoint) - held.get(stream, 0)
            usable = endpoint.state is EndpointState.ENABLED and not blocked(endpoint, now)
            self.full = self.full or (usable and room <= 0)
            if usable and room > 0:
                rooms.append(StreamRoom(stream=stream, limit=min(room, most)))
        return tuple(rooms)

    async def open(self) -> None:
        """The directory is refreshed by whoever drives this."""

    async def close(self) -> None:
        """Let the connections go."""
        await self._poster.close()

    async def act(self, message: LeasedMessage) -> MessageSettlement:
        """Post one, and record what that says of its endpoint."""
        endpoint = self._tools.directory.get(endpoint_of(message.stream))
        if endpoint is None:
            return MessageSettlement(message=message, outcome=Released())
        post = Post(
            endpoint,
            message.id,
            message.payload.encode(),
            topic=message.topic,
            attempt=message.attempt,
            headers=headers_of(message),
        )
        answer = await self._posted(post)
        try:
            await self._tools.directory.heard(endpoint, answer)
        except StoreError:
            # what was delivered stays so; anything else could come again at once, uncounted
            if not isinstance(answer, Delivered):
                raise
        return self._settlement(message, answer)

    async def _posted(self, post: Post) -> Answer:
        """The answer to a post, which is noted for whoever looks at the endpoint."""
        clock = self._tools.clock
        at, begun = clock.now(), clock.monotonic()
        answer = await self._poster.post(post)
        self._posts.add(
            PostRecord(
                endpoint=post.endpoint.name,
                message=post.id,
                topic=post.topic,
                attempt=post.attempt,
                at=at,
                seconds=max(clock.monotonic() - begun, 0.0),
                outcome=outcome_of(answer),
                status=answer.status,
                why=reason_of(answer),
            )
        )
        return answer

    async def act_on_many(self, messages: Sequence[LeasedMessage]) -> list[MessageSettlement]:
        """One after the other."""
        return [await self.act(message) for message in messages]

    def _settlement(self, message: LeasedMessage, answer: Answer) -> MessageSettlement:
        match answer:
            case Delivered():
                return MessageSettlement(message=message, outcome=Succeeded(), keep=self.rules.keep)
            case Gone() | RetryLater():
                # it waits with its endpoint; the attempt is not the message's
                return MessageSettlement(message=message, outcome=Released())
            case Refused(why=why):
                failure = Failure(
                    kind="error",
                    type="WebhookRefused",
                    message=why,
                    attempt=message.attempt,
                    at=self._tools.clock.now(),
                )
                return MessageSettlement(message=message, outcome=self._next(message, failure))

    def _next(self, message: LeasedMessage, failure: Failure) -> Retry | Dead:
        wait = wait_before(message.attempt, self._tools.random())
        if wait is None:
            return Dead(reason=DeadReason.EXHAUSTED, failure=failure)
        return Retry(delay=wait, failure=failure)

    def failed(self, message: LeasedMessage, error: BaseException) -> MessageSettlement:
        """An attempt that ended in an error of ours."""
        failure = failure_of(error, attempt=message.attempt, at=self._tools.clock.now())
        return MessageSettlement(message=message, outcome=self._next(message, failure))

    def all_failed(self, tally: Tally) -> PassFailed:
        """No receiver took anything."""
        return RelayFailed(f"webhooks: all {tally.total} posts failed", tally=tally)


ATTEMPTS: Final = len(SCHEDULE)
"""The number of times that a delivery is posted at most."""
