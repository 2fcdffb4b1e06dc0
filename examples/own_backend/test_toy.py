"""The contract of a store, run against the toy."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_offpath import ToyStore

from offpath.runtime.clock import ManualClock
from offpath.testing.conformance import StoreConformance


class TestToy(StoreConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def new_url(self) -> str:
        return f"toy://{self.folder}/jobs.json"

    def make_store(self, url: str, clock: ManualClock) -> ToyStore:
        return ToyStore(url, clock=clock)
