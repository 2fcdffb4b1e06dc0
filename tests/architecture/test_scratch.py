"""The place of what tests throw away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.scratch import DISK, ENOUGH, scratch


def _free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=size))


def test_it_lies_in_memory_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _free(monkeypatch, ENOUGH)
    assert scratch(tmp_path) == tmp_path


def test_a_small_place_in_memory_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _free(monkeypatch, ENOUGH - 1)
    assert scratch(tmp_path) == DISK


def test_a_system_without_one_uses_the_disk(tmp_path: Path) -> None:
    assert scratch(tmp_path / "none") == DISK
