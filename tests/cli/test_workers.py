"""``offpath workers``: listed alone, and asked by the beginning of an id."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

import offpath
from offpath.cli.health import member_table
from offpath.health.fleet import member
from offpath.model.health import Condition, LoopReport, WorkerReport
from offpath.model.lease import WorkerAsk, WorkerInfo, WorkerRecord
from tests.cli.conftest import Run, document

WORKER = "0198c0de-aaaa-7000-8000-000000000009"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with one worker, which nothing runs."""
    place = f"sqlite:///{tmp_path}/work.db"
    asyncio.run(_registered(place))
    return place


async def _registered(url: str) -> None:
    info = WorkerInfo(id=WORKER, host="web-1", pid=7, version="1", concurrency=5, tasks=("mail",))
    async with offpath.App(url, auto_start=False) as app:
        await app.store().register(info, lease_seconds=3_600)


async def _asked(url: str) -> list[WorkerAsk]:
    async with offpath.App(url, auto_start=False) as app:
        desk = await app.store().worker_desk(WORKER)
        return [] if desk is None else list(desk.asked)


@pytest.mark.parametrize(
    "command",
    [
        ("enqueue",),
        ("schedules", "create", "nightly", "--every", "60", "--task"),
    ],
    ids=["enqueue", "schedules_create"],
)
def test_a_task_that_nobody_knows_is_warned_of(
    run: Run, url: str, command: tuple[str, ...]
) -> None:
    def told(task: str, *more: str) -> str:
        done = run(*command, task, "--url", url, *more)
        assert done.exit_code == 0, done.output
        return done.stderr

    warning = "warning: no job of a task 'mial' is stored, and no worker knows it"
    assert told("mial") == f"{warning}; did you mean 'mail'?\n"
    if command == ("enqueue",):
        assert told("mial") == "", "a job of it is stored by now"
        assert told("mail") == ""
        assert "known: mail" in document(run("enqueue", "x", "--url", url, "--json"))["warning"]


def test_without_workers_a_task_without_jobs_is_warned_of(run: Run, migrated: str) -> None:
    told = run("enqueue", "add", "--url", migrated)
    assert (told.exit_code, told.stdout.count("\n")) == (0, 1)
    assert "is 'add' spelled right? no job of such a task is stored, and no worker" in told.stderr
    assert "warning" not in run("enqueue", "add", "--url", migrated).stderr


def test_the_name_alone_lists_them(run: Run, url: str) -> None:
    alone = run("workers", "--url", url, "--json")
    named = run("workers", "list", "--url", url, "--json")
    assert alone.exit_code == named.exit_code == 0
    (one,) = json.loads(alone.output)["items"]
    assert one["info"]["id"] == WORKER
    assert json.loads(named.output)["items"][0]["info"] == one["info"]


def test_a_worker_that_is_gone_is_not_called_well() -> None:
    report = WorkerReport(
        loops=(LoopReport(name="lease", condition=Condition.HEALTHY, state="resting"),)
    )
    at = datetime(2026, 11, 30, tzinfo=UTC)
    info = WorkerInfo(id=WORKER, host="web-1", pid=7, version="1", concurrency=5, tasks=("mail",))
    record = WorkerRecord(
        info=info, started_at=at, seen_at=at, expires_at=at, late=False, running=0
    )

    def loops(one: WorkerRecord) -> str:
        return str(member_table([replace(member(one), report=report)]).rows[0][3])

    assert loops(record) == "1 well"
    assert loops(replace(record, gone_at=at)) == "-"


@pytest.mark.parametrize("request_", ["quiet", "resume", "stop"])
def test_a_worker_is_asked_by_the_beginning_of_its_id(run: Run, url: str, request_: str) -> None:
    done = run("workers", request_, "0198c0de", "--url", url, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert (told["id"], told["request"]) == (WORKER, request_)
    assert [(one.id, one.request.value) for one in asyncio.run(_asked(url))] == [
        (told["action"], request_)
    ]


def test_whom_there_is_not_is_said(run: Run, url: str) -> None:
    gone = run("workers", "stop", "ffffffff", "--url", url)
    assert (gone.exit_code, "begins with" in gone.output) == (3, True)
    whole = run("workers", "stop", "ffffffff-0000-7000-8000-000000000000", "--url", url)
    assert (whole.exit_code, "no live worker" in whole.output) == (3, True)


def test_a_dump_that_does_not_come_is_waited_for_no_longer_than_asked(run: Run, url: str) -> None:
    done = run("workers", "dump", "0198c0de", "--timeout", "0", "--url", url)
    assert done.exit_code == 1
    assert "has not answered within 0 s" in done.output
