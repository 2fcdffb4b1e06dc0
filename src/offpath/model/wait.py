"""Waits of a handler: for a signal that somebody sends, for its turn to undo."""

from __future__ import annotations

from msgspec import Struct

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


class Undoing(Struct, frozen=True, kw_only=True):
    """A job that ended without success and has steps to undo."""

    id: str
    group_id: str
    undo: tuple[str, ...]
    """What ``put_undo`` was given, in that order."""
