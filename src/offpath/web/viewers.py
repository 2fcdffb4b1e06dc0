"""Viewers: who looks at the dashboard, and what they may see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from offpath.operating.rights import Can
from offpath.web.asked import Asked

VIEWER: Final = frozenset({Can.READ})
"""The rights of a viewer who may look, and not see what jobs were given."""
OPERATOR: Final = VIEWER | {Can.PAYLOAD, Can.ACT, Can.OPERATE}
"""The rights of a viewer who may see everything, and put right what went wrong."""
ADMIN: Final = OPERATOR | {Can.ENQUEUE, Can.MONEY}
"""All rights."""


class Viewer(Struct, frozen=True):
    """Somebody who is known to the dashboard."""

    name: str
    can: frozenset[Can] = VIEWER


__all__ = ["ADMIN", "OPERATOR", "VIEWER", "Authenticate", "Can", "Viewer"]

Authenticate = Callable[[Asked], "Viewer | Awaitable[Viewer | None] | None"]
"""The viewer, by the credentials of a request; None for an unknown one."""
