"""Empty stores to measure on, each removed afterwards."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit


@contextmanager
def fresh_store(backend: str, server: str) -> Iterator[str]:
    """The URL of an empty store."""
    if backend == "memory":
        yield "memory://"
    elif backend == "sqlite":
        with tempfile.TemporaryDirectory(prefix="offpath-bench-") as folder:
            yield f"sqlite:///{Path(folder) / 'bench.db'}"
    elif backend == "redis":
        with fresh_prefix(server) as url:
            yield url
    else:
        with fresh_database(server) as url:
            yield url


@contextmanager
def fresh_prefix(server: str) -> Iterator[str]:
    """A new prefix on a Redis server, whose keys are removed afterwards."""
    import redis

    prefix = f"offpath_bench_{uuid.uuid4().hex[:12]}"
    parts = urlsplit(server)
    query = f"{parts.query}&prefix={prefix}" if parts.query else f"prefix={prefix}"
    try:
        yield parts._replace(query=query).geturl()
    finally:
        with redis.Redis.from_url(parts._replace(query="").geturl()) as client:
            for key in client.scan_iter(f"{{{prefix}}}:*", count=1000):
                client.unlink(key)


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """A new Postgres database on ``server``."""
    import psycopg
    from psycopg import sql

    name = f"offpath_bench_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        connection.execute("CHECKPOINT")
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            connection.execute(drop)
