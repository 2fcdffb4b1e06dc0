"""``offpath worker --reload`` as a real process: files that change, faults, long jobs, signals."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from offpath.cli import reload
from offpath.errors import MissingExtra
from tests.cli.conftest import SERVICE, Processes, Run, document, until

if TYPE_CHECKING:
    from pathlib import Path


def change(here: Path, text: str) -> None:
    (here / "service.py").write_text(SERVICE.replace("set[complex] | ", "") + text, "utf-8")


def test_a_change_begins_a_worker_that_knows_it(run: Run, here: Path, processes: Processes) -> None:
    url = f"sqlite:///{here / 'work.db'}"
    assert run("enqueue", "nap", "seconds=600", "--url", url).exit_code == 0
    worker = processes.start("worker", "service:app", "--url", url, "--reload")
    until(worker, "began")
    change(here, "\n@app.task\nasync def added() -> None: ...\n")
    seen = "".join(until(worker, "runs add, added"))
    assert "service.py has changed: the worker begins anew" in seen
    until(worker, "began")  # the job that ran was given back
    worker.send_signal(signal.SIGINT)
    until(worker, "draining")
    worker.send_signal(signal.SIGINT)
    output = worker.communicate(timeout=30)[0]
    assert worker.returncode == 0, output
    (job,) = document(run("jobs", "list", "--json", "--url", url))["items"]
    assert (job["state"], job["attempt"]) == ("queued", 1), "no attempt was lost"


def test_a_fault_in_a_file_waits_for_the_next_change(here: Path, processes: Processes) -> None:
    url = f"sqlite:///{here / 'work.db'}"
    worker = processes.start("worker", "service:app", "--url", url, "--reload")
    until(worker, "runs add")
    change(here, "\nthis is no Python\n")
    until(worker, "cannot be imported")
    change(here, "")
    until(worker, "runs add")
    worker.terminate()
    assert worker.wait(timeout=30) == 0


def test_the_worker_ends_with_who_watches(here: Path, processes: Processes) -> None:
    url = f"sqlite:///{here / 'work.db'}"
    worker = processes.start("worker", "service:app", "--url", url, "--reload")
    until(worker, "runs add")
    worker.kill()
    assert "stopped" in worker.communicate(timeout=30)[0]


@pytest.mark.parametrize("other", [("--processes", "2"), ("--until-idle",)])
def test_it_is_for_one_worker_that_goes_on(run: Run, here: Path, other: tuple[str, ...]) -> None:
    found = run("worker", "service:app", "--reload", *other)
    assert (found.exit_code, "leave" in found.output) == (2, True)


def test_without_watchfiles_it_says_what_to_install(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(MissingExtra, match="reload"):
        reload.Reloader((), here)
