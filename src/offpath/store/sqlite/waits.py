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
    probes = (
        d.sql["due_blocked"](limit=1, now=d.now),
        d.sql["due_queued"](limit=1, now=d.now),
        d.sql["uncounted"](limit=1),
        d.sql["signals_over"](now=d.now),
        d.sql["signals_to_pass_on"](),
    )
    for probe in probes:
        if (yield from ask(probe)):
            return None
    return []
