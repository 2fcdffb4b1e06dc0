"""Relays: from a stream of the outbox to its dispatcher."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, json, structs

from offpath.errors import Abort, InvalidArgument, RelayFailed, Snooze
from offpath.events.dispatcher import NO_HEADERS, Event, One, Transport, Undeliverable, transport
from offpath.events.driven_work import Driven
from offpath.events.mover import MoverTerms
from offpath.events.time_limit import TimeLimitExceeded
from offpath.model import checks
from offpath.model.job import DeadReason
from offpath.model.message import LeasedMessage, MessageSettlement, StreamRoom
from offpath.model.new import Box
from offpath.model.relay import PATIENT, PUT_OFF, MoveRules
from offpath.model.retry import RetryOptions, RetryPolicy, as_retry, merged_retry
from offpath.model.settlement import Dead, Retry, Succeeded
from offpath.model.tally import Tally
from offpath.runtime.baggage import PLAIN, HeaderRules
from offpath.runtime.clock import Clock
from offpath.runtime.codec import Codec
from offpath.runtime.failures import failure_of
from offpath.runtime.seats import seated, threaded

if TYPE_CHECKING:
    from datetime import timedelta

    from offpath.events.dispatcher import AnyDispatcher
    from offpath.events.mover import MoverParts
    from offpath.runtime.extensions import Extensions

MANY = 500
"""Events that a dispatcher of many gets at once."""
RELAYED = "relayed"
_DELIVERED = Succeeded()
_headers = json.Decoder(dict[str, str]).decode


class Calls(Protocol):
    """The threads in which blocking functions run."""

    def run(self, function: Callable[[], Any], /) -> Awaitable[Any]:
        """Call ``function`` in a thread."""
        ...


class MoverTools(Struct, frozen=True, kw_only=True):
    """The parts of the app that relays and drains need."""

    codec: Codec
    clock: Clock
    threads: Calls
    random: Callable[[], float]
    extended: Callable[[], Any] = lambda: None
    """The app's extensions, once it is open."""
    headers: HeaderRules = PLAIN


class Outlet(Struct, frozen=True, kw_only=True):
    """A stream of the outbox and what becomes of its events. Made by :func:`outlet`."""

    stream: str
    transport: Transport
    ordered: bool
    retry: RetryPolicy
    timeout: float
    concurrency: int

    def terms(self) -> MoverTerms:
        """The terms of its mover."""
        return MoverTerms(
            done=RELAYED,
            concurrency=self.concurrency,
            many=1 if self.transport.many is None else MANY,
            timeout=self.timeout,
            lease_seconds=lease_for(self.timeout),
        )


def outlet(
    stream: str,
    dispatcher: AnyDispatcher,
    *,
    ordered: bool,
    retry: RetryOptions | RetryPolicy | int | None,
    attempts: int,
    timeout: float | timedelta,
    concurrency: int,
) -> Outlet:
    """A checked outlet. Raises ``InvalidArgument``."""
    return Outlet(
        stream=checks.name(stream, "stream"),
        transport=transport(dispatcher),
        ordered=bool(ordered),
        retry=policy(retry, attempts),
        timeout=limit(timeout),
        concurrency=checks.integer(concurrency, "concurrency", least=1, most=10_000),
    )


def policy(retry: RetryOptions | RetryPolicy | int | None, attempts: int) -> RetryPolicy:
    """A complete policy: what is given, otherwise the patient one. Raises ``InvalidArgument``."""
    given = None if retry is None else as_retry(retry)
    if given is not None and given.function is not None:
        raise InvalidArgument("messages wait as a policy says: a backoff function is for tasks")
    rest = RetryOptions(
        attempts=attempts,
        base=PATIENT.base,
        factor=PATIENT.factor,
        cap=PATIENT.cap,
        jitter=PATIENT.jitter,
    )
    return merged_retry((given, rest))[0]


