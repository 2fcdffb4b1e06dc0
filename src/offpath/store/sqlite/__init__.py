"""The SQLite backend: one file, any number of processes, durable after each commit."""

from offpath.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
