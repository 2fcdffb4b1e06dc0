"""Trimming what is kept for a time: the event log, and actions of operators."""

from __future__ import annotations

from datetime import timedelta

from offpath.store.protocol import Store


async def trim(store: Store, keep: float | None, limit: int) -> int:
    """Remove up to ``limit`` events that are older than ``keep`` seconds by the store's clock and
    that every router of their domain has passed. Returns how many; None keeps all.
    """
    if keep is None:
        return 0
    before = await store.ping() - timedelta(seconds=keep)
    return await store.trim_log(before=before, limit=limit)


async def trim_actions(store: Store, keep: float | None, limit: int) -> int:
    """Remove up to ``limit`` actions that have ended and were asked for ``keep`` seconds ago or
    earlier, by the store's clock. Returns how many; None keeps all.
    """
    if keep is None:
        return 0
    before = await store.ping() - timedelta(seconds=keep)
    return await store.prune_actions(before=before, limit=limit)
