"""Viewers: who looks at the dashboard, and what they may see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from offpath.web.asked import Asked


class Can(StrEnum):
    """The rights of a viewer."""

    READ = "read"
    """Lists, health, settings."""
    PAYLOAD = "payload"
    """Arguments, results and tracebacks. Without it they are ``hidden``, on each route."""


VIEWER: Final = frozenset({Can.READ})
"""The rights of who may look, and not see what jobs were given."""
OPERATOR: Final = VIEWER | {Can.PAYLOAD}
"""The rights of who may see everything."""


class Viewer(Struct, frozen=True):
    """Somebody who is known to the dashboard."""

    name: str
    can: frozenset[Can] = VIEWER


Authenticate = Callable[[Asked], "Viewer | Awaitable[Viewer | None] | None"]
"""The viewer, by the credentials of a request; None for an unknown one."""
