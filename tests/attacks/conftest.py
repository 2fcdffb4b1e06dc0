"""The attacks use the stores of the conformance suite: one per backend, open and empty."""

import pytest

from tests.conformance.conftest import (
    backend,
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


@pytest.fixture(params=("memory", "sqlite", "postgres"))
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backend that the test runs on: those whose rows somebody else may write, and memory."""
    return str(request.param)
