"""A server that is away: a line when that begins, and one when it ends.

The driver's pool tells of each connection and each try. Of pools of ours that is left out, for what
it means is said here.
"""

from __future__ import annotations

import logging
import time
from typing import Final

import psycopg

from offpath.errors import StoreError, StoreUnavailable

POOL: Final = "offpath"
"""The name of our pools, by which their lines are known."""

_log = logging.getLogger("offpath.store.postgres")


class Outage:
    """The absence of the database, since its beginning."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._since: float | None = None

    def noticed(self, error: StoreError) -> StoreError:
        """Tell of an outage that begins with this error; returns the error."""
        if isinstance(error, StoreUnavailable):
            error.told = True
            if self._since is None:
                self._since = time.monotonic()
                _log.warning("the database is away: %s", error)
        return error

    def over(self) -> None:
        """Tell that the database answers again, if it was away."""
        if self._since is not None:
            away, self._since = time.monotonic() - self._since, None
            _log.warning("the database is back after %.1f s: %s", away, self._shown)


class _Ours(logging.Filter):
    """Drops what the driver's pool says of connections of ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else (record.args,)
        return not any(self._is_ours(one) for one in arguments)

    @staticmethod
    def _is_ours(argument: object) -> bool:
        if isinstance(argument, psycopg.AsyncConnection):
            return bool(getattr(argument, "of_offpath", False))
        return argument == POOL


def quieten() -> None:
    """Leave what the driver's pool says of our connections to us. Repeating it does nothing."""
    pool = logging.getLogger("psycopg.pool")
    if not any(isinstance(one, _Ours) for one in pool.filters):
        pool.addFilter(_Ours())
