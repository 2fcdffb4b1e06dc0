"""Lock files: held while the process lives, free when it does not, whatever was forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from offpath.store.sqlite.presence import AVAILABLE, Presence

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this platform has no flock")


def _start(directory: Path, script: str) -> subprocess.Popen[str]:
    """A process that holds the lock of worker ``w`` and says when it does."""
    head = f"""
        import os, signal, sys, subprocess
        from pathlib import Path
        from offpath.store.sqlite.presence import Presence
        presence = Presence(Path({str(directory)!r}))
        assert presence.hold("w")
    """
    code = textwrap.dedent(head) + textwrap.dedent(script)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()


@pytest.fixture
def here(tmp_path: Path) -> Presence:
    return Presence(tmp_path / "jobs.db.workers")


def test_a_living_process_is_present_and_a_killed_one_is_missing(
    here: Presence, tmp_path: Path
) -> None:
    process = _start(tmp_path / "jobs.db.workers", "print('ready', flush=True); sys.stdin.read()")
    assert here.missing(["w"]) == set()
    _end(process)
    assert here.missing(["w"]) == {"w"}


def test_a_forked_child_does_not_keep_a_dead_parent_alive(here: Presence, tmp_path: Path) -> None:
    script = """
        left, right = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(right, b"x")
            signal.pause()
        os.read(left, 1)
        print("ready", flush=True)
        print(child, flush=True)
        sys.stdin.read()
    """
    process = _start(tmp_path / "jobs.db.workers", script)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        assert here.missing(["w"]) == set()
        _end(process)
        assert here.missing(["w"]) == {"w"}
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_that_ends_does_not_free_its_parents_lock(here: Presence, tmp_path: Path) -> None:
    script = """
        child = os.fork()
        if child == 0:
            presence.release("w")
            presence.abandon()
            os._exit(0)
        os.waitpid(child, 0)
        print("ready", flush=True)
        sys.stdin.read()
    """
    process = _start(tmp_path / "jobs.db.workers", script)
    assert here.missing(["w"]) == set()
    _end(process)


def test_an_executed_child_does_not_inherit_the_lock(here: Presence, tmp_path: Path) -> None:
    script = """
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        print("ready", flush=True)
        print(child.pid, flush=True)
        sys.stdin.read()
    """
    process = _start(tmp_path / "jobs.db.workers", script)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        _end(process)
        assert here.missing(["w"]) == {"w"}
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_missing_file_proves_nothing(here: Presence) -> None:
    assert here.missing(["w"]) == set()


def test_own_workers_are_never_missing(here: Presence) -> None:
    assert here.hold("w")
    assert here.hold("w")
    assert here.missing(["w"]) == set()
    here.abandon()


def test_a_released_worker_leaves_no_file(here: Presence, tmp_path: Path) -> None:
    here.hold("w")
    here.release("w")
    here.release("w")
    assert list((tmp_path / "jobs.db.workers").glob("*.lock")) == []


def test_an_abandoned_worker_is_seen_to_be_gone_and_can_be_forgotten(
    here: Presence, tmp_path: Path
) -> None:
    other = Presence(tmp_path / "jobs.db.workers")
    other.hold("w")
    other.abandon()
    assert here.missing(["w"]) == {"w"}
    here.forget(["w"])
    assert here.missing(["w"]) == set()


def test_the_sweep_removes_only_files_that_nobody_has(here: Presence, tmp_path: Path) -> None:
    other = Presence(tmp_path / "jobs.db.workers")
    for worker in ("held", "known", "stale"):
        other.hold(worker)
    other._let_go("known")
    other._let_go("stale")

    here.sweep(["known"])

    left = {path.name for path in (tmp_path / "jobs.db.workers").glob("*.lock")}
    assert left == {here._file("held").name, here._file("known").name}
    other.abandon()


@pytest.mark.parametrize("worker", ["../../etc/passwd", "a/b", "x" * 300, "a\0b"])
def test_any_id_makes_a_safe_file_name(here: Presence, tmp_path: Path, worker: str) -> None:
    assert here.hold(worker)
    assert here._file(worker).parent == tmp_path / "jobs.db.workers"
    here.release(worker)


def test_a_directory_that_cannot_be_made_means_no_presence(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file is in the way")
    assert not Presence(tmp_path / "blocked").hold("w")
