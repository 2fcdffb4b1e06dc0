"""A caller's own connection of aiosqlite: who ends the transaction that a call has begun."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

import offpath

CALLERS = [
    pytest.param({}, False, id="begins by itself"),
    pytest.param({"isolation_level": None}, True, id="commits each statement"),
]
if sys.version_info >= (3, 12):
    CALLERS.append(pytest.param({"autocommit": True}, True, id="autocommit"))


@pytest.mark.parametrize(("options", "committed"), CALLERS)
async def test_a_caller_that_never_begins_need_not_commit(
    tmp_path: Path, options: dict[str, Any], committed: bool
) -> None:
    file = tmp_path / "jobs.db"
    app = offpath.App(f"sqlite:///{file}")

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app, aiosqlite.connect(file, **options) as connection:
        await app.enqueue(double.job(1), within=connection)
        assert connection.in_transaction is not committed
        await connection.rollback()
        assert await app.jobs.count() == int(committed)
