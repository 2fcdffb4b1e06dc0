"""Messages and events and events of the log, as they are asked for.

Times that count from now are seconds, so that the store's clock decides.
"""

from __future__ import annotations

from enum import StrEnum

from offpath.model.quiet import Quiet


class Box(StrEnum):
    """The direction of a message."""

    OUT = "out"
    """From us to others: the outbox."""
    IN = "in"
    """From others to us: the inbox."""

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


class NewMessage(Quiet, frozen=True, kw_only=True, gc=False):
    """A message to write.

    In the inbox ``stream`` is the source and ``key`` is needed: a second message of the same source
    and key is a repeat, whatever its id. In the outbox only the id tells a repeat.
    """

    id: str
    box: Box
    stream: str
    payload: str
    """Encoded (codec text)."""
    topic: str = ""
    key: str | None = None
    headers: str = "{}"
    """A JSON object of texts."""
    delay: float = 0.0


class NewLogEvent(Quiet, frozen=True, kw_only=True, gc=False):
    """An event to append to the log. An id that is there already is a repeat."""

    id: str
    domain: str
    type: str
    stream: str
    payload: str
    """Encoded (codec text)."""
    key: str | None = None
    slot: int = 0
    """A hash of the key, or of the id without one, from 0 to :data:`SLOTS` - 1; see
    :func:`offpath.model.route.slot_of`. Partition *p* of *n* has the slots with ``slot % n == p``.
    """
    headers: str | None = None
    """Encoded, see :mod:`offpath.model.headers`; None where it has none."""


SLOTS = 5040
"""Divisible by every number of partitions from 1 to 10, and by 12, so that they are even."""
