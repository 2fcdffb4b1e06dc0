"""Actions: what an operator asked for, and how it went."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

MOST_IDS: Final = 1_000
"""Ids that one action may name."""
LONGEST_NAME: Final = 200
"""Characters of the name of the person that asked."""
STOP: Final = "action.stop"
"""The verb in the row of a stop. It has a door of its own, and is done where it is asked for."""
LONGEST_NOTE: Final = 500
"""Characters of the reason that was given."""


class ActionState(StrEnum):
    """The state of an action."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    """Ended between two of its steps, because somebody asked for that."""


class NewAction(Struct, frozen=True, kw_only=True):
    """An action before anything of it is done. It is held by whoever carries it out."""

    id: str
    actor: str
    via: str
    """The way by which it came: ``dashboard``, ``api``, ``cli``, ``admin`` or ``code``."""
    verb: str
    """The verb, such as ``job.redrive``."""
    target: str
    """The rows that it is about, as JSON."""
    options: str = "{}"
    """The options of the verb, as JSON."""
    note: str = ""
    holder: str
    """The one who carries it out: another one for each try."""
    lease: float
    """Seconds after which somebody else may carry it on."""


class ActionProgress(Struct, frozen=True, kw_only=True):
    """The progress of an action, as its holder knows it. Counts are of the whole action so far."""

    id: str
    holder: str
    lease: float
    state: ActionState = ActionState.RUNNING
    cursor: str | None = None
    """The id up to which its rows were looked at."""
    changed: int = 0
    unchanged: int = 0
    reasons: Mapping[str, int] = {}
    """The rows that were left alone, by the reason."""
    error: str | None = None


class ActionRecord(Struct, frozen=True, kw_only=True):
    """An action as the store has it."""

    id: str
    at: datetime
    """The time of asking, by the store's clock."""
    actor: str
    via: str
    verb: str
    target: str
    options: str
    note: str
    state: ActionState
    cursor: str | None = None
    changed: int = 0
    unchanged: int = 0
    reasons: Mapping[str, int] = {}
    error: str | None = None
    resumed: bool = False
    """True if another holder carried it on: its counts are then the least that there can be."""
    holder: str
    held_until: datetime
    finished_at: datetime | None = None


class ActionFilter(Struct, frozen=True, kw_only=True):
    """A choice of actions: every field that is given must match, by one of its values."""

    ids: tuple[str, ...] = ()
    states: tuple[ActionState, ...] = ()
    verbs: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
