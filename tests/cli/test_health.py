"""``offpath health``, ``workers`` and the worker's probe, as a container would use them."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

from offpath.config import Settings
from offpath.health.probe import Probe
from offpath.model.health import SettlementReport, WorkerReport
from offpath.model.tally import Verdict
from offpath.runtime.clock import SystemClock
from offpath.runtime.metrics import Metrics
from tests.cli.conftest import Processes, Run, document, until


def sqlite(here: Path) -> str:
    return f"sqlite:///{here / 'work.db'}"


def served(worker: subprocess.Popen[str]) -> str:
    """The URL in the worker's start line."""
    line = until(worker, "health at")[-1]
    found = re.search(r"health at (http://[^\s;,]+)", line)
    assert found is not None
    return found[1]


def ready(run: Run, *arguments: str) -> Result:
    """The first answer that is healthy: the loops of a worker that just began had no turn yet."""
    while (result := run("health", *arguments)).exit_code == 1:
        pass
    assert result.exit_code == 0, result.output
    return result


def test_a_running_worker_is_healthy_and_a_killed_one_unreachable(
    run: Run, here: Path, processes: Processes
) -> None:
    worker = processes.start("worker", "service:app", "--url", sqlite(here), "--health-port", "0")
    url = served(worker)
    result = ready(run, "--url", url)
    assert {"claim", "heartbeat", "rescue", "prune", "keep"} <= set(result.output.split())
    assert result.output.endswith("\nhealthy\n")
    told = document(run("health", "--url", f"{url}/readyz", "--json"))
    assert told["ready"] is True
    assert {loop["condition"] for loop in told["loops"]} == {"healthy"}
    worker.kill()
    worker.wait()
    gone = run("health", "--url", url, "--timeout", "2")
    assert gone.exit_code == 2
    assert "unreachable" in gone.stderr
    told = document(run("health", "--url", url, "--json"))
    assert told["error"]["code"] == "probe_unreachable"


def test_a_stopping_worker_is_unhealthy(run: Run, here: Path, processes: Processes) -> None:
    url = sqlite(here)
    assert run("enqueue", "nap", "seconds=1000", "--url", url).exit_code == 0
    worker = processes.start("worker", "service:app", "--url", url, "--health-port", "0")
    probe = served(worker)
    until(worker, "began")
    assert document(run("health", "--url", probe, "--json"))["running"] == {"nap": 1}
    worker.send_signal(signal.SIGSTOP)  # it cannot answer at all now
    assert run("health", "--url", probe, "--timeout", "0.2").exit_code == 2
    worker.send_signal(signal.SIGCONT)
    worker.terminate()
    # on a busy machine a loop may be late for its first success, which is red for another reason
    while (
        "unhealthy: the worker is stopping" not in (result := run("health", "--url", probe)).output
    ):
        assert worker.poll() is None
    assert result.exit_code == 1


def test_the_token_is_asked_for_and_taken_from_the_environment(
    run: Run, here: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "pyproject.toml").write_text('[tool.offpath]\nhealth-token = "s3cret"\n')
    worker = processes.start("worker", "service:app", "--url", sqlite(here), "--health-port", "0")
    probe = served(worker)
    (here / "pyproject.toml").unlink()
    refused = run("health", "--url", probe)
    assert refused.exit_code == 2
    assert "OFFPATH_HEALTH_TOKEN" in refused.stderr
    monkeypatch.setenv("OFFPATH_HEALTH_TOKEN", "s3cret")
    ready(run, "--url", probe)
    assert "s3cret" not in run("config", "show").output


