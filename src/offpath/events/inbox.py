"""The inbox: what others tell us, accepted once by key, and applied later by a handler.

What a handler asks for through its context commits together with the mark that its message was
applied, so a crash between the two cannot apply a message twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from offpath.errors import Abort, DrainFailed, InvalidArgument, OffpathError, TaskError
from offpath.events.dispatcher import NO_HEADERS, is_async
from offpath.events.driven_work import Driven
from offpath.events.mover import MoverTerms
from offpath.events.relay import (
    MoverTools,
    Unreadable,
    decoder,
    failed,
    headers_of,
    lease_for,
    limit,
    policy,
)
from offpath.model import checks
from offpath.model.effects import NOTHING, Effects
from offpath.model.job import DeadReason
from offpath.model.message import LeasedMessage, MessageSettlement, StreamRoom
from offpath.model.new import Box, NewMessage
from offpath.model.relay import MoveRules
from offpath.model.retry import RetryPolicy
from offpath.model.settlement import Dead, Succeeded
from offpath.model.tally import Tally
from offpath.model.unsent import Made, unsent
from offpath.runtime.baggage import carrying, carrying_on
from offpath.runtime.failures import failure_of
from offpath.runtime.parameters import parameters
from offpath.runtime.seats import check_seat, seated, threaded

if TYPE_CHECKING:
    from datetime import timedelta

    from offpath.events.event_writer import MessageWriter
    from offpath.events.mover import MoverParts
    from offpath.model.job import NewJob
    from offpath.model.ledger.decision import LedgerOp
    from offpath.model.ledger.posting import NewPosting
    from offpath.model.new import NewLogEvent, NewMessage
    from offpath.model.retry import RetryOptions
    from offpath.runtime.codec import Codec
    from offpath.runtime.extension import Applying
    from offpath.runtime.extensions import Extensions

H = TypeVar("H", bound=Callable[..., Any])

APPLIED = "applied"
_DONE = Succeeded()


class Accepted(Struct, frozen=True, kw_only=True):
    """The fate of a message that was handed in."""

    id: str
    """The id that the store has it under."""
    new: bool
    """False when a message of this source and key had been accepted before."""


class Duplicate(Struct, frozen=True):
    """A handler may return it: what the message says had been done before. It counts as applied."""


class Rejected(Abort):
    """Raise in an inbox handler: a terminal no, which trying again would not change.

    The message is dead at once, and is redriven only when asked for by name.
    """

    code = "rejected"


class InboxMessage(Struct, frozen=True, kw_only=True):
    """A message as its handler gets it."""

    id: str
    source: str
    key: str
    """The source's own id of it: fit as an idempotency key."""
    payload: Any
    headers: Mapping[str, str] = NO_HEADERS
    attempt: int = 1
    received_at: datetime | None = None
    """The time of its acceptance, by the store's clock."""
    body: str = ""
    """The payload as it is stored: JSON, with the default codec."""

    def __repr__(self) -> str:
        """Show what it is; never the payload."""
        return f"<InboxMessage {self.source}:{self.key} {self.id} attempt={self.attempt}>"


