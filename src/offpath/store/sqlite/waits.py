"""Waits that are over, looked at before the write lock is taken."""

from __future__ import annotations

from offpath.model.changes import ChangedJob
from offpath.store.programs.dialect import Dialect, Steps, ask


def nothing_is_up(
    d: Dialect,
    *,
    limit: int,  # noqa: ARG001 - as the program
    keep: float | None = None,  # noqa: ARG001 - as the program
) -> Steps[list[ChangedJob] | None]:
    """An empty list when there is nothing to give up, to repair or to remove; otherwise None."""
    return None if (yield from ask(d.sql["anything_over"](now=d.now))) else []
