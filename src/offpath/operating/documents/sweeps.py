"""Documents of sweeps: how each is registered, and how its loops went."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.model.health import Condition


class SweepLoopDocument(Struct, frozen=True, kw_only=True):
    """The loop of one live worker that drives a sweep."""

    worker: str
    condition: Condition
    state: str
    last_success_age: float | None
    """Seconds since its last success, as of the worker's last report."""
    iterations: int
    consecutive_failures: int
    reason: str | None
    next_at: datetime | None
    """The time of its next pass, as of the worker's last report; None while it works."""
    skipped: str | None
    """The reason why its last turn made no pass, as that another worker leads."""


class SweepDocument(Struct, frozen=True, kw_only=True):
    """A sweep: its terms, where this app knows them, and the loops that drive it."""

    name: str
    here: bool
    """True if the app that answers has it registered."""
    every: float | None
    """Seconds: the longest rest between two passes of a worker."""
    limit: int | None
    """The most rows of one pass."""
    row_timeout: float | None
    shared: bool | None
    """True if every worker runs it, False: one at a time."""
    own: bool | None
    """True if it is the engine's own."""
    loops: tuple[SweepLoopDocument, ...]
    leader: str | None
    """The worker that makes the passes, of a sweep that one makes at a time; None: nobody yet."""
    next_at: datetime | None
    """The time of the next pass of whoever makes them."""
    reported_at: datetime | None
    """The time of the newest report of a worker that drives it."""


class SweepList(Struct, frozen=True, kw_only=True):
    """The sweeps, the engine's own first, then in the order of their registration."""

    items: tuple[SweepDocument, ...]
