"""The abilities of a backend; tests and features ask this, never a backend's name."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class Profile(StrEnum):
    """A part of the store's contract that a backend may offer or not. ``core`` is never absent."""

    CORE = "core"
    """Tasks, retries, delays, priorities, queues, deadlines, dead letters, batches, recovery."""
    UNIQUE = "unique"
    """Unique keys."""
    GROUPS = "groups"
    """Jobs that are counted together, the value that they make, and cancelling them together."""
    PAUSES = "pauses"
    """Queues that hand out nothing for a time."""
    DISPATCH = "dispatch"
    """Queues in the order of age, or in the turn of each fair key."""
    LIMITS = "limits"
    """Limits by key: at most so many at once, or so many in a time."""
    WORKFLOWS = "workflows"
    """Gates, steps, signals, and the undoing of steps."""
    SCHEDULES = "schedules"
    """Jobs that are made at times."""
    MESSAGES = "messages"
    """Outbox, inbox, webhooks, and announced jobs."""
    LOG = "log"
    """The event log and its routers."""
    LEDGER = "ledger"
    """The ledger, and with it the economy."""
    WITHIN = "within"
    """Jobs and events that are written in the caller's own transaction."""
    OPERATING = "operating"
    """The lists that people look at, and the actions that they ask for: the dashboard."""


ALL_PROFILES: Final = frozenset(Profile)


class Durability(StrEnum):
    """The faults that an acknowledged write outlives."""

    PROCESS = "process"
    """It ends with the process."""
    FSYNC = "fsync"
    """It is on the disk when the call returns: it outlives a power cut."""
    SECOND = "second"
    """It is on the disk within a second: a power cut may lose the last second."""
    REPLICATED = "replicated"
    """A replica has it when the call returns."""
    UNKNOWN = "unknown"
    """The server has not been asked yet, or does not say."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """Declared once per backend."""

    name: str
    """``memory``, ``sqlite``, ``postgres``, …: for messages and metrics only."""
    durability: Durability
    """The faults that an acknowledged write outlives."""
    shared: bool
    """Several processes can use it at once."""
    presence: bool
    """A worker's death can be seen before its lease expires."""
    lasting_presence: bool = False
    """A worker's presence is a lock of the operating system, which ends with its process alone. It
    stays while the store cannot be reached, so others leave the jobs to it for ``SILENCE`` leases.
    """
    pushes: bool
    """Other processes' work is announced by :meth:`Store.listen`, not only found by polling."""
    self_migrating: bool
    """The schema is made on opening, without being asked."""
    profiles: frozenset[Profile] = ALL_PROFILES
    """The parts of the contract that it offers."""

    @property
    def durable(self) -> bool:
        """True if what was committed outlives the process."""
        return self.durability is not Durability.PROCESS

    @property
    def within(self) -> bool:
        """True if jobs can be enqueued in the caller's own transaction."""
        return Profile.WITHIN in self.profiles

    @property
    def whole(self) -> bool:
        """True if nothing is missing but the caller's own transaction."""
        return self.profiles >= ALL_PROFILES - {Profile.WITHIN}

    def offers(self, profile: Profile) -> bool:
        """True if the backend has this part of the contract."""
        return profile in self.profiles
