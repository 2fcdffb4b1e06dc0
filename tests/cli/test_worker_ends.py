"""Workers that end by themselves: until idle, after jobs, after seconds, with honest exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Processes, Run
from tests.cli.test_worker import put, sqlite, states


def ended(processes: Processes, here: Path, *args: str) -> tuple[int, str]:
    worker = processes.start("worker", "service:app", "--url", sqlite(here), *args)
    output = worker.communicate(timeout=60)[0]
    return worker.returncode, output


def test_until_idle_it_runs_what_is_due_and_ends(
    run: Run, here: Path, processes: Processes
) -> None:
    for _ in range(5):
        put(run, sqlite(here), "nap", "seconds=0.2")
    put(run, sqlite(here), "add", "a=1", "b=2", "--delay", "3600")
    code, output = ended(processes, here, "--until-idle")
    assert code == 0, output
    told = "ends because nothing is due: 5 succeeded, 0 dead; left: 1 queued (for a retry, a delay"
    assert told in output
    assert sorted(states(run, sqlite(here))) == ["queued"] + ["succeeded"] * 5


def test_until_idle_it_tells_of_what_will_be_retried(
    run: Run, here: Path, processes: Processes
) -> None:
    put(run, sqlite(here), "flaky", "--app", "service:app")
    code, output = ended(processes, here, "--until-idle")
    assert code == 0, output
    assert "0 dead; left: 1 queued (for a retry, a delay or a pause), 0 blocked" in output
    assert states(run, sqlite(here)) == ["queued"]


def test_jobs_that_died_are_told_by_the_exit_code(
    run: Run, here: Path, processes: Processes
) -> None:
    put(run, sqlite(here), "fail", "--app", "service:app")
    put(run, sqlite(here), "add", "a=1", "b=2")
    code, output = ended(processes, here, "--until-idle")
    assert (code, "1 succeeded, 1 dead" in output) == (3, True), output


def test_jobs_that_died_at_a_gate_are_counted_too(
    run: Run, here: Path, processes: Processes
) -> None:
    put(run, sqlite(here), "fail_behind", "--app", "service:app")
    code, output = ended(processes, here, "--until-idle")
    assert (code, "1 succeeded, 2 dead" in output) == (3, True), output


def test_after_so_many_jobs_the_others_are_left(run: Run, here: Path, processes: Processes) -> None:
    for _ in range(6):
        put(run, sqlite(here), "add", "a=1", "b=2")
    code, output = ended(processes, here, "--max-jobs", "2")
    assert code == 0, output
    assert states(run, sqlite(here)).count("succeeded") == 2
    code, _ = ended(processes, here, "--max-jobs", "1", "--until-idle")
    assert (code, states(run, sqlite(here)).count("succeeded")) == (3, 3), "work is left"


def test_after_so_long_it_drains(run: Run, here: Path, processes: Processes) -> None:
    put(run, sqlite(here), "nap", "seconds=1.5")
    code, output = ended(processes, here, "--max-seconds", "0.5")
    assert (code, "ends after 0.5 s" in output) == (0, True), output
    assert states(run, sqlite(here)) == ["succeeded"]


def test_queues_that_it_does_not_serve_do_not_keep_it(
    run: Run, here: Path, processes: Processes
) -> None:
    put(run, sqlite(here), "add", "a=1", "b=2", "--queue", "other")
    code, output = ended(processes, here, "--until-idle", "--queues", "default")
    assert code == 0, output
    assert states(run, sqlite(here)) == ["queued"]


@pytest.mark.parametrize(
    "args",
    [
        ("--until-idle", "--processes", "2"),
        ("--max-jobs", "0"),
        ("--max-seconds", "0"),
    ],
)
def test_what_cannot_be_meant_is_refused(run: Run, here: Path, args: tuple[str, ...]) -> None:
    assert run("worker", "service:app", "--url", sqlite(here), *args).exit_code == 2
