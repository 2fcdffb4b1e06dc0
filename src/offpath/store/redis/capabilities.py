"""The abilities of the Redis backend."""

from __future__ import annotations

from typing import Final

from offpath.store.capabilities import Capabilities, Durability
from offpath.store.offered import OFFERED

CAPABILITIES: Final = Capabilities(
    name="redis",
    durability=Durability.UNKNOWN,
    shared=True,
    presence=True,
    pushes=True,
    self_migrating=True,
    profiles=OFFERED["redis"],
)
"""The parts that every server offers; its own settings say how durable it is."""
