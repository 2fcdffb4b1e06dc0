"""The abilities of a backend; tests and features ask this, never a backend's name."""

from __future__ import annotations

from msgspec import Struct


class Capabilities(Struct, frozen=True, kw_only=True):
    """Declared once per backend."""

    name: str
    """``memory``, ``sqlite`` or ``postgres``: for messages and metrics only."""
    durable: bool
    """True if what was committed outlives the process."""
    shared: bool
    """Several processes can use it at once."""
    within: bool
    """Jobs can be enqueued in the caller's own transaction."""
    presence: bool
    """A worker's death can be seen before its lease expires."""
    pushes: bool
    """Other processes' work is announced by :meth:`Store.listen`, not only found by polling."""
    self_migrating: bool
    """The schema is made on opening, without being asked."""
