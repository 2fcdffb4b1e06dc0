"""The meaning of a store's answers for messages: which went from which state to which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from offpath.model.job import Enqueued, JobState
from offpath.model.message import (
    Box,
    MessageRecord,
    MessageSettled,
    MessageSettlement,
    MessageState,
    NewMessage,
)
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
