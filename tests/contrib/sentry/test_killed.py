"""Workers that are killed: the job that runs again is no error, the one that kills them is one."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

import offpath
from tests.contrib.processes import Processes
from tests.contrib.sentry.receiver import Envelopes
from tests.integration.polling import eventually

if TYPE_CHECKING:
    from pathlib import Path

JOBS = """
import os, signal
from pathlib import Path

import offpath
import sentry_sdk
from offpath.contrib.sentry import OffpathIntegration

sentry_sdk.init(
    dsn=os.environ["SENTRY_DSN"],
    integrations=[OffpathIntegration()],
    # it would import whatever is installed, at each start
    default_integrations=False,
    auto_enabling_integrations=False,
)
app = offpath.App(os.environ["SHOP_URL"], auto_start=False)


@app.task
def unlucky():
    try:
        Path("once").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def poisoned(secret):
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def ordinary():
    pass
"""


@pytest.mark.timeout(180)
async def test_a_rescue_is_no_error_and_a_poisoned_job_is_one(url: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    envelopes = Envelopes()
    run = Processes(
        tmp_path,
        {
            "SHOP_URL": url,
            "OFFPATH_POLL_INTERVAL": "0.1",
            "OFFPATH_MAX_DELIVERIES": "2",
            "SENTRY_DSN": envelopes.dsn,
            "no_proxy": "127.0.0.1",
        },
    )
    try:
        async with offpath.App(url, auto_start=False) as app:

            async def killed(task: str, **arguments: object) -> str:
                """Enqueue a job that kills its workers, and start workers until it has ended."""
                handle = await app.by_name(task, registered=False).enqueue(**arguments)
                while (await app.jobs.get(handle.id)).state not in {"succeeded", "dead"}:
                    worker = run.start("-m", "offpath", "worker", "jobs:app")

                    async def over(worker: object = worker) -> bool:
                        ended = worker.poll() is not None  # type: ignore[attr-defined]
                        state = (await app.jobs.get(handle.id)).state
                        return ended or state in {"succeeded", "dead"}

                    await eventually(over, within=60, what=f"{task} ends:\n{run.output()}")
                    assert worker.poll() in {None, -signal.SIGKILL}, run.output()
                return handle.id

            rescued = await killed("unlucky")
            assert (await app.jobs.get(rescued)).state == "succeeded"
            poisoned = await killed("poisoned", secret="hidden")
            dead = await app.jobs.get(poisoned)
            assert (dead.state, dead.reason) == ("dead", "worker_lost")
        for worker in run.started:
            worker.terminate()  # what waits is sent when a worker stops
        for worker in run.started:
            worker.wait(60)
    finally:
        run.destroy()
        envelopes.server.shutdown()
        envelopes.server.server_close()
    found = envelopes.of("event")
    assert len(found) == 1, [(one["contexts"]["offpath"], one["exception"]) for one in found]
    (event,) = found
    assert event["exception"]["values"][0]["type"] == "WorkerLost"
    assert (event["tags"]["task"], event["transaction"]) == ("poisoned", "poisoned")
    assert event["contexts"]["offpath"]["jobs"] == [poisoned]
    assert event["fingerprint"] == ["offpath.worker_lost", "poisoned"]
    assert "hidden" not in str(event)
