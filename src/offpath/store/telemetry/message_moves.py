"""The ways that messages went, by a store's answers, and the metrics that count them.

For each state of a stream's messages, what entered it less what left it
(``offpath_message_moves_total``) is the number of messages in it, as far as this process moved
them. Two things are not seen here: messages that the store itself writes about announced jobs, and
which messages a prune removed (it tells only how many).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from offpath.model.job import Enqueued, JobState
from offpath.model.message import (
    Box,
    MessageRecord,
    MessageSettled,
    MessageSettlement,
    MessageState,
    NewMessage,
)
from offpath.model.new import NewLogEvent
from offpath.model.route import Attempt
from offpath.model.settlement import (
    Dead,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
)

if TYPE_CHECKING:
    from offpath.runtime.metrics import Metrics


_PENDING = MessageState.PENDING
_OUTCOMES: dict[type, str] = {
    Succeeded: "done",
    Retry: "failed",
    Dead: "dead",
    Released: "released",
}


class MessageMove(NamedTuple):
    """The way one message went; equal for all that went the same way, so that they are counted.

    ``left`` is None for a new message, ``entered`` for a deleted one.
    """

    box: Box
    stream: str
    outcome: str
    left: MessageState | None
    entered: MessageState | None


def written(messages: Sequence[NewMessage], answers: Sequence[Enqueued]) -> Iterator[MessageMove]:
    """Say which messages are new. ``answers`` end with those about ``messages``."""
    about = answers[len(answers) - len(messages) :]
    for message, answer in zip(messages, about, strict=True):
        if answer.created:
            yield _written(message)


def carried_out(
    settlement: Settlement | MessageSettlement, answer: Settled | MessageSettled
) -> bool:
    """True when the effects of this settlement were committed with it."""
    return (
        answer.status is SettleStatus.APPLIED
        and answer.state is not JobState.CANCELLED
        and isinstance(settlement.outcome, Succeeded | Snoozed)
    )


def settled(
    settlements: Sequence[MessageSettlement], answers: Sequence[MessageSettled]
) -> Iterator[MessageMove]:
    """Say how these attempts ended."""
    for settlement, answer in zip(settlements, answers, strict=True):
        if answer.status is not SettleStatus.APPLIED:
            continue
        message = settlement.message
        outcome = _OUTCOMES[type(settlement.outcome)]
        yield MessageMove(message.box, message.stream, outcome, _PENDING, answer.state)


def revived(ids: Iterable[str], known: Mapping[str, MessageRecord]) -> Iterator[MessageMove]:
    """Say which ended messages were put back."""
    return _changed(ids, known, "revived", _PENDING)


def deleted(ids: Iterable[str], known: Mapping[str, MessageRecord]) -> Iterator[MessageMove]:
    """Say which ended messages are gone."""
    return _changed(ids, known, "deleted", None)


def _written(message: NewMessage) -> MessageMove:
    return MessageMove(message.box, message.stream, "written", None, _PENDING)


def _changed(
    ids: Iterable[str],
    known: Mapping[str, MessageRecord],
    outcome: str,
    entered: MessageState | None,
) -> Iterator[MessageMove]:
    for each in ids:
        record = known.get(each)
        if record is not None:
            yield MessageMove(record.box, record.stream, outcome, record.state, entered)


# -- metrics ---------------------------------------------------------------------------------------

PRUNED = "ended"
"""The state that pruned messages leave: which of the ended ones is not known."""
NOWHERE = "none"
"""The state of a message before it is written and after it is deleted, as a label."""


class MessageMeter:
    """Keeps these metrics."""

    def __init__(self, registry: Metrics) -> None:
        self._registry = registry

    def moved(self, moves: Iterable[MessageMove]) -> None:
        """Count the ways that messages went."""
        self._registry.drop_idle()
        for move, count in Counter(moves).items():
            labels = {"box": move.box.value, "stream": move.stream}
            self._registry.counter("offpath_messages_total", **labels, outcome=move.outcome).add(
                count
            )
            # A message that is tried again stays pending: it has left no state.
            if move.left is not move.entered:
                self._registry.counter(
                    "offpath_message_moves_total",
                    **labels,
                    left=move.left or NOWHERE,
                    entered=move.entered or NOWHERE,
                ).add(count)

    def pruned(self, count: int) -> None:
        """Count messages whose retention has passed; of which box and stream is not known."""
        if count:
            self._registry.counter(
                "offpath_message_moves_total", box="", stream="", left=PRUNED, entered=NOWHERE
            ).add(count)

    def appended(self, events: Iterable[NewLogEvent]) -> None:
        """Count events that the log was given; a repeat, which has no answer, counts again."""
        for domain, count in Counter(event.domain for event in events).items():
            self._registry.counter("offpath_log_appended_total", domain=domain).add(count)

    def decided(self, attempts: Iterable[Attempt]) -> None:
        """Count what routers decided."""
        ways = Counter((each.router, each.status) for each in attempts)
        for (router, status), count in ways.items():
            self._registry.counter(
                "offpath_router_attempts_total", router=router, status=status.value
            ).add(count)

    def passed(self, router: str, count: int) -> None:
        """Count events that a router has passed."""
        if count:
            self._registry.counter("offpath_router_passed_total", router=router).add(count)
