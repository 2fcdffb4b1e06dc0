"""Waits of a handler: for a signal that somebody sends, for its turn to undo."""

from __future__ import annotations

from msgspec import Struct

from offpath.errors import SignalsFull
from offpath.model.quiet import Quiet


class NewSignal(Quiet, frozen=True, kw_only=True):
    """A signal to send. It is kept until a job has taken it, or until its time is over."""

    id: str
    """A UUID: sending it again changes nothing, also after it was taken."""
    target: str
    """A job's id, or any key that sender and waiter agree on."""
    event: str
    payload: str
    """Codec text."""
    keep: float
    """Seconds that it waits to be taken."""
    most: int | None = None
    """The number of untaken signals, of all events, that the target may have; None: any number."""

    def full(self) -> SignalsFull:
        """Say that its target has as many as it may have."""
        return SignalsFull(
            f"{self.target!r} has {self.most} signals that no job has taken, which is the most: "
            "this one was not kept. Send it again when ctx.wait_for has taken some, or give "
            "most_unread= a larger number"
        )


class Undoing(Struct, frozen=True, kw_only=True):
    """A job that ended without success and has steps to undo."""

    id: str
    group_id: str
    undo: tuple[str, ...]
    """The jobs that ``put_undo`` was given, in that order."""