def limit(timeout: float | timedelta) -> float:
    """A time limit in seconds, more than none. Raises ``InvalidArgument``."""
    seconds = checks.seconds(timeout, "timeout")
    if not 0 < seconds <= _LONGEST:
        raise InvalidArgument(f"timeout must be more than 0 and at most {_LONGEST:.0f} seconds")
    return seconds


_LONGEST = 86_400.0


def lease_for(timeout: float) -> float:
    """Seconds of a lease in which something may wait its turn, run to its limit and be settled."""
    return 2 * timeout + 10.0


class OutletWork:
    """The work of a relay on the messages of its stream."""

    box = Box.OUT

    def __init__(self, outlet: Outlet, tools: MoverTools, *, keep: float | None) -> None:
        self.rules = MoveRules(retry=outlet.retry, keep=keep)
        self._outlet = outlet
        self._transport = outlet.transport
        self._one = outlet.transport.one
        self._threaded = outlet.transport.threaded
        self._tools = tools
        self._decode = decoder(tools.codec)
        self._opened = False
        extensions: Extensions | None = tools.extended()
        self._extensions = extensions if extensions is not None and extensions.delivers else None

    def rooms(self, held: Mapping[str, int], most: int) -> tuple[StreamRoom, ...]:
        """The one stream."""
        del held
        return (StreamRoom(stream=self._outlet.stream, limit=most, ordered=self._outlet.ordered),)

    async def open(self) -> None:
        """Open the dispatcher, once it succeeds."""
        if not self._opened:
            if self._transport.open is not None:
                await self._transport.open()
            self._opened = True

    async def close(self) -> None:
        """Close the dispatcher, if it was opened."""
        if self._opened:
            self._opened = False
            if self._transport.close is not None:
                await self._transport.close()

    async def act(self, message: LeasedMessage) -> MessageSettlement:
        """Hand one event on."""
        event = self._event(message)
        if self._one is None:
            (refusal,) = await self._many([event])
            if refusal is not None:
                return self.failed(message, refusal)
        else:
            await self._hand_on(self._one, event)
        return MessageSettlement(message=message, outcome=_DELIVERED, keep=self.rules.keep)

    async def _hand_on(self, one: One, event: Event) -> None:
        if self._extensions is not None:
            from offpath.events.extended_delivery import extended  # most apps have none

            one = extended(one, event, self._extensions, threaded=self._threaded)
        if self._threaded:
            await threaded(self._tools.threads.run, partial(one, event))
        else:
            await seated(one, event)

    async def act_on_many(self, messages: Sequence[LeasedMessage]) -> list[MessageSettlement]:
        """Hand several on. One that cannot be read fails alone."""
        settled: dict[str, MessageSettlement] = {}
        events: list[Event] = []
        for message in messages:
            try:
                events.append(self._event(message))
            except Exception as error:  # noqa: BLE001 - any codec, any fault
                settled[message.id] = self.failed(message, error)
        readable = [message for message in messages if message.id not in settled]
        for message, refusal in zip(readable, await self._many(events), strict=True):
            settled[message.id] = (
                MessageSettlement(message=message, outcome=_DELIVERED, keep=self.rules.keep)
                if refusal is None
                else self.failed(message, refusal)
            )
        return [settled[message.id] for message in messages]

    async def _many(self, events: list[Event]) -> list[Exception | None]:
        many = self._transport.many
        if not events or many is None:
            return []
        if self._extensions is not None:
            from offpath.events.extended_delivery import extended_many  # most apps have none

            many = extended_many(many, self._extensions)
        answers = list(await seated(many, events))
        if len(answers) != len(events):
            raise TypeError(
                f"dispatch_many returned {len(answers)} answers for {len(events)} events"
            )
        return answers

    def _event(self, message: LeasedMessage) -> Event:
        text = message.payload
        try:
            payload = self._decode(text)
        except Exception as error:
            raise Unreadable("the stored payload cannot be read") from error
        return Event(
            id=message.id,
            stream=message.stream,
            topic=message.topic,
            payload=payload,
            key=message.key,
            headers=headers_of(message),
            attempt=message.attempt,
            created_at=message.created_at,
            body=text,
        )

    def failed(self, message: LeasedMessage, error: BaseException) -> MessageSettlement:
        """Again later, or never."""
        outcome = failed(message, error, self.rules, self._tools)
        return MessageSettlement(message=message, outcome=outcome)

    def all_failed(self, tally: Tally) -> RelayFailed:
        """No event was delivered."""
        stream = self._outlet.stream
        msg = f"relay {stream}: all {tally.total} events failed ({tally.counts})"
        return RelayFailed(msg, tally=tally)


