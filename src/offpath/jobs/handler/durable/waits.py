"""Durable sleeps, and waits for signals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from offpath.errors import InvalidArgument, SignalError, SignalTimeout, Snooze
from offpath.model import checks
from offpath.model.settlement import Waiting
from offpath.runtime.ids import parse_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from offpath.jobs.handler.durable.book import StepBook

SLEEPING = "sleeping"
"""The reason of a job that sleeps."""


async def sleep(book: StepBook, delay: float | timedelta, name: str | None) -> None:
    """Go on ``delay`` after the first call."""
    seconds = checks.seconds(delay, "a sleep")
    await _asleep(book, _moment_after(book.now(), seconds, "a sleep"), name)


async def sleep_until(book: StepBook, moment: datetime, name: str | None) -> None:
    """Go on at the moment that was given at the first call."""
    await _asleep(book, checks.aware(moment, "sleep_until"), name)


async def _asleep(book: StepBook, moment: datetime, name: str | None) -> None:
    until = await _recorded_time(book, book.own_key("sleep", name), moment)
    if book.now() < until:
        await book.suspend(Snooze(until=until, reason=SLEEPING))


async def wait_for(
    book: StepBook,
    event: str,
    kind: Any,  # noqa: ANN401 - any type
    timeout: float | timedelta | None,  # noqa: ASYNC109 - it outlives this call
    key: str | None,
    name: str | None,
) -> Any:  # noqa: ANN401 - any payload
    """The payload of the signal that this wait took, now or before."""
    event = checks.name(event, "event")
    target = book.run.job.id if key is None else target_of(key)
    limit = None if timeout is None else checks.seconds(timeout, "timeout")
    step = book.own_key("wait", name, event)
    known = await book.recorded()
    book.require_going()
    if (missed := step.replace("wait", "missed", 1)) in known:
        raise _timed_out(event, target)
    wrong: SignalError | None = None
    async for payload in _payloads(book, step, target, event):
        try:
            return _read(book, payload, kind, event)
        except SignalError as error:
            wrong = error
    if wrong is not None:
        raise wrong
    left = None if limit is None else await _left(book, step.replace("wait", "until", 1), limit)
    if left is not None and left <= 0:
        await book.put(missed, None)
        raise _timed_out(event, target)
    return await book.suspend(Waiting(target=target, event=event, timeout=left))


async def _payloads(book: StepBook, step: str, target: str, event: str) -> AsyncIterator[str]:
    """The payloads that this wait took before, then those that it can take now, the oldest first.
    Each is recorded, so one that does not fit the task as it is now may fit a later one.
    """
    known = await book.recorded()
    for number in count(1):
        record = step if number == 1 else step.replace("wait", f"wait{number}", 1)
        payload = known.get(record)
        if payload is None:
            payload = await book.take(record, target=target, event=event)
        if payload is None:
            return
        yield payload


async def _left(book: StepBook, key: str, limit: float) -> float:
    """Seconds until a wait of ``limit`` seconds from its first call is over."""
    until = await _recorded_time(book, key, _moment_after(book.now(), limit, "timeout"))
    return (until - book.now()).total_seconds()


def target_of(key: str) -> str:
    """The target of a signal: a key, or a job's id, which has one form only."""
    key = checks.text(key, "key", longest=checks.MAX_KEY)
    try:
        return parse_id(key, "key")
    except InvalidArgument:
        return key


async def _recorded_time(book: StepBook, key: str, moment: datetime) -> datetime:
    """The time that the first call recorded."""
    text = (await book.recorded()).get(key)
    if text is None:
        text = await book.put(key, moment.isoformat())
    return moment if text is None else datetime.fromisoformat(text)


def _moment_after(now: datetime, seconds: float, what: str) -> datetime:
    try:
        return (now + timedelta(seconds=seconds)).astimezone(UTC)
    except OverflowError as error:
        raise InvalidArgument(
            f"{what} of {seconds:g} s ends after the last year there is"
        ) from error


def _read(book: StepBook, payload: str, kind: Any, event: str) -> Any:  # noqa: ANN401 - any payload
    try:
        return book.host.codec.decode(payload, Any if kind is None else kind)
    except (TypeError, ValueError) as error:
        raise SignalError(
            f"the payload of signal {event!r} does not fit: {error}. It is kept with the job: send "
            "the right one, or mend the task, and redrive the job"
        ) from error


def _timed_out(event: str, target: str) -> SignalTimeout:
    return SignalTimeout(f"no signal {event!r} came to {target} in time")
