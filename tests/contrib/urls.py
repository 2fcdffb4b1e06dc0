"""Databases as SQLAlchemy reaches them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import create_engine, text


def blocking_url(url: str) -> str:
    """The URL with a blocking driver."""
    return url.replace("postgresql://", "postgresql+psycopg://")


def async_urls(url: str) -> list[str]:
    """The URL with each async driver."""
    if url.startswith("sqlite"):
        return [url.replace("sqlite://", "sqlite+aiosqlite://")]
    drivers = ("psycopg", "asyncpg")
    return [url.replace("postgresql://", f"postgresql+{driver}://") for driver in drivers]


def run_sql(url: str, statement: str) -> list[Any]:
    """Run one statement in a transaction of its own; its rows."""
    engine = create_engine(blocking_url(url))
    try:
        with engine.begin() as connection:
            result = connection.execute(text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()
