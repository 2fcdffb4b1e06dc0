"""One connection to each server's database that is kept: a new one knows no table yet, and learning
of all of them costs more than to sweep them.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

Connection = psycopg.Connection[tuple[object, ...]]

_KEPT: dict[str, Connection] = {}


@contextmanager
def transaction(place: str) -> Iterator[Connection]:
    """A transaction on the connection to this place, committed at the end."""
    connection = _connection(place)
    with connection.transaction():
        yield connection


def _connection(place: str) -> Connection:
    """The one that is kept, or a new one where a test has ended that."""
    connection = _KEPT.get(place)
    if connection is not None and _lives(connection):
        return connection
    # a test may change the schema, after which a prepared statement is refused
    _KEPT[place] = psycopg.connect(place, autocommit=True, prepare_threshold=None)
    return _KEPT[place]


def _lives(connection: Connection) -> bool:
    try:
        connection.execute("select")
    except psycopg.OperationalError:
        connection.close()
        return False
    return True


@atexit.register
def _close() -> None:
    for connection in _KEPT.values():
        connection.close()
