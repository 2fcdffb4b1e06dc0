"""The public kit, on each of our backends, and from outside of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from offpath.testing.conformance import CONTRACT, StoreConformance


class TestMemory(StoreConformance):
    async def new_url(self) -> str:
        return "memory://"


class TestSqlite(StoreConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def new_url(self) -> str:
        return f"sqlite:///{self.folder}/kit.db"


class TestPostgres(StoreConformance):
    @pytest.fixture(autouse=True)
    def _place(self, swept_postgres: str) -> None:
        self.url = swept_postgres

    async def new_url(self) -> str:
        return self.url


class TestRedis(StoreConformance):
    @pytest.fixture(autouse=True)
    def _place(self, flushed_redis: str) -> None:
        self.url = flushed_redis

    async def new_url(self) -> str:
        return self.url


class TestValkey(StoreConformance):
    @pytest.fixture(autouse=True)
    def _place(self, flushed_valkey: str) -> None:
        self.url = flushed_valkey

    async def new_url(self) -> str:
        return self.url.replace("redis://", "valkey://")


OUTSIDE = """
from offpath.store.memory import MemoryStore
from offpath.testing.conformance import StoreConformance

class Forgetful(MemoryStore):
    async def rescue(self, **asked):
        return []

class TestForgetful(StoreConformance):
    async def new_url(self):
        return "memory://"

    def make_store(self, url, clock):
        return {made}(clock)
"""


def run_outside(folder: Path, made: str) -> str:
    (folder / "test_acme.py").write_text(OUTSIDE.format(made=made), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(folder)],
        cwd=folder, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    return done.stdout


@pytest.mark.timeout(300)
def test_a_subclass_outside_of_the_repository_runs_what_is_declared(tmp_path: Path) -> None:
    assert CONTRACT == 1
    told = run_outside(tmp_path, "MemoryStore")
    assert "failed" not in told
    assert "memory does not declare that several processes share it" in told


@pytest.mark.timeout(300)
def test_a_store_that_breaks_the_contract_does_not_pass(tmp_path: Path) -> None:
    told = run_outside(tmp_path, "Forgetful")
    assert "test_jobs_of_a_lost_worker_run_again_and_its_end_is_refused" in told
    assert "failed" in told
