"""The Postgres backend, on psycopg 3."""

from __future__ import annotations

from offpath.errors import MissingExtra

try:
    import psycopg
    import psycopg_pool
except ImportError as error:
    raise MissingExtra("the Postgres backend needs psycopg", "postgres") from error

from offpath.store.postgres.store import PostgresStore

del psycopg, psycopg_pool

__all__ = ["PostgresStore"]
