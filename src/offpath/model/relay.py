"""The fate of a message whose attempt failed: the whole arithmetic, without clock or chance."""

from __future__ import annotations

from msgspec import Struct

from offpath.model.job import DeadReason, Failure
from offpath.model.message import LeasedMessage
from offpath.model.retry import RetryPolicy, delay
from offpath.model.settlement import Dead, Retry

MOST_LOSSES = 5
"""The number of processes that may die with a message in hand before it is dead."""
PUT_OFF = "snoozed"
"""The kind of failure of an attempt that was put off by a ``Snooze``."""
PATIENT = RetryPolicy(attempts=10, base=1.0, factor=3.0, cap=3600.0, jitter=0.5)
"""Ten attempts over about four hours: a receiver may be away for a while."""


class MoveRules(Struct, frozen=True, kw_only=True):
    """The number of tries of a message, and the time that an ended one is kept."""

    retry: RetryPolicy = PATIENT
    losses: int = MOST_LOSSES
    keep: float | None = 86_400.0
    """Seconds to keep a message that was delivered or applied; None for ever. Dead ones are kept
    until somebody resolves them."""

    def failed(self, message: LeasedMessage, failure: Failure, random01: float) -> Retry | Dead:
        """The end of an attempt that failed and may be repeated. ``random01`` is in [0, 1)."""
        if not self.retry.allows(message.attempt):
            return Dead(reason=DeadReason.EXHAUSTED, failure=failure)
        return Retry(delay=delay(self.retry, message.attempt, random01), failure=failure)

    def worn_out(self, message: LeasedMessage) -> bool:
        """True if so many processes died with it in hand that it is not to be tried again."""
        return lost(message) >= self.losses

    def suspect(self, message: LeasedMessage) -> bool:
        """True if one more death would be its last: then it is handled alone, so that it does not
        take innocent ones along.
        """
        return lost(message) == self.losses - 1

    def lost_failure(self, message: LeasedMessage) -> Failure:
        """The failure that is recorded of a message whose deliveries are used up."""
        return Failure(
            kind="worker_lost",
            type="WorkerLost",
            message=f"{lost(message)} processes ended with this message in hand",
            attempt=message.attempt,
        )


def lost(message: LeasedMessage) -> int:
    """The number of times that it was handed out without an end that was recorded."""
    return message.deliveries - message.attempt
