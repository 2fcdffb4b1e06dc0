"""The connections that a project's workers may open, counted against what the server has."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from django.conf import settings
from django.db import connections

from offpath.app import App
from offpath.contrib.django.backend import OffpathBackend
from offpath.contrib.django.database import dialect_of
from offpath.contrib.django.names import task_backends
from offpath.contrib.django.table import table_of
from offpath.runtime.threads import in_own_thread
from offpath.store.protocol import Finding, Level

OURS: Final = 10
"""Connections of a worker process beside its handlers': eight, one to tell others of work, and one
that listens."""
_POOLED: Final = 4
"""The size of a pool of the driver's that was given none."""
_FREE: Final = """
    select current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
"""


async def connection_findings(app: App) -> list[Finding]:
    """The finding of doctor about the backend of ``TASKS`` whose jobs are in this app's store."""
    found = await in_own_thread(partial(_alias_of, app.settings.url))
    if found is None:
        return []
    alias, threads = found
    workers = [one for one in await app.workers() if one.gone_at is None and not one.late]
    free = await in_own_thread(partial(_free, alias))
    return [_finding(max(1, len(workers)), most_of_handlers(alias, threads), free)]


def most_of_handlers(alias: str, threads: int) -> int:
    """The most connections of Django's to an alias in one worker process.

    Each thread of sync handlers has one, and one thread serves the ORM's calls of all async ones.
    A pool of Django's has so many as it was given.
    """
    pool = (connections[alias].settings_dict.get("OPTIONS") or {}).get("pool")
    if not pool:
        return threads + 1
    sizes: dict[str, Any] = pool if isinstance(pool, dict) else {}
    least = int(sizes.get("min_size", _POOLED))
    return max(least, int(sizes.get("max_size") or least))


def _finding(workers: int, handlers: int, free: int) -> Finding:
    wanted = workers * (OURS + handlers)
    message = (
        f"{workers} worker process{'es' if workers > 1 else ''} may open {wanted} of the server's "
        f"{free} connections ({OURS} of offpath's and {handlers} of Django's each); web processes "
        "come on top"
    )
    if wanted <= free:
        return Finding(name="connections", level=Level.FINE, message=message)
    advice = 'lower "threads" in OPTIONS["settings"], or "max_size" of the pool in DATABASES'
    return Finding(name="connections", level=Level.WARNING, message=f"{message}: {advice}")


def _alias_of(url: str) -> tuple[str, int] | None:
    """The alias of a Postgres that is at this address, and the threads of its backend's workers."""
    for name in getattr(settings, "TASKS", {}):
        table = table_of(name)
        if not isinstance(task_backends[name], OffpathBackend) or not table.own_database:
            continue
        app = table.app()
        if app.settings.url == url and dialect_of(table.database) == "postgres":
            return table.database, app.settings.handler_threads
    return None


def _free(alias: str) -> int:
    """The connections that the server has for all; asked on a connection of this thread's own."""
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute(_FREE)
            return int(cursor.fetchone()[0])
    finally:
        connections[alias].close()
