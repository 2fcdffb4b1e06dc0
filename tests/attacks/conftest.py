"""The attacks use the stores of the conformance suite: one per backend, open and empty."""

from tests.conformance.conftest import (
    backend,
    backend_name,
    bench,
    caller,
    clock,
    empty_backend,
    make_store,
    migrated_postgres,
    other,
    postgres_login,
    rivals,
    store,
    swept_postgres,
)

__all__ = [
    "backend",
    "backend_name",
    "bench",
    "caller",
    "clock",
    "empty_backend",
    "make_store",
    "migrated_postgres",
    "other",
    "postgres_login",
    "rivals",
    "store",
    "swept_postgres",
]
