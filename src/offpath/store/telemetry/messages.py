"""The telling of messages: of those that were handed out, settled, revived and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offpath.model.message import (
    LeasedMessages,
    MessageRecord,
    MessageSettled,
    MessageSettlement,
)
from offpath.store.telemetry import effects, message_moves
from offpath.store.telemetry.meter import Telemetry


def leased(telemetry: Telemetry, answer: LeasedMessages) -> None:
    """A message that was handed out and cannot be read is counted."""
    telemetry.sighted("message", [message.unreadable for message in answer.messages])


def settled(
    telemetry: Telemetry,
    answers: Sequence[MessageSettled],
    settlements: Sequence[MessageSettlement],
) -> None:
    """Report the end of these attempts; their effects were committed with them."""
    telemetry.meter.messages.moved(message_moves.settled(settlements, answers))
    for settlement, answer in zip(settlements, answers, strict=True):
        if settlement.effects and message_moves.carried_out(settlement, answer):
            effects.carried_out(telemetry, settlement.effects, answer.enqueued)


def revived(telemetry: Telemetry, ids: Sequence[str], known: Mapping[str, MessageRecord]) -> None:
    """Report that these ended messages were put back; ``known`` has their states before."""
    telemetry.meter.messages.moved(message_moves.revived(ids, known))


def deleted(telemetry: Telemetry, ids: Sequence[str], known: Mapping[str, MessageRecord]) -> None:
    """Report that these messages are gone; ``known`` has their states before."""
    telemetry.meter.messages.moved(message_moves.deleted(ids, known))