class InboxContext:
    """The verbs of an inbox handler. Their effects happen when, and only when, the message is
    applied.
    """

    __slots__ = ("_jobs", "_log", "_messages", "_operations", "_over", "_writer", "attempt", "id")

    def __init__(self, message: LeasedMessage, writer: MessageWriter) -> None:
        self.id = message.id
        """The message's id."""
        self.attempt = message.attempt
        """The number of this attempt, from 1."""
        self._writer = writer
        self._jobs: list[NewJob] = []
        self._messages: list[NewMessage] = []
        self._log: list[NewLogEvent] = []
        self._operations: list[LedgerOp] = []
        self._over = False

    def __repr__(self) -> str:
        """Show the message's id."""
        return f"<InboxContext {self.id} attempt={self.attempt}>"

    def enqueue(self, jobs: Made | Iterable[Made], /) -> None:
        """Enqueue jobs, as ``task.job(...)`` makes them."""
        self._require_going()
        several = jobs if isinstance(jobs, Iterable) else (jobs,)
        self._jobs.extend([unsent(job).new for job in several])

    def publish(
        self,
        topic: str,
        payload: object = None,
        *,
        key: str | None = None,
        stream: str = "default",
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Publish an event; returns its id."""
        self._require_going()
        made = self._writer.message(topic, payload, key=key, stream=stream, headers=headers)
        self._messages.append(made)
        return made.id

    def append(
        self,
        domain: str,
        type: str,  # noqa: A002 - the log's word
        stream: str,
        payload: object = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Append an event to the log; returns its id."""
        self._require_going()
        made = self._writer.log_event(domain, type, stream, payload, key=key, headers=headers)
        self._log.append(made)
        return made.id

    def post(self, posting: NewPosting | LedgerOp) -> None:
        """Make a posting of the ledger; see :meth:`offpath.Context.post`."""
        from offpath.model.ledger.plain import operation_of

        self._require_going()
        self._operations.append(operation_of(posting))

    def take(self) -> Effects:
        """End it; returns what was asked for."""
        self._over = True
        if not (self._jobs or self._messages or self._log or self._operations):
            return NOTHING
        return Effects(
            jobs=tuple(self._jobs),
            messages=tuple(self._messages),
            log=tuple(self._log),
            operations=tuple(self._operations),
        )

    def _require_going(self) -> None:
        if self._over:
            raise InvalidArgument(
                f"the attempt at message {self.id} has ended: nothing can be joined to it"
            )


Argument = Callable[[InboxMessage, InboxContext | None], Any]


class Source(Struct, frozen=True, kw_only=True):
    """A source of the inbox and its handler. Made by :func:`source`."""

    name: str
    handler: Callable[..., Any]
    threaded: bool
    arguments: tuple[Argument, ...]
    retry: RetryPolicy
    timeout: float
    concurrency: int

    def refuse_text(self, payload: str | bytes | bytearray, message: NewMessage) -> None:
        """Raise ``InvalidArgument`` for a text that the handler cannot read.

        It is what was posted, as a rule, and was to be decoded; applied, it would be dead at once.
        """
        given = InboxMessage(
            id=message.id, source=self.name, key=message.key or "", payload=None,
            body=message.payload,
        )  # fmt: skip
        try:
            for argument in self.arguments:
                argument(given, None)
        except Unreadable as error:
            raise InvalidArgument(
                f"the handler of inbox {self.name!r} cannot read {type(payload).__name__}: "
                "give what the body says, as json.loads(body)"
            ) from error

    def terms(self) -> MoverTerms:
        """The terms of its mover."""
        return MoverTerms(
            done=APPLIED,
            concurrency=self.concurrency,
            timeout=self.timeout,
            lease_seconds=lease_for(self.timeout),
        )


def source(
    name: str,
    handler: Callable[..., Any],
    codec: Codec,
    *,
    retry: RetryOptions | RetryPolicy | int | None,
    attempts: int,
    timeout: float | timedelta,
    concurrency: int,
) -> Source:
    """A checked source. Raises ``InvalidArgument`` and ``TaskError``."""
    name = checks.name(name, "source")
    return Source(
        name=name,
        handler=handler,
        threaded=not is_async(handler),
        arguments=_arguments(handler, codec, f"inbox {name!r}"),
        retry=policy(retry, attempts),
        timeout=limit(timeout),
        concurrency=checks.integer(concurrency, "concurrency", least=1, most=10_000),
    )


def _arguments(handler: Callable[..., Any], codec: Codec, where: str) -> tuple[Argument, ...]:
    """By its annotation, each parameter is the message, the context, or the payload as a type."""
    if not callable(handler):
        raise TaskError(f"{where}: @app.inbox goes on a function, not on {handler!r}")
    check_seat(handler, where)
    _, read = parameters(handler, context=False, where=where)
    required = [one for one in read if one.required]
    if not required:
        raise TaskError(f"{where}: its handler takes no parameter for the message")
    if any(one.kind in {one.kind.KEYWORD_ONLY, one.kind.VAR_KEYWORD} for one in required):
        raise TaskError(f"{where}: the parameters of its handler must be positional")
    return tuple(_argument(one.type, codec) for one in required)


def _argument(kind: Any, codec: Codec) -> Argument:  # noqa: ANN401 - any annotation
    if kind is InboxContext:
        return lambda _, context: context
    if kind is InboxMessage or kind is Any:
        return lambda message, _: message

    def payload(message: InboxMessage, _: InboxContext | None) -> Any:  # noqa: ANN401 - of that type
        try:
            return codec.decode(message.body, kind)
        except Exception as error:
            text = str(error) if isinstance(error, OffpathError) else type(error).__name__
            raise Unreadable(f"the payload does not fit {kind}: {text}") from error

    return payload


class SourceWork:
    """The work of a drain on the messages of its source."""

    box = Box.IN

    def __init__(
        self, source: Source, tools: MoverTools, writer: MessageWriter, *, keep: float | None
    ) -> None:
        self.rules = MoveRules(retry=source.retry, keep=keep)
        self._source = source
        self._tools = tools
        self._writer = writer
        self._decode = decoder(tools.codec)

    def rooms(self, held: Mapping[str, int], most: int) -> tuple[StreamRoom, ...]:
        """The one source."""
        del held
        return (StreamRoom(stream=self._source.name, limit=most),)

    async def open(self) -> None:
        """Nothing is to be opened."""

    async def close(self) -> None:
        """Nothing is to be closed."""

    async def act(self, message: LeasedMessage) -> MessageSettlement:
        """Apply one message."""
        given = self._message(message)
        context = InboxContext(message, self._writer)
        carried = self._tools.headers.carried(given.headers)
        extensions: Extensions | None = self._tools.extended()
        handler, applying = self._source.handler, None
        if extensions is not None:
            from offpath.events.extended_delivery import extended_handler

            applying = _applying(given)
            handler = extended_handler(handler, applying, extensions, self._source.threaded)
        try:
            arguments = [make(given, context) for make in self._source.arguments]
            with carrying_on(carried):
                await self._call(handler, arguments)
        finally:
            effects = context.take()
        if extensions is not None:
            with extensions.sending(effects, cause=applying) as ready:
                effects = ready
        effects = carrying(effects, carried)
        return MessageSettlement(
            message=message, outcome=_DONE, effects=effects, keep=self.rules.keep
        )

    async def _call(self, handler: Callable[..., Any], arguments: Sequence[object]) -> None:
        if self._source.threaded:
            await threaded(self._tools.threads.run, lambda: handler(*arguments))
        else:
            await seated(handler, *arguments)

    async def act_on_many(self, messages: Sequence[LeasedMessage]) -> list[MessageSettlement]:
        """One after the other."""
        return [await self.act(message) for message in messages]

    def _message(self, message: LeasedMessage) -> InboxMessage:
        try:
            payload = self._decode(message.payload)
        except Exception as error:
            raise Unreadable("the stored payload cannot be read") from error
        return InboxMessage(
            id=message.id,
            source=message.stream,
            key=message.key or "",
            payload=payload,
            headers=headers_of(message),
            attempt=message.attempt,
            received_at=message.created_at,
            body=message.payload,
        )

    def failed(self, message: LeasedMessage, error: BaseException) -> MessageSettlement:
        """Again later, or never."""
        from offpath.model.ledger.faults import beyond_retry  # loaded where there is a ledger

        if isinstance(error, Rejected) or beyond_retry(error):
            now = self._tools.clock.now()
            failure = failure_of(error, attempt=message.attempt, at=now, kind="aborted")
            said_no = isinstance(error, Rejected)
            reason = DeadReason.REJECTED if said_no else DeadReason.ABORTED
            return MessageSettlement(message=message, outcome=Dead(reason=reason, failure=failure))
        outcome = failed(message, error, self.rules, self._tools)
        return MessageSettlement(message=message, outcome=outcome)

    def all_failed(self, tally: Tally) -> DrainFailed:
        """No message was applied."""
        name = self._source.name
        msg = f"inbox {name}: all {tally.total} messages failed ({tally.counts})"
        return DrainFailed(msg, tally=tally)


class Drain(Driven):
    """Applies the messages of one source: by hand with :meth:`run_once`, or in a worker's loop."""

    def __init__(
        self,
        name: str,
        find: Callable[[], Source | None],
        make: Callable[[], Awaitable[MoverParts]],
        tools: MoverTools,
        writer: MessageWriter,
        *,
        keep: float | None,
    ) -> None:
        def found() -> tuple[SourceWork, MoverTerms] | None:
            if (source := find()) is None:
                return None
            return SourceWork(source, tools, writer, keep=keep), source.terms()

        super().__init__(found, make)
        self.source = name
        """The source that it drains."""

    def __repr__(self) -> str:
        """Show the source."""
        return f"<Drain {self.source}>"

    async def run_once(self, *, limit: int = 100) -> Tally:
        """Apply up to ``limit`` due messages, oldest due first; returns what became of them.

        The tally's buckets: ``applied``, ``failed`` (they are due again later), ``snoozed`` (the
        handler put them off), ``dead_lettered``.
        Without a handler nothing is done, and ``skipped`` says so. Raises ``DrainFailed``, with
        the tally, when every message failed; what became of them is recorded then.
        """
        return await self._pass(limit, f"the source {self.source!r} has no handler")


def _applying(message: InboxMessage) -> Applying:
    """A message as extensions see it."""
    from offpath.runtime.extension import Applying

    return Applying(
        id=message.id,
        source=message.source,
        key=message.key or None,
        attempt=message.attempt,
        headers=message.headers,
        state={},
    )
