"""Announcements in a form by which two stores can be compared; and how to clear them away."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from typing import Any

from offpath.model.announce import STREAM
from offpath.model.message import Box, MessageFilter
from offpath.store.protocol import Store
from tests.conformance.message_builders import end_all, find_all, hand


async def said_of_jobs(store: Store) -> dict[str, list[dict[str, Any]]]:
    """The announcements of each job, in order: that of two jobs in one commit is left open."""
    said: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in await find_all(store, MessageFilter(box=Box.OUT, streams=(STREAM,))):
        payload = json.loads(each.payload)
        payload["at"] = datetime.fromisoformat(payload["at"])
        assert (each.key, each.topic) == (payload["job"], f"job.{payload['state']}")
        assert each.created_at == payload["at"]
        said[payload["job"]].append(payload)
    return dict(said)


async def forget_announcements(store: Store) -> None:
    """Remove every announcement."""
    held = await hand(store, STREAM, limit=10_000)
    await end_all(store, held)
    await store.delete_messages([each.id for each in held])