class Unreadable(Exception):
    """A stored payload does not decode."""


def failed(
    message: LeasedMessage, error: BaseException, rules: MoveRules, tools: MoverTools
) -> Retry | Dead:
    """The end of a message's attempt that an error makes: another try, or a dead letter."""
    reason, kind = None, "error"
    match error:
        case Undeliverable():
            reason, kind = DeadReason.UNDELIVERABLE, "aborted"
        case Abort():
            reason, kind = DeadReason.ABORTED, "aborted"
        case Unreadable():
            reason, kind = DeadReason.BAD_INPUT, "bad_input"
        case TimeLimitExceeded():
            kind = "timeout"
        case _:
            pass
    failure = failure_of(error, attempt=message.attempt, at=tools.clock.now(), kind=kind)
    if reason is not None:
        return Dead(reason=reason, failure=failure)
    outcome = rules.failed(message, failure, tools.random())
    if isinstance(error, Snooze) and isinstance(outcome, Retry):
        with suppress(InvalidArgument, TypeError):  # a time that is none: as the policy says
            delay = _asked(error, tools)
            return Retry(delay=delay, failure=structs.replace(failure, kind=PUT_OFF))
    return outcome


def _asked(error: Snooze, tools: MoverTools) -> float:
    """The delay that an error asks for itself; the number of attempts bounds it."""
    if error.until is not None:
        return max((error.until - tools.clock.now()).total_seconds(), 0.0)
    return checks.seconds(error.delay, "the delay of a Snooze")


def headers_of(message: LeasedMessage) -> Mapping[str, str]:
    """The headers of a message."""
    return NO_HEADERS if message.headers == "{}" else _headers(message.headers)


def decoder(codec: Codec) -> Callable[[str], Any]:
    """A fast function from stored text to plain values."""
    make = getattr(codec, "decoder", None)
    if make is not None:
        fast: Callable[[str], Any] = make(Any)
        return fast
    return lambda text: codec.decode(text, Any)


class Relay(Driven):
    """Relays one stream of the outbox: by hand with :meth:`run_once`, or in a worker's loop."""

    def __init__(
        self,
        stream: str,
        find: Callable[[], Outlet | None],
        make: Callable[[], Awaitable[MoverParts]],
        tools: MoverTools,
        *,
        keep: float | None,
    ) -> None:
        def found() -> tuple[OutletWork, MoverTerms] | None:
            if (outlet := find()) is None:
                return None
            return OutletWork(outlet, tools, keep=keep), outlet.terms()

        super().__init__(found, make)
        self.stream = stream
        """The stream that it relays."""

    def __repr__(self) -> str:
        """Show the stream."""
        return f"<Relay {self.stream}>"

    async def run_once(self, *, limit: int = 100) -> Tally:
        """Deliver up to ``limit`` due events, oldest due first; returns what became of them.

        The tally's buckets: ``relayed``, ``failed`` (they are due again later), ``snoozed`` (the
        dispatcher put them off), ``dead_lettered``.
        Without a dispatcher nothing is done, and ``skipped`` says so. Raises ``RelayFailed``, with
        the tally, when every event failed; what became of them is recorded then.
        """
        return await self._pass(limit, f"the stream {self.stream!r} has no dispatcher")
