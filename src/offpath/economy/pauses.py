"""Pausing an economy's sweeps on every worker: kept in the store, so that it outlives a deploy.

The pause is that of a limit's key, which workers, the command line and operators share already.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from offpath.model import checks
from offpath.model.limit import ECONOMY_PAUSE
from offpath.store.flow import FlowStore

KEY: Final = ECONOMY_PAUSE
"""The key; no job has it."""


async def pause(store: FlowStore, until: datetime | None) -> None:
    """Rest until a time, or until somebody resumes. An earlier end never shortens a later one."""
    await store.close_limit(KEY, until=None if until is None else checks.aware(until, "until"))


async def resume(store: FlowStore) -> bool:
    """Go on. False: it was not paused."""
    return await store.open_limit(KEY)


async def paused(store: FlowStore, now: datetime) -> bool:
    """True if it is paused now."""
    found = await store.limits(keys=[KEY], limit=1)
    if not found:
        return False
    until = found[0].closed_until
    return found[0].paused or (until is not None and until > now)