def test_without_a_url_the_configured_port_is_asked(
    run: Run, here: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = processes.start("worker", "service:app", "--url", sqlite(here), "--health-port", "0")
    port = served(worker).rsplit(":", 1)[1]
    monkeypatch.setenv("OFFPATH_HEALTH_PORT", port)
    monkeypatch.setenv("OFFPATH_HEALTH_HOST", "0.0.0.0")
    assert ready(run).output.endswith("healthy\n")


def test_an_open_probe_without_a_token_is_refused_at_the_start(
    here: Path, processes: Processes
) -> None:
    arguments = ("worker", "service:app", "--url", sqlite(here), "--health-host", "0.0.0.0")
    worker = processes.start(*arguments, "--health-port", "0")
    output = worker.communicate(timeout=30)[0]
    assert worker.returncode == 2
    assert "health_token" in output


def test_each_process_has_a_port_of_its_own(here: Path, processes: Processes, run: Run) -> None:
    first = _two_free_ports()
    arguments = ("worker", "service:app", "--url", sqlite(here), "--processes", "2")
    worker = processes.start(*arguments, "--health-port", str(first))
    urls = {served(worker), served(worker)}
    assert urls == {f"http://127.0.0.1:{first}", f"http://127.0.0.1:{first + 1}"}
    assert [ready(run, "--url", url).exit_code for url in urls] == [0, 0]


def _two_free_ports() -> int:
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                other.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


def test_the_store_tells_of_the_fleet(run: Run, migrated: str, processes: Processes) -> None:
    alone = run("health", "--url", migrated)
    assert alone.exit_code == 1
    assert "unhealthy: no worker is live" in alone.output
    worker = processes.start("worker", "service:app", "--url", migrated)
    until(worker, "runs add")
    ready(run, "--url", migrated)
    told = document(run("health", "--url", migrated, "--json"))
    assert [one["presence"] for one in told["workers"]] == ["live"]
    (listed,) = document(run("workers", "--url", migrated, "--json"))["items"]
    assert (listed["presence"], listed["ill"]) == ("live", None)
    assert "live" in run("workers", "--url", migrated).output
    assert "make progress" in run("doctor", "--url", migrated).output


def test_what_waits_too_long_is_unhealthy(
    run: Run, here: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = sqlite(here)
    worker = processes.start("worker", "service:app", "--url", url, "--queues", "other")
    until(worker, "runs add")
    assert run("enqueue", "add", "a=1", "b=2", "--url", url).exit_code == 0
    monkeypatch.setenv("OFFPATH_JOB_AGE_LIMITS", "default=0")
    result = run("health", "--url", url)
    assert result.exit_code == 1
    assert "unhealthy: the oldest due job of queue default has waited" in result.output


def test_an_unreachable_store_is_two_and_so_is_a_wrong_call(run: Run, here: Path) -> None:
    assert run("health", "--url", "postgresql://nobody@127.0.0.1:1/none").exit_code == 2
    assert run("health").exit_code == 2
    assert run("health", "--url", "http://").exit_code == 2
    assert run("health", "--url", f"sqlite:///{here / 'nothing.db'}").exit_code == 1
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        port = mute.getsockname()[1]
        silent = run("health", "--url", f"http://127.0.0.1:{port}", "--timeout", "0.2")
    assert silent.exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--url", "http://127.0.0.1:99999"),
        ("--url", "http://127.0.0.1:port"),
        ("--url", "http://[::1"),
        ("--url", "http://127.0.0.1:1", "--timeout", "-1"),
        ("--url", "http://127.0.0.1:1", "--timeout", "0"),
        ("--url", "http://127.0.0.1:1", "--timeout", "nan"),
    ],
)
def test_a_wrong_call_is_never_taken_for_an_unhealthy_worker(
    run: Run, arguments: tuple[str, ...]
) -> None:
    result = run("health", *arguments)
    assert result.exit_code == 2
    assert "unexpected" not in result.output


def test_a_token_that_cannot_be_sent_is_not_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFPATH_HEALTH_TOKEN", "s3cret\nmore")
    result = run("health", "--url", "http://127.0.0.1:1")
    assert result.exit_code == 2
    assert "OFFPATH_HEALTH_TOKEN" in result.output
    assert "s3cret" not in result.output


async def test_a_settlement_run_that_was_not_clean_is_a_warning(run: Run) -> None:
    settled = SettlementReport(
        kind="rebate",
        period="2026-11",
        verdict=Verdict.DEGRADED,
        started_at=datetime(2026, 12, 1, tzinfo=UTC),
        attempted=5,
        credited=3,
        failed=2,
        cause="2 of 5 credits failed (StoreUnavailable)",
    )
    report = WorkerReport(settlements=(settled,))
    async with Probe(lambda: report, Settings(), SystemClock(), Metrics()) as probe:
        result = await asyncio.to_thread(run, "health", "--url", probe.url)
        told = document(await asyncio.to_thread(run, "health", "--url", probe.url, "--json"))
    assert result.exit_code == 0
    warning = "settlement run rebate for 2026-11 degraded: 2 of 5 credits failed (StoreUnavailable)"
    assert result.stdout.splitlines()[-2:] == [f"warning: {warning}", "healthy"]
    assert "rebate      2026-11  degraded  5          3         2       0" in result.stdout
    assert (told["ready"], told["warnings"]) == (True, [warning])
    assert told["settlements"][0]["credited"] == 3
