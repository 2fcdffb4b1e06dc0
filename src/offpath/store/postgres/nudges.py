"""The notes about limits that adding or ending jobs leaves: rows are added, never written over.

A trigger does it for each job. Who has many in hand adds them up by key instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from offpath.store.postgres.steps import to_json
from offpath.store.sql import Catalogue, Query

MANY: Final = 16
"""Jobs with a limit from which on adding up is worth its round trip; the trigger does for fewer."""


def many(limits: Iterable[object | None]) -> bool:
    """True if these, None where a job has none, are worth it."""
    return sum(limit is not None for limit in limits) >= MANY


class Nudge(Struct, frozen=True, omit_defaults=True):
    """So many jobs of a key have given their room back, or its limit is said anew."""

    key: str
    freed: int = 0
    spec: str | None = None


def nudge_limits(nudges: Sequence[Nudge], *, sql: Catalogue) -> Query:
    """Say these."""
    return sql["nudge_limits"](batch=to_json(nudges))
