"""The worker as a real process: signals, exit codes, several processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import offpath.runtime.parent as processes_module
from offpath.store.backends import place_of
from tests.cli.conftest import Processes, Run, document, until


def put(run: Run, url: str, *args: str) -> None:
    assert run("enqueue", *args, "--url", url).exit_code == 0


def sqlite(here: Path) -> str:
    return f"sqlite:///{here / 'work.db'}"


def states(run: Run, url: str) -> list[str]:
    found = document(run("jobs", "list", "--json", "--url", url))["items"]
    return [job["state"] for job in found]


def test_a_signal_drains(run: Run, here: Path, processes: Processes) -> None:
    url = sqlite(here)
    for _ in range(5):
        put(run, url, "nap", "seconds=0.3")
    worker = processes.start("worker", "service:create()", "--url", url)
    for _ in range(5):
        until(worker, "began")
    worker.terminate()
    assert worker.wait(timeout=30) == 0
    assert states(run, url) == ["succeeded"] * 5


def test_the_app_is_named_by_an_option_too(here: Path, processes: Processes) -> None:
    url = sqlite(here)
    worker = processes.start("worker", "--app", "service:app", "--url", url, "--processes", "2")
    until(worker, "runs")
    worker.terminate()
    assert worker.wait(timeout=30) == 0


def test_the_app_is_named_by_the_setting_too(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFPATH_APP", "nowhere:app")
    found = run("worker", "--url", sqlite(here))
    assert (found.exit_code, "nowhere" in found.output) == (2, True)


def test_two_apps_are_one_too_many(run: Run, here: Path) -> None:
    both = run("worker", "service:app", "--app", "service:create()", "--url", sqlite(here))
    assert (both.exit_code, "name one" in both.output) == (2, True)


def test_a_worker_without_an_app_says_how_to_name_one(run: Run, here: Path) -> None:
    none = run("worker", "--url", sqlite(here))
    assert (none.exit_code, "--app" in none.output) == (2, True)


def test_a_second_signal_gives_jobs_back(run: Run, here: Path, processes: Processes) -> None:
    url = sqlite(here)
    put(run, url, "nap", "seconds=1000")
    worker = processes.start("worker", "service:app", "--url", url, "--processes", "2")
    until(worker, "began")
    worker.send_signal(signal.SIGQUIT)
    until(worker, "nap attempt 1 running")
    worker.terminate()
    until(worker, "stopping")
    worker.terminate()
    output = worker.communicate(timeout=30)[0]
    assert worker.returncode == 0, output
    (job,) = document(run("jobs", "list", "--json", "--url", url))["items"]
    assert (job["state"], job["attempt"]) == ("queued", 1), output


def test_a_crashed_process_is_started_again(run: Run, here: Path, processes: Processes) -> None:
    url = sqlite(here)
    put(run, url, "crash")
    worker = processes.start("worker", "service:app", "--url", url, "--processes", "2")
    seen = "".join(until(worker, "survived"))
    seen += "" if "started again" in seen else "".join(until(worker, "started again"))
    assert "code -9" in seen
    if seen.count("runs add") < 3:  # two at first, and the one that was started again
        until(worker, "runs add")
    worker.terminate()
    assert worker.wait(timeout=30) == 0


_CALLER = """
import sys
from offpath.cli.main import cli

sys.argv = ["program", "argument", "of", "the", "program"]
cli(["worker", "service:app", "--url", "{url}", "--processes", "2"])
"""


def test_children_are_started_as_their_parent_was(
    run: Run, here: Path, processes: Processes
) -> None:
    """By another program, whose arguments are its own, and with the interpreter's options."""
    url = sqlite(here)
    put(run, url, "mode")
    (here / "caller.py").write_text(_CALLER.format(url=url), "utf-8")
    worker = processes.python("-X", "dev", "caller.py")
    assert "dev_mode=True" in "".join(until(worker, "dev_mode"))
    worker.terminate()
    assert worker.wait(timeout=30) == 0


