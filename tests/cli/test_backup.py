"""A copy of a file that is in use is whole, its owner's alone, and there at once or not at all."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from offpath import App
from offpath.errors import StoreUnavailable
from offpath.store.sqlite.backup import backup
from tests.cli.conftest import Run, document


def jobs_in(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        (count,) = connection.execute("select count(*) from offpath_job").fetchone()
    return int(count)


async def test_a_copy_has_what_is_still_in_the_log(tmp_path: Path) -> None:
    """T2-14: the file alone lacks what was acknowledged, and looks well all the same."""
    app = App(f"sqlite:///{tmp_path / 'work.db'}", auto_start=False)

    @app.task
    async def add(a: int) -> None: ...

    async with app:
        await app.enqueue([add.job(number) for number in range(500)])
        shutil.copy(tmp_path / "work.db", tmp_path / "alone.db")
        size = backup(tmp_path / "work.db", tmp_path / "copy.db")
    assert jobs_in(tmp_path / "alone.db") == 0
    assert jobs_in(tmp_path / "copy.db") == 500
    assert size == (tmp_path / "copy.db").stat().st_size


def test_a_copy_opens_as_a_store_and_is_its_owners_alone(run: Run, here: Path) -> None:
    url = f"sqlite:///{here / 'work.db'}"
    assert run("enqueue", "add", "a=1", "b=2", "--url", url).exit_code == 0
    copied = document(run("backup", "copy.db", "--url", url, "--json"))
    assert copied["file"] == str(here / "copy.db")
    assert stat.S_IMODE((here / "copy.db").stat().st_mode) == 0o600
    found = document(run("jobs", "list", "--json", "--url", f"sqlite:///{here / 'copy.db'}"))
    assert [job["task"] for job in found["items"]] == ["add"]
    assert sorted(here.glob("*.part")) == []


def test_a_copy_replaces_the_last_one_only_when_it_is_complete(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{here / 'work.db'}"
    assert run("enqueue", "add", "a=1", "b=2", "--url", url).exit_code == 0
    assert run("backup", "copy.db", "--url", url).exit_code == 0
    before = (here / "copy.db").read_bytes()

    def no_space(_source: Path, _part: Path) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr("offpath.store.sqlite.backup._vacuum", no_space)
    assert run("backup", "copy.db", "--url", url).exit_code == 4
    assert (here / "copy.db").read_bytes() == before
    assert sorted(here.glob("*.part")) == []


@pytest.mark.parametrize(
    ("url", "target", "code", "text"),
    [
        ("sqlite:///nowhere.db", "copy.db", 4, "nothing to back up"),
        ("sqlite:///work.db", "work.db", 4, "the store itself"),
        ("sqlite:///work.db", "missing/copy.db", 4, "a folder that exists"),
        ("postgresql://db/app", "copy.db", 2, "pg_dump"),
    ],
)
def test_what_cannot_be_copied_is_told(
    run: Run, here: Path, url: str, target: str, code: int, text: str
) -> None:
    assert run("migrate", "--url", "sqlite:///work.db").exit_code == 0
    refused = run("backup", target, "--url", url)
    assert (refused.exit_code, text in refused.output) == (code, True), refused.output
    assert (here / "work.db").exists()
