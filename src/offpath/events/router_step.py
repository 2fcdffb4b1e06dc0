"""One step of a router: decide about a page of events, deliver, and write it all at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct, json, structs

from offpath.errors import Conflict, InvalidArgument, StoreRejected
from offpath.events.deliveries import Delivery, RoutedEvent, hand_over
from offpath.model.effects import Effects
from offpath.model.headers import decoded_headers
from offpath.model.job import NewJob, unreadable_row
from offpath.model.new import NewLogEvent, NewMessage
from offpath.model.route import (
    Attempt,
    AttemptStatus,
    Decisions,
    Letter,
    LogEvent,
    LogPage,
    RouterRecord,
)
from offpath.model.route_decision import decide
from offpath.model.tally import Tally
from offpath.runtime.baggage import PLAIN, HeaderRules, carrying
from offpath.runtime.extension import Routing
from offpath.runtime.failures import message_of

if TYPE_CHECKING:
    from offpath.runtime.extensions import Extensions

REFUSED: Final = (Conflict, StoreRejected, InvalidArgument)
"""The errors by which one event's effects may refuse the transaction of its whole page."""
_LONGEST_DETAIL = 500

Decode = Callable[[str], Any]


class NotSupported(InvalidArgument):
    """A live route has nothing to deliver with in this process."""

    code = "not_supported"


class RouterStep(Struct, frozen=True):
    """One event of a page: what was decided, and what came of it."""

    event: LogEvent
    attempt: Attempt
    effects: Effects = Effects()
    error: BaseException | None = None

    def failed(self, error: BaseException) -> RouterStep:
        """The same, not delivered."""
        attempt = structs.replace(
            self.attempt, status=AttemptStatus.FAILED, detail=detail_of(error)
        )
        return RouterStep(self.event, attempt, error=error)


class Travel(Struct, frozen=True):
    """The headers that go along with an event, and the extensions around it."""

    extended: Callable[[], Any] = lambda: None
    """The app's extensions, once it is open."""
    headers: HeaderRules = PLAIN

    def made(self, step: RouterStep, make: Callable[[], Effects]) -> Effects:
        """The rows that an event's route writes, with all headers that travel."""
        headers = decoded_headers(step.event.headers)
        extensions: Extensions | None = self.extended()
        if extensions is None:
            return carrying(make(), self.headers.carried(headers))
        with self.routing(step), extensions.sending(make()) as ready:
            return carrying(ready, self.headers.carried(headers))

    def routing(self, step: RouterStep) -> AbstractContextManager[None]:
        """The extensions' contexts around one delivery."""
        extensions: Extensions | None = self.extended()
        if extensions is None:
            return nullcontext()
        event, attempt = step.event, step.attempt
        return extensions.routing(
            Routing(
                router=attempt.router,
                route=attempt.route,
                event=event.id,
                type=event.type,
                stream=event.stream,
                attempt=attempt.number,
                headers=decoded_headers(event.headers),
                state={},
            )
        )


class Courier:
    """Delivers steps along the routes of one router."""

    def __init__(
        self,
        deliveries: Mapping[str, Delivery],
        decode: Decode,
        *,
        concurrency: int,
        time_limit: float,
        travel: Travel | None = None,
    ) -> None:
        self._deliveries = deliveries
        self._decode = decode
        self._travel = travel or Travel()
        self.concurrency = concurrency
        """Events that are delivered outside of the database at once."""
        self._time_limit = time_limit

    @property
    def patience(self) -> float:
        """Seconds that a deliverer outside of the database has for one event."""
        return self._time_limit

    def decided(self, record: RouterRecord, events: Sequence[LogEvent]) -> list[RouterStep]:
        """The steps for the events that have no attempt yet."""
        return [
            RouterStep(event, decide(event, record.routes, gates=record))
            for event in events
            if not event.decided
        ]

    def stored(self, step: RouterStep) -> RouterStep:
        """The step with the rows that its route writes; others come back as they are."""
        delivery = self._deliveries.get(step.attempt.route)
        if step.attempt.status is not AttemptStatus.SENT:
            return step
        try:
            if delivery is None:
                raise _not_supported(step.attempt)
            if delivery.stored is None:
                return step
            effects = self._travel.made(step, partial(_effects, delivery, self.routed(step)))
        except Exception as error:  # noqa: BLE001 - becomes the event's dead letter
            return step.failed(error)
        return RouterStep(step.event, step.attempt, effects)

    def goes_outside(self, step: RouterStep) -> bool:
        """True if it is delivered before the transaction."""
        delivery = self._deliveries.get(step.attempt.route)
        sent = step.attempt.status is AttemptStatus.SENT
        return sent and delivery is not None and delivery.outside is not None

    async def deliver(self, steps: Sequence[RouterStep]) -> list[RouterStep]:
        """All steps carried out as far as can be before the transaction, in the given order.

        Events of one key are handed over one after the other, those of different keys at once.
        """
        done = [self.stored(step) for step in steps]
        lanes: defaultdict[str, list[int]] = defaultdict(list)
        for at, step in enumerate(done):
            if self.goes_outside(step):
                lanes[step.event.key or step.event.id].append(at)
        if lanes:
            slots = asyncio.Semaphore(self.concurrency)
            await asyncio.gather(*(self._lane(done, lane, slots) for lane in lanes.values()))
        return done

    async def outside(self, step: RouterStep) -> RouterStep:
        """One step handed over to its function, in its own error boundary and time limit."""
        function = self._deliveries[step.attempt.route].outside
        assert function is not None  # noqa: S101 - only those that go outside come here
        try:
            with self._travel.routing(step):
                async with asyncio.timeout(self._time_limit):
                    await hand_over(function, self.routed(step))
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return step.failed(error)
        except Exception as error:  # noqa: BLE001 - becomes the event's dead letter
            return step.failed(error)
        return step

    def routed(self, step: RouterStep) -> RoutedEvent:
        """The event as a deliverer gets it. Raises when its payload does not decode."""
        event, attempt = step.event, step.attempt
        if event.unreadable is not None:
            raise StoreRejected(unreadable_row(event.unreadable, attempt.number).message)
        return RoutedEvent(
            id=event.id,
            domain=event.domain,
            type=event.type,
            stream=event.stream,
            position=event.position,
            at=event.at,
            payload=self._decode(event.payload),
            key=event.key,
            router=attempt.router,
            route=attempt.route,
            delivery=attempt.key,
            attempt=attempt.number,
            headers=dict(decoded_headers(event.headers)),
        )

    async def _lane(
        self, done: list[RouterStep], lane: list[int], slots: asyncio.Semaphore
    ) -> None:
        for at in lane:
            async with slots:
                done[at] = await self.outside(done[at])


