"""Renewing a lease from a thread: a connection of its own, blocking, for one statement.

The pool belongs to the event loop, which is blocked when this is wanted. That is seldom, so nothing
is kept open for it.
"""

from __future__ import annotations

from datetime import datetime

import psycopg

from offpath.store.postgres.address import Address
from offpath.store.postgres.dialect import PostgresDialect
from offpath.store.postgres.faults import translated
from offpath.store.postgres.part import Part
from offpath.store.programs import workers
from offpath.store.sql import Catalogue


def vouch(
    address: Address,
    sql: Catalogue,
    *,
    worker: str,
    lease_seconds: float,
    report: str | None,
    now: datetime | None,
) -> bool:
    """Renew a known worker's lease; whether it is known. Blocks."""
    limits = sql["pin"]().statement.pyformat.encode()
    query = workers.vouch(PostgresDialect(sql, now), worker, lease_seconds, report)
    text = query.statement.pyformat.encode()
    try:
        with psycopg.connect(address.conninfo, prepare_threshold=None) as connection:
            connection.read_only = False  # whatever the role's transactions do by default
            connection.execute(limits)
            return connection.execute(text, query.params).fetchone() is not None
    except psycopg.Error as error:
        raise translated(error, address.shown) from error


class Vouching(Part):
    """Renews the leases of workers whose event loops are blocked."""

    _address: Address

    def vouch(self, worker: str, *, lease_seconds: float, report: str | None = None) -> bool:
        """Renew the lease of a worker whose event loop is blocked, over a connection of its own."""
        return vouch(
            self._address,
            self._sql,
            worker=worker,
            lease_seconds=lease_seconds,
            report=report,
            now=self._now(),
        )
