"""A project file that somebody else planted decides nothing: it could name code to import."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from offpath.config import Settings, load_settings

PLANTED = '[tool.offpath]\napp = "evil:app"\nwebhook-networks = "10.0.0.0/8"\n'
STRANGER = 12345


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder somebody works in, two below the planted file."""
    made = tmp_path / "project" / "src"
    made.mkdir(parents=True)
    return made


def load(folder: Path) -> Settings:
    return load_settings(environ={}, directory=folder)


def test_a_file_in_the_project_is_read_and_named(folder: Path) -> None:
    file = folder.parent / "pyproject.toml"
    file.write_text('[tool.offpath]\napp = "mine:app"\n')
    settings = load(folder)
    assert (settings.app, settings.project_file) == ("mine:app", str(file))
    assert settings.sources()["app"] == f"{file} [tool.offpath]"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of somebody else")
def test_a_file_of_another_user_is_not_obeyed(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(PLANTED)
    os.chown(file, STRANGER, STRANGER)
    assert load(folder) == Settings()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{file} is not read: it belongs to another user ({STRANGER})" in record.getMessage()


def test_a_file_of_ours_that_everybody_may_write_is_not_obeyed(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = folder / "pyproject.toml"
    file.write_text(PLANTED)
    file.chmod(0o666)
    assert load(folder) == Settings()
    assert "chmod o-w" in caplog.text


def test_a_repository_is_where_a_project_ends(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PLANTED)
    assert load(folder).app == "evil:app"
    (folder.parent / ".git").mkdir()
    assert load(folder) == Settings()


def test_a_home_is_where_a_project_ends(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(PLANTED)
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load(folder) == Settings()


def test_a_file_of_others_that_does_not_speak_of_us_says_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = folder / "pyproject.toml"
    file.write_text('[project]\nname = "other"\n')
    file.chmod(0o666)
    assert load(folder) == Settings()
    assert caplog.records == []
