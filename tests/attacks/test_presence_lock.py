"""Whoever may write beside a SQLite file can hold its registry's lock: no worker hangs for it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offpath import App
from offpath.store.sqlite import presence
from offpath.store.sqlite.presence import Presence


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work.db.workers"
    made.mkdir()
    return made


@pytest.fixture
def held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The registry's lock, in the hand of somebody else for the whole test."""
    monkeypatch.setattr(presence, "_PATIENCE", 0.05)
    registry = folder / "registry"
    descriptor = os.open(registry, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield registry
    os.close(descriptor)


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.hold("w"),
        lambda one: one.missing(["w"]),
        lambda one: one.release("w"),
        lambda one: one.forget(["w"]),
        lambda one: one.sweep(["w"]),
        lambda one: one.abandon(),
    ],
)
def test_each_call_ends_within_its_bound(
    held: Path, folder: Path, call: Callable[[Presence], object]
) -> None:
    assert held.exists()
    assert not call(Presence(folder))  # nothing is held, nobody is missing


def test_the_file_that_is_in_the_way_is_named_once(
    held: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = Presence(folder)
    assert [here.hold("w"), here.hold("w")] == [False, False]
    (record,) = caplog.records
    assert str(held) in record.getMessage()


async def test_a_worker_runs_its_jobs_all_the_same(held: Path, tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    assert held.exists()
    async with app, app.worker():
        handle = await add.enqueue(2, b=3)
        assert await handle.result(timeout=30) == 5


def test_a_link_in_the_place_of_a_lock_is_not_followed(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("kept")
    (folder / "registry").symlink_to(mine)
    assert not Presence(folder).hold("w")
    assert Presence(folder).missing(["w"]) == set()
