"""An app on a schema of a test's own in a real Postgres, dropped afterwards."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from offpath.errors import MissingExtra
from offpath.runtime.clock import ManualClock
from offpath.testing.store_swap import StoreSwap

if TYPE_CHECKING:
    from offpath.app import App


class SchemaSwap(StoreSwap[ManualClock]):
    """An app on a new schema of a Postgres; it is dropped with everything in it at the end.

    ::

        async with SchemaSwap(app, "postgresql://localhost/test") as swapped:
            await place_order("A-1")
            await drain(app)
            swapped.clock.advance(60)

    ``url`` names a database in which the role may create schemas. Time stands still unless the
    clock is moved. Raises ``MissingExtra``, and ``StoreUnavailable`` when it is first used.
    """

    def __init__(self, app: App, url: str, *, clock: ManualClock | None = None) -> None:
        try:
            from offpath.store.postgres import PostgresStore
        except ImportError as error:
            raise MissingExtra("a schema of Postgres needs psycopg", "postgres") from error
        self.schema = f"offpath_test_{secrets.token_hex(6)}"
        """The name of the schema."""
        self._url = url
        given = clock or ManualClock()
        store = PostgresStore(url, clock=given, schema=self.schema, migrate=True)
        super().__init__(app, store, clock=given)

    def uninstall(self) -> None:
        """Put the app's own store back, and drop the schema. Repeating it does nothing."""
        super().uninstall()
        import psycopg
        from psycopg import sql

        with psycopg.connect(self._url, autocommit=True) as connection:
            drop = sql.SQL("drop schema if exists {} cascade")
            connection.execute(drop.format(sql.Identifier(self.schema)))
