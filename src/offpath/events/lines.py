"""The hold of a mover: leases, and the lines in which their messages are acted on."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from offpath.model.message import LeasedMessage

Line = Sequence[LeasedMessage]
"""Messages to be acted on one after the other: those of one key, or a single one."""


class Lease(Struct):
    """Messages that were leased together. Times by the monotonic clock, in seconds."""

    left: int
    """The number of messages that have not ended yet."""
    began: float
    until: float
    full: bool
    """True if there were as many as had been asked for."""


class Lines(Struct, frozen=True):
    """Lines that one task sees to: one, or several whose heads are acted on together."""

    lines: Sequence[Line]
    lease: Lease


def lines_of(messages: Line, ordered: frozenset[str]) -> list[Line]:
    """A line for each key of the ordered streams, and one for each other message."""
    if not ordered:
        return [(message,) for message in messages]
    by_key: dict[tuple[str, str], list[LeasedMessage]] = {}
    lines: list[Line] = []
    for message in messages:
        if message.key is None or message.stream not in ordered:
            lines.append((message,))
        elif (line := by_key.get(place := (message.stream, message.key))) is not None:
            line.append(message)
        else:
            line = by_key[place] = [message]
            lines.append(line)
    return lines
