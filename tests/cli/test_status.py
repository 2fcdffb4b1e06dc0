"""``offpath status``: what waits and why, in 80 columns, and as the JSON of the dashboard."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import offpath
from offpath.cli import status
from offpath.model.lease import WorkerInfo
from tests.cli.conftest import Run


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path}/work.db"
    asyncio.run(_filled(made))
    return made


async def _filled(url: str) -> None:
    app = offpath.App(url)

    @app.task(queue="mail", retry=1)
    def send(n: int) -> None:
        raise ValueError(n)

    async with app:
        await app.enqueue([send.job(n) for n in range(3)])
        await app.schedules.create("nightly", send.job(1), cron="0 3 * * *", zone="UTC")


def test_it_says_what_stands_still_and_why(run: Run, url: str) -> None:
    done = run("status", "--url", url)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert [line for line in lines if line.startswith("unhealthy")] == [
        "unhealthy: no worker is live"
    ]
    assert next(line.split() for line in lines if line.startswith("mail"))[:3] == [
        "mail",
        "on",
        "3",
    ]
    assert any(line.split()[:2] == ["nightly", "send"] for line in lines if line)
    assert max(map(len, lines)) <= 80


def test_what_may_be_more_than_was_counted_is_told_so(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert " 3+" not in run("status", "--url", url).output
    monkeypatch.setattr(status, "MOST_COUNTED", 3)
    told = run("status", "--url", url).output
    assert "3+, the oldest" in told
    assert next(line.split() for line in told.splitlines() if line.startswith("mail"))[2] == "3+"


def test_a_worker_that_left_is_not_missing(run: Run, url: str) -> None:
    asyncio.run(_come_and_go(url))
    assert "0 live\n" in run("status", "--url", url).output


async def _come_and_go(url: str) -> None:
    app = offpath.App(url, auto_start=False)
    async with app, app.worker(queues=("other",)):
        pass


def test_programs_read_the_overview_of_the_dashboard(run: Run, url: str) -> None:
    told = json.loads(run("status", "--json", "--url", url).stdout)
    assert (told["due"], told["live_workers"]) == (3, 0)
    assert told["problems"] == ["no live worker serves the queue mail"]


def test_it_is_shown_again_until_it_is_interrupted(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(status, "rest", rest)
    done = run("status", "--watch", "2", "--json", "--url", url)
    assert rests == [2.0, 2.0]
    assert len([line for line in done.output.splitlines() if line.startswith("{")]) == 2


@pytest.mark.parametrize("command", ["status", "health"])
def test_status_and_health_give_one_verdict(run: Run, url: str, command: str) -> None:
    asyncio.run(_joined(url))
    done = run(command, "--url", url)
    lines = done.output.splitlines()
    assert done.exit_code == 0
    assert "healthy" in lines
    assert "warning: no live worker serves the queue mail" in lines
    assert not [line for line in lines if line.startswith("unhealthy")]


async def _joined(url: str) -> None:
    """A worker of another queue is live."""
    async with offpath.App(url) as app:
        info = WorkerInfo(
            id="w1", host="a", pid=1, version="1", concurrency=1, tasks=("send",), queues=("other",)
        )
        await app.store().register(info, lease_seconds=600)
