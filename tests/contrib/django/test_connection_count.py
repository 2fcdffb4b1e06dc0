"""Doctor counts the connections of workers, ours and Django's, against what the server has."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connections

from offpath.contrib.django import app_of
from offpath.contrib.django.connection_count import OURS, connection_findings, most_of_handlers
from offpath.contrib.django.table import THREADS
from offpath.store.protocol import Finding, Level
from tests.contrib.django import site
from tests.contrib.django.conftest import point_to, with_options

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "connections"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OFFPATH_APP", "OFFPATH_URL"):
        monkeypatch.setenv(name, "")  # the command sets them: they are as they were afterwards


@pytest.fixture
def _pool() -> Iterator[None]:
    point_to(site.POSTGRES, OPTIONS={"pool": {"min_size": 2, "max_size": 6}})
    yield
    connections[site.POSTGRES].close()
    connections[site.POSTGRES].close_pool()
    point_to(site.POSTGRES, OPTIONS={})


def doctor(alias: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What ``manage.py offpath doctor`` says of connections."""
    call_command("offpath", "doctor", "--json", backend=alias)
    items = json.loads(capsys.readouterr().out)["items"]
    return [one for one in items if one["name"] == NAME]


def test_doctor_counts_both_kinds(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = doctor(alias, capsys)
    if alias == site.SQLITE:
        assert found == []
        return
    (one,) = found
    assert one["level"] == "fine"
    assert f"1 worker process may open {OURS + THREADS + 1} of" in one["message"]
    assert f"({OURS} of offpath's and {THREADS + 1} of Django's each)" in one["message"]


@pytest.mark.parametrize("alias", [site.POSTGRES], indirect=True)
def test_too_many_threads_are_a_warning(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    with with_options(alias, settings={"threads": 500}):
        (one,) = doctor(alias, capsys)
    assert one["level"] == "warning"
    assert 'lower "threads"' in one["message"]


@pytest.mark.usefixtures("_pool")
@pytest.mark.parametrize("alias", [site.POSTGRES], indirect=True)
def test_a_pool_has_as_many_as_it_was_given(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = doctor(alias, capsys)
    assert f"({OURS} of offpath's and 6 of Django's each)" in one["message"]


@pytest.mark.parametrize(("pool", "most"), [(True, 4), ({"min_size": 2}, 2), ({"max_size": 9}, 9)])
def test_the_size_of_a_pool_is_the_drivers_where_none_is_given(pool: object, most: int) -> None:
    point_to(site.POSTGRES, OPTIONS={"pool": pool})
    try:
        assert most_of_handlers(site.POSTGRES, THREADS) == most
    finally:
        point_to(site.POSTGRES, OPTIONS={})


@pytest.mark.parametrize("alias", [site.POSTGRES], indirect=True)
def test_each_live_worker_counts(alias: str) -> None:
    async def two() -> list[Finding]:
        async with AsyncExitStack() as stack:
            app = await stack.enter_async_context(app_of(alias))
            for _ in range(2):
                await stack.enter_async_context(app.worker())
            return await connection_findings(app)

    with ThreadPoolExecutor(1) as thread:
        (found,) = thread.submit(asyncio.run, two()).result()
    assert found.level is Level.FINE
    assert f"2 worker processes may open {2 * (OURS + THREADS + 1)} of" in found.message