def test_children_end_with_their_parent(run: Run, here: Path, processes: Processes) -> None:
    worker = processes.start("worker", "service:app", "--url", sqlite(here), "--processes", "2")
    until(worker, "runs add")
    until(worker, "runs add")
    worker.kill()
    # the children hold the other end of its output: it ends when both of them have
    output = worker.communicate(timeout=30)[0]
    assert output.count("stopped") == 2


def test_an_app_in_memory_is_refused(here: Path, processes: Processes) -> None:
    worker = processes.start("worker", "service:app")
    output = worker.communicate(timeout=30)[0]
    assert worker.returncode == 2
    assert "in memory" in output


def test_help_is_quick_and_needs_no_rich(here: Path) -> None:
    code = "import sys, offpath.cli.main; print('rich' in sys.modules, 'psycopg' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    assert done.stdout.split() == ["False", "False"]


def test_a_worker_says_on_which_file_it_runs(here: Path, processes: Processes) -> None:
    worker = processes.start("worker", "service:app", "--url", sqlite(here))
    assert f" on {here / 'work.db'}" in "".join(until(worker, "runs add"))
    worker.terminate()
    assert worker.wait(timeout=30) == 0


def test_a_place_is_an_absolute_path_or_a_url_without_its_password() -> None:
    here = str(Path.cwd() / "work.db")
    assert place_of("sqlite:///work.db") == here
    assert place_of("sqlite:////var/lib/work.db") == "/var/lib/work.db"
    assert place_of("postgresql://me:secret@db/app") == "postgresql://me:***@db/app"


def _two(
    processes: Processes, url: str, *arguments: str
) -> tuple[subprocess.Popen[str], list[int]]:
    """A parent whose two children run, and their process ids."""
    worker = processes.start("worker", "service:app", "--url", url, "--processes", "2", *arguments)
    until(worker, "runs add")
    until(worker, "runs add")
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    assert len(children) == 2
    return worker, [int(child) for child in children]


@pytest.mark.parametrize("signals", [1, 2])
def test_a_child_that_is_stopped_keeps_nobody(
    here: Path, processes: Processes, signals: int
) -> None:
    worker, children = _two(processes, sqlite(here), "--drain-timeout", "1")
    os.kill(children[1], signal.SIGSTOP)
    told_at = time.monotonic()
    for _ in range(signals):
        worker.terminate()
    assert worker.wait(timeout=20) == 1
    assert time.monotonic() - told_at < 1.0 + 2.0
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_the_health_of_several_processes_names_the_one_that_does_not_answer(
    run: Run, here: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = _free_ports()
    worker, children = _two(processes, sqlite(here), "--health-port", str(port))
    monkeypatch.setenv("OFFPATH_HEALTH_PORT", str(port))
    while (well := run("health", "--timeout", "5")).exit_code:
        assert worker.poll() is None, well.output
    os.kill(children[1], signal.SIGSTOP)
    ill = run("health", "--timeout", "0.5")
    assert ill.exit_code == 1
    assert f"unhealthy: process 2 of 2 (port {port + 1}): it does not answer" in ill.output
    assert document(run("health", "--timeout", "0.5", "--json"))["ready"] is False
    os.kill(children[1], signal.SIGCONT)
    worker.terminate()
    assert worker.wait(timeout=30) == 0


def _free_ports() -> int:
    """The first of two ports, one after the other, that are free."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port


def test_children_that_end_at_once_again_and_again_end_the_parent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes_module, "FIRST_WAIT", 0.0)
    monkeypatch.setattr(processes_module, "LONGEST_WAIT", 0.0)
    monkeypatch.setattr(processes_module, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(processes_module, "MOST_CRASHES", 3)
    handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    crashing = [sys.executable, "-c", "raise SystemExit(7)"]
    try:
        assert processes_module.Parent([crashing], drain_timeout=1.0).run() == 1
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert "a worker process has ended 3 times at once: giving up" in caplog.text
