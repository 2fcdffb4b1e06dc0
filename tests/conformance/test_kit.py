"""The public kit, on each of our backends, and from outside of the repository."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from offpath.errors import StoreUnavailable
from offpath.store.protocol import Store
from offpath.testing.conformance import CONTRACT, StoreConformance
from tests.conformance.backends import Backend


@contextmanager
def cut_statement(store: Store, at: int) -> Iterator[None]:
    """Fail before a statement of a database."""
    hooked, numbers = cast("Any", store), itertools.count()

    def before(statement: str) -> None:
        if next(numbers) == at:
            raise StoreUnavailable(f"cut before {statement}")

    hooked._before_statement = before
    try:
        yield
    finally:
        hooked._before_statement = None


@contextmanager
def cut_command(store: Store, at: int) -> Iterator[None]:
    """Fail before commands of a server, and after them: its answer is lost."""
    connection, numbers = cast("Any", store)._connection, itertools.count()
    ask = connection._ask

    async def asked(*commands: Sequence[Any]) -> list[Any]:
        if next(numbers) == at:
            raise redis.ConnectionError("cut before")
        answer: list[Any] = await ask(*commands)
        if next(numbers) == at:
            raise redis.ConnectionError("cut behind")
        return answer

    connection._ask = asked
    try:
        yield
    finally:
        connection._ask = ask


class Joins(StoreConformance):
    """The tests on a database of SQL, with connections of a caller's own."""

    def cut(self, store: Store, at: int) -> AbstractContextManager[object]:
        return cut_statement(store, at)

    def transaction(self, url: str) -> AbstractContextManager[Any]:
        return self.backend().transaction()

    def async_transaction(self, url: str) -> AbstractAsyncContextManager[Any]:
        return self.backend().async_transaction()

    def backend(self) -> Backend:
        raise NotImplementedError


class TestMemory(StoreConformance):
    async def new_url(self) -> str:
        return "memory://"


class TestSqlite(Joins):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def backend(self) -> Backend:
        return Backend("sqlite", f"{self.folder}/kit.db")

    async def new_url(self) -> str:
        return f"sqlite:///{self.folder}/kit.db"


class TestPostgres(Joins):
    @pytest.fixture(autouse=True)
    def _place(self, swept_postgres: str) -> None:
        self.url = swept_postgres

    def backend(self) -> Backend:
        return Backend("postgres", self.url)

    async def new_url(self) -> str:
        return self.url


class TestRedis(StoreConformance):
    @pytest.fixture(autouse=True)
    def _place(self, flushed_redis: str) -> None:
        self.url = flushed_redis

    def cut(self, store: Store, at: int) -> AbstractContextManager[object]:
        return cut_command(store, at)

    async def new_url(self) -> str:
        return self.url


class TestValkey(StoreConformance):
    @pytest.fixture(autouse=True)
    def _place(self, flushed_valkey: str) -> None:
        self.url = flushed_valkey

    def cut(self, store: Store, at: int) -> AbstractContextManager[object]:
        return cut_command(store, at)

    async def new_url(self) -> str:
        return self.url.replace("redis://", "valkey://")


OUTSIDE = """
from contextlib import contextmanager
from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.store.memory import MemoryStore
from offpath.testing.conformance import StoreConformance

class Forgetful(MemoryStore):
    async def rescue(self, **asked):
        return []

class Torn(MemoryStore):
    left = None

    async def commit(self, effects):
        answers = []
        for job in effects.jobs:
            if self.left == 0:
                raise StoreUnavailable("cut")
            self.left = None if self.left is None else self.left - 1
            answers += await super().commit(Effects(jobs=(job,)))
        return answers

class Careless(MemoryStore):
    async def ask_worker(self, worker, ask):
        return True

    async def lease_sides(self, kind, **asked):
        return await self.ledger_sides(kind)

class TestForgetful(StoreConformance):
    async def new_url(self):
        return "memory://"

    def make_store(self, url, clock):
        return {made}(clock)

    @contextmanager
    def cut(self, store, at):
        store.left = at
        yield
        store.left = None
"""


def run_outside(folder: Path, made: str, chosen: str = "") -> str:
    (folder / "test_acme.py").write_text(OUTSIDE.format(made=made), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-k", chosen,
         str(folder)],
        cwd=folder, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    return done.stdout


@pytest.mark.timeout(300)
def test_a_subclass_outside_of_the_repository_runs_what_is_declared(tmp_path: Path) -> None:
    assert CONTRACT == 1
    told = run_outside(tmp_path, "MemoryStore", "not cut")
    assert "failed" not in told
    assert "memory does not declare that several processes share it" in told


@pytest.mark.timeout(300)
def test_a_store_that_breaks_the_contract_does_not_pass(tmp_path: Path) -> None:
    told = run_outside(tmp_path, "Forgetful")
    assert "test_jobs_of_a_lost_worker_run_again_and_its_end_is_refused" in told
    assert "failed" in told


@pytest.mark.timeout(300)
def test_a_store_that_tears_a_commit_does_not_pass(tmp_path: Path) -> None:
    told = run_outside(tmp_path, "Torn", "commit_that_is_cut")
    assert "test_a_commit_that_is_cut_wrote_all_or_nothing_and_may_be_repeated" in told
    assert "1 failed" in told


@pytest.mark.timeout(300)
def test_a_store_that_breaks_another_profile_does_not_pass(tmp_path: Path) -> None:
    told = run_outside(tmp_path, "Careless", "hears_what_is_asked or due_row")
    assert "test_a_worker_hears_what_is_asked_of_it_until_it_has_answered" in told
    assert "test_a_due_row_is_handed_out_once_until_it_is_due_again" in told
    assert "2 failed" in told
