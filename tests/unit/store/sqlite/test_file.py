"""The file is its owner's alone, and a store notices when its name leads elsewhere."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.job import JobFilter
from offpath.store.protocol import Level
from offpath.store.sqlite import SqliteStore, file, writer
from offpath.store.sqlite.file import log_of
from tests.conformance.builders import new_job


@pytest.fixture(autouse=True)
def permissive() -> Iterator[None]:
    """The mask that most machines have: others may read what is made without a mode."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def enqueue(store: SqliteStore) -> None:
    await store.commit(Effects(jobs=(new_job(),)))


async def test_a_new_file_and_those_beside_it_are_their_owners_alone(
    store: SqliteStore, path: Path
) -> None:
    await enqueue(store)
    files = [path, log_of(path), path.with_name(path.name + "-shm")]
    assert [mode(each) for each in files] == [0o600] * 3
    assert await file_level(store) is Level.FINE


async def test_a_file_that_a_link_leads_to_is_made_for_its_owner_too(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real.db")
    store = SqliteStore(link)
    await store.migrate()
    assert mode(tmp_path / "real.db") == 0o600


async def test_a_file_that_exists_keeps_its_mode_and_the_doctor_tells(path: Path) -> None:
    path.touch(0o644)
    store = SqliteStore(path)
    await store.open()
    assert mode(path) == 0o644
    assert await file_level(store) is Level.WARNING
    await store.close()


async def file_level(store: SqliteStore) -> Level:
    return next(one.level for one in await store.diagnose() if one.name == "file")


def moved_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def moved_file(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def deleted(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    shutil.copy(path, path.with_name("older.db"))
    path.with_name("older.db").replace(path)


def overwritten(path: Path) -> None:
    """A backup is put back in place, as its instructions say: without the old log."""
    path.write_bytes(path.read_bytes())
    log_of(path).unlink()


def overwritten_beside_its_log(path: Path) -> None:
    """A copy is put over the file, as `cp` does, and nothing else is touched."""
    path.write_bytes(path.read_bytes())


DISTURBANCES = [
    moved_folder,
    moved_file,
    deleted,
    replaced,
    overwritten,
    overwritten_beside_its_log,
]
CALLS: list[Callable[[SqliteStore], Awaitable[object]]] = [
    enqueue,
    lambda store: store.claim("a name", "a holder"),
]


@pytest.mark.parametrize("disturb", DISTURBANCES)
@pytest.mark.parametrize("call", CALLS)
async def test_nothing_is_acknowledged_into_a_file_that_is_gone(
    tmp_path: Path,
    disturb: Callable[[Path], None],
    call: Callable[[SqliteStore], Awaitable[object]],
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    store = SqliteStore(folder / "jobs.db")
    await store.open()
    await enqueue(store)
    disturb(store.path)
    for _ in range(2):
        with pytest.raises(StoreUnavailable) as refusal:
            await call(store)
        assert "estart" in str(refusal.value) or "start them again" in str(refusal.value)
        assert str(store.path) in str(refusal.value)
    await store.close()


@pytest.mark.parametrize("disturb", [moved_folder, moved_file, deleted, replaced])
async def test_nothing_is_read_from_a_file_that_is_gone(
    tmp_path: Path, disturb: Callable[[Path], None]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    store = SqliteStore(folder / "jobs.db")
    await store.open()
    await store.find(JobFilter())
    disturb(store.path)
    with pytest.raises(StoreUnavailable, match=r"jobs\.db is (gone|another file)"):
        await store.find(JobFilter())
    await store.close()


async def test_a_file_that_is_put_back_is_used_again(store: SqliteStore, path: Path) -> None:
    await enqueue(store)
    away = path.rename(path.with_name("away.db"))
    with pytest.raises(StoreUnavailable):
        await enqueue(store)
    away.rename(path)
    await enqueue(store)
    assert len((await store.find(JobFilter())).items) == 2


async def test_a_checkpoint_is_no_copy_whoever_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By this store, by another process, or in part, behind a reader of an old snapshot."""
    monkeypatch.setattr(writer, "CHECKPOINT_BYTES", 100_000)
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open()
    for n in range(60):
        await store.commit(Effects(jobs=tuple(new_job() for _ in range(20))))
        if n % 3 == 0:
            elsewhere(store.path, "PASSIVE" if n % 2 else "TRUNCATE")
    assert len((await store.find(JobFilter(), limit=1000)).items) == 1000
    await store.close()


def elsewhere(path: Path, kind: str) -> None:
    """Checkpoint in another process: a second handle in this one would drop its locks."""
    program = (
        "import sqlite3, sys\n"
        "reader = sqlite3.connect(sys.argv[1])\n"
        "reader.execute('begin'); reader.execute('select 1 from offpath_job limit 1').fetchall()\n"
        "writer = sqlite3.connect(sys.argv[1], 0.1)\n"
        "writer.execute(f'pragma wal_checkpoint({sys.argv[2]})').fetchall()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path), kind], check=True)


async def test_the_memory_beside_a_closed_file_is_not_kept_open(tmp_path: Path) -> None:
    for n in range(5):
        store = SqliteStore(tmp_path / f"{n}.db")
        await store.open()
        await enqueue(store)
        await store.close()
    assert len([fd for fd in file._memories.values() if os.fstat(fd).st_nlink == 0]) <= 1
