"""What is said of the keys of limits by who adds or ends jobs: added to, never written over.

A trigger does it for each job. Who has many in hand adds them up by key instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from offpath.store.postgres.steps import to_json
from offpath.store.sql import Catalogue, Query


class Nudge(Struct, frozen=True, omit_defaults=True):
    """So many jobs of a key have given their room back, or its limit is said anew."""

    key: str
    freed: int = 0
    spec: str | None = None


def nudge_limits(nudges: Sequence[Nudge], *, sql: Catalogue) -> Query:
    """Say these."""
    return sql["nudge_limits"](batch=to_json(nudges))
