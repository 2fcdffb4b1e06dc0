"""The abilities of the Redis backend."""

from __future__ import annotations

from typing import Final

from offpath.store.capabilities import Capabilities, Durability, Profile

CAPABILITIES: Final = Capabilities(
    name="redis",
    durability=Durability.UNKNOWN,
    shared=True,
    presence=False,
    pushes=True,
    self_migrating=True,
    profiles=frozenset(
        {
            Profile.CORE,
            Profile.UNIQUE,
            Profile.PAUSES,
            Profile.GROUPS,
            Profile.SCHEDULES,
            Profile.MESSAGES,
        }
    ),
)
"""The parts that every server offers; its own settings say how durable it is."""
