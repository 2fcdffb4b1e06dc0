"""Limits over the whole fleet: how many jobs of a key may run at once, and how many may start."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

ECONOMY_PAUSE = "offpath.economy"
"""A key that no job has: the pause of an economy is that of this key."""


class Algorithm(StrEnum):
    """The ways to count a rate."""

    TOKEN_BUCKET = "token_bucket"  # noqa: S105 - no password
    """``count`` tokens, refilled evenly over ``per`` seconds; each start takes one."""
    FIXED_WINDOW = "fixed_window"
    """``count`` starts in a window that opens with the first one and lasts ``per`` seconds."""
    SLIDING_WINDOW = "sliding_window"
    """Windows aligned to ``per``; the one before weighs by the share of it that is not yet over."""


class RateSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checked rate. ``per`` is seconds."""

    count: int
    per: float
    algorithm: Algorithm = Algorithm.TOKEN_BUCKET


class LimitPart(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One of several limits of a job, or one of which a job takes more than 1."""

    key: str
    max_running: int | None = None
    rate: RateSpec | None = None
    cost: int = 1
    """The room, and the starts of the rate, that the job takes."""


class LimitSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A checked limit, as a new job carries it. What the last enqueue of a key says holds."""

    key: str
    """With parts: their keys, joined (:mod:`offpath.model.joined_limits`)."""
    max_running: int | None = None
    """None: only the rate, a pause or a cool-down holds jobs of this key back."""
    rate: RateSpec | None = None
    parts: tuple[LimitPart, ...] = ()
    """The limits of a job that has several; it has no ``max_running`` and rate of its own then."""


class LimitRecord(Struct, frozen=True, kw_only=True):
    """A key as the store has it."""

    key: str
    max_running: int | None
    rate: RateSpec | None
    admitted: int
    """Jobs of the key that are ready or running: never raised beyond ``max_running``."""
    running: int
    held: int
    """Jobs that wait to be admitted; counting may stop at 100,000."""
    closed_until: datetime | None = None
    """Nothing is admitted before this time (a cool-down, or a pause with an end)."""
    paused: bool = False
    """Nothing is admitted until somebody resumes it."""


class LimitHolder(Struct, frozen=True, kw_only=True):
    """The running job of a key that began last."""

    key: str
    job: str
    task: str
    since: datetime


class QueueRecord(Struct, frozen=True, kw_only=True):
    """A queue that has unended jobs or a pause."""

    name: str
    blocked: int
    scheduled: int
    ready: int
    running: int
    held: int = 0
    """Of the blocked ones, those that wait for room under a limit."""
    paused: bool = False
    """Nothing is handed out until somebody resumes it."""
    paused_until: datetime | None = None
    """Nothing is handed out before this time."""


def counted_to(most: int, queue: QueueRecord) -> QueueRecord:
    """A queue whose counts stop at ``most`` each."""
    names = ("blocked", "scheduled", "ready", "running", "held")
    return replace(queue, **{name: min(getattr(queue, name), most) for name in names})


class Admitted(Struct, frozen=True, kw_only=True):
    """The result of one pass of admission."""

    jobs: int
    """The number of jobs that became ready."""
    more: bool = False
    """True if another pass at once may admit more (the pass was bounded)."""
    next_in: float | None = None
    """Seconds until a rate or a cool-down lets something in by the passing of time alone."""
