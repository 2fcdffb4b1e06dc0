"""The worker as a real process: signals, exit codes, several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
    assert (job["state"], job["attempt"]) == ("queued", 1)


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
