"""The consequence of a failed attempt: a retry, a later one, or none. Pure decisions over
values.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, Literal

from msgspec import Struct, structs

from offpath.errors import Abort, CoolDown, InvalidArgument, RetryAfter, Snooze
from offpath.model import checks
from offpath.model.job import DeadReason, Failure
from offpath.model.retry import MAX_ATTEMPTS
from offpath.model.settlement import Dead, Retry, Snoozed
from offpath.runtime.failures import failure_of, message_of

LONGEST_DELAY = 3_153_600_000.0
"""Seconds (100 years): keeps due times within what a datetime and every backend can hold."""


class Decision(Enum):
    """The answers of a classifier (``on_failure``) besides a :class:`offpath.Snooze`, a
    :class:`offpath.errors.RetryAfter` or None.
    """

    RETRY = "retry"
    ABORT = "abort"


RETRY: Final = Decision.RETRY
"""Classifier's answer: retry as the policy says. None means it too, but for an error of the ledger
that each attempt would meet, such as ``KeyReused``: then it means :data:`ABORT`."""
ABORT: Final = Decision.ABORT
"""Classifier's answer: dead now, whatever the policy says."""

Verdict = Literal[Decision.RETRY, Decision.ABORT] | Snooze | RetryAfter | None


class FailureInfo(Struct, frozen=True, kw_only=True):
    """The facts that a classifier gets besides the error. They do not include an input."""

    id: str
    task: str
    queue: str
    group_id: str
    attempt: int
    """The attempt that failed, from 1."""
    attempts: int
    """The number of attempts that the policy allows."""
    deliveries: int


class Moment(Struct, frozen=True, kw_only=True):
    """The time of an attempt's end, and the limits of its next one. ``now`` is the store's
    clock.
    """

    attempt: int
    attempts: int
    now: datetime
    deadline: datetime | None = None

    @property
    def over(self) -> bool:
        """True if the deadline has passed."""
        return self.late(self.now)

    def late(self, due: datetime) -> bool:
        """True if the deadline has passed at ``due``."""
        return self.deadline is not None and due > self.deadline


def verdict(answer: object) -> Verdict:
    """Return a classifier's answer; raises TypeError for anything else."""
    if answer is None or isinstance(answer, Decision | Snooze | RetryAfter):
        return answer
    raise TypeError(
        "on_failure must return offpath.RETRY, offpath.ABORT, an offpath.Snooze, an "
        f"offpath.errors.RetryAfter or None, not {type(answer).__name__}"
    )


def aborted(error: BaseException, moment: Moment) -> Dead:
    """Dead now. An :class:`Abort` with a cause is recorded as the cause: that went wrong."""
    root = error
    if isinstance(error, Abort) and error.__cause__ is not None:
        root = error.__cause__
    failure = failure_of(root, attempt=moment.attempt, at=moment.now, kind="aborted")
    return Dead(reason=DeadReason.ABORTED, failure=failure)


def retried(
    again: RetryAfter, error: BaseException, moment: Moment, failure: Failure | None = None
) -> Retry | Dead:
    """Retry after the time that ``again`` names, while its attempts (or the policy's) allow it.

    ``failure`` is what went wrong, otherwise the cause of ``error`` or ``error`` itself. Raises
    ValueError when it names no usable time or number: the handler's mistake.
    """
    if again.attempts is not None:
        try:
            checks.integer(again.attempts, "RetryAfter attempts", least=1, most=MAX_ATTEMPTS)
        except InvalidArgument as refused:
            raise ValueError(str(refused)) from refused
        moment = structs.replace(moment, attempts=again.attempts)
    root = (error.__cause__ or error) if error is again else error
    if failure is None:
        failure = failure_of(root, attempt=moment.attempt, at=moment.now, kind="error")
    return failed(failure, moment, _seconds(again, again.delay))


def failed(failure: Failure, moment: Moment, delay: float) -> Retry | Dead:
    """Retry after ``delay`` seconds while attempts and the deadline allow it, otherwise dead."""
    if moment.attempt >= moment.attempts:
        return Dead(reason=DeadReason.EXHAUSTED, failure=failure)
    delay = bounded(delay)
    if moment.late(moment.now + timedelta(seconds=delay)):
        return _too_late(failure, "the deadline comes before the next attempt")
    return Retry(delay=delay, failure=failure)


FREE = 10
"""Times that a job may be put off, without an attempt that counts, by any time it likes."""
LEAST = 1.0
"""Seconds that it waits at least from then on: a time in the past (a partner's clock, a mistake)
would otherwise have it run hundreds of times in a second, at attempt 1, for ever."""


def snoozed(snooze: Snooze, moment: Moment, *, uncounted: int = 0) -> Snoozed | Dead:
    """Later, uncounted; dead when the deadline comes first. ``uncounted`` is how often it was
    handed out before without an attempt that counted: beyond ``FREE`` it waits ``LEAST`` seconds.

    Raises ValueError when the snooze names no usable time (a naive ``until``, a delay that is
    not a finite number): the handler's mistake, to be recorded as its failure.
    """
    least = LEAST if uncounted >= FREE else 0.0
    due = max(_due(snooze, moment.now), moment.now + timedelta(seconds=least))
    if moment.late(due):
        failure = failure_of(snooze, attempt=moment.attempt, at=moment.now, kind="deadline")
        return _too_late(failure, "the deadline comes before the snooze ends")
    reason = message_of(snooze)
    if snooze.until is not None:
        return Snoozed(until=due, reason=reason)
    delay = (due - moment.now).total_seconds()
    cool_down = delay if isinstance(snooze, CoolDown) else None
    return Snoozed(delay=delay, reason=reason, cool_down=cool_down)


def expired(moment: Moment, deadline: datetime, when: str) -> Dead:
    """Dead because the deadline passed; ``when`` says at which point that was seen."""
    failure = Failure(
        kind="deadline",
        type="DeadlineExceeded",
        message=f"deadline exceeded {when} (it was {deadline.isoformat()})",
        attempt=moment.attempt,
        at=moment.now,
    )
    return Dead(reason=DeadReason.DEADLINE, failure=failure)


def bounded(delay: float) -> float:
    """Return a delay that every store can add to its clock; nonsense means at once."""
    return min(max(delay, 0.0), LONGEST_DELAY) if not math.isnan(delay) else 0.0


def _too_late(failure: Failure, why: str) -> Dead:
    text = f"deadline exceeded: {why}; the attempt ended with {failure.type}: {failure.message}"
    late = structs.replace(failure, kind="deadline", message=text)
    return Dead(reason=DeadReason.DEADLINE, failure=late)


def _due(snooze: Snooze, now: datetime) -> datetime:
    if snooze.until is not None:
        if snooze.until.tzinfo is None:
            raise ValueError(
                "Snooze(until=...) needs an aware datetime, e.g. datetime.now(UTC) + ..."
            )
        return max(snooze.until.astimezone(UTC), now)
    return now + timedelta(seconds=bounded(_seconds(snooze, snooze.delay)))


def _seconds(raised: Snooze | RetryAfter, delay: float | timedelta) -> float:
    try:
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    except (TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise ValueError(f"{type(raised).__name__}({delay!r}) is not a number of seconds")
    return seconds