class Naming(Protocol):
    """Makes the id of an event's dead letter: the same for the same router and event."""

    def __call__(self, event: str, router: str, /) -> str:
        """The id."""
        ...


Place = tuple[int, str | None]
"""The place of a cursor: a position, and the mark of that place in a table of the user's own."""


def place_of(step: RouterStep) -> Place:
    """The place of a step's event."""
    return step.event.position, step.event.mark


def placed(events: Sequence[LogEvent], position: int) -> Place:
    """A position that some events were read up to, with its mark."""
    marks = {event.position: event.mark for event in events}
    return position, marks.get(position)


def decisions(steps: Sequence[RouterStep], place: Place, passed: int, naming: Naming) -> Decisions:
    """The decisions to write for these steps."""
    position, mark = place
    return Decisions(
        position=position,
        mark=mark,
        attempts=tuple(step.attempt for step in steps),
        letters=tuple(letter_of(step, naming) for step in steps if step.error is not None),
        effects=merged(step.effects for step in steps if step.effects),
        passed=passed,
        summary=json.encode(tallied(steps).counts).decode(),
    )


def tallied(steps: Sequence[RouterStep]) -> Tally:
    """The events by the status of their attempts."""
    buckets: defaultdict[str, list[str]] = defaultdict(list)
    for step in steps:
        buckets[step.attempt.status.value].append(step.event.id)
    return Tally(buckets={status: tuple(ids) for status, ids in buckets.items()})


def letter_of(step: RouterStep, naming: Naming) -> Letter:
    """The dead letter of a step that failed: whole, so that it needs no log."""
    attempt, error = step.attempt, step.error
    return Letter(
        id=naming(step.event.id, attempt.router),
        router=attempt.router,
        route=attempt.route,
        event=step.event,
        reason=reason_of(error),
        detail=attempt.detail or "",
        number=attempt.number,
    )


def reason_of(error: BaseException | None) -> str:
    """A stable word for why an event was not delivered."""
    match error:
        case NotSupported():
            return NotSupported.code
        case TimeoutError():
            return "timeout"
        case _ if isinstance(error, REFUSED):
            return "broken"
        case _:
            return "failed"


def detail_of(error: BaseException) -> str:
    """One line about an error: its type, and its text shortened."""
    text = " ".join(message_of(error).split())[:_LONGEST_DETAIL]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def reached(page: LogPage, after: int, limit: int) -> int:
    """The position that the cursor may take: behind the last event, or the horizon when there are
    no more.
    """
    last = page.events[-1].position if page.events else after
    return last if len(page.events) >= limit else max(last, page.horizon)


def merged(several: Iterable[Effects]) -> Effects:
    """All effects as one."""
    jobs: list[NewJob] = []
    messages: list[NewMessage] = []
    log: list[NewLogEvent] = []
    for effects in several:
        jobs.extend(effects.jobs)
        messages.extend(effects.messages)
        log.extend(effects.log)
    return Effects(jobs=tuple(jobs), messages=tuple(messages), log=tuple(log))


def _effects(delivery: Delivery, event: RoutedEvent) -> Effects:
    """The effects of a stored deliverer's answer; any other answer would pass for sent, or end the
    whole run.
    """
    effects: object = delivery.stored(event) if delivery.stored is not None else None
    if not isinstance(effects, Effects):
        kind = type(effects).__name__
        raise TypeError(f"effects() of {delivery.label} answers with Effects, not {kind}")
    return effects


def _not_supported(attempt: Attempt) -> NotSupported:
    return NotSupported(
        f"route {attempt.route!r} is live, but this process has nothing to deliver with: declare "
        "it with deliver=… where the router runs"
    )
