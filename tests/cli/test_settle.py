"""``offpath settle``: exit codes, and real processes that crash or run at once."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from offpath.cli import frame

SERVICE = """
import os, signal, sqlite3
from pathlib import Path
import offpath

app = offpath.App()
HERE = Path(__file__).parent
calls = 0


async def records(period):
    for n in range(int((HERE / "eligible").read_text())):
        yield offpath.settlements.rates.PlayerActivity(id=f"r{n}", user=f"u{n}", turnover=1_000)


def book(user, amount, key):
    db = sqlite3.connect(HERE / "ledger.db", timeout=30, isolation_level=None)
    try:
        db.execute("BEGIN IMMEDIATE")
        before = db.execute("SELECT 1 FROM credit WHERE key = ?", (key,)).fetchone()
        if before is None:
            db.execute("INSERT INTO credit VALUES (?, ?, ?)", (key, user, amount))
        db.execute("COMMIT")
    finally:
        db.close()
    if before is None:
        return offpath.settlements.Credited()
    return offpath.settlements.AlreadyCredited()


async def credit(user, amount, key):
    global calls
    calls += 1
    plan = (HERE / "plan").read_text()
    if plan == "crash" and calls == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if f" {user} " in plan or plan == "all":
        raise ConnectionError("no ledger, password=hunter2")
    return book(user, amount, key)


app.settlements.define(
    "rebate",
    records=records,
    calculate=offpath.settlements.rates.Rebate(share=offpath.settlements.rates.Share.parse("1%")),
    credit=credit,
    zone="Europe/Madrid",
    unit="month",
)
"""


class Place:
    """A service with settlement runs whose ledger is an SQLite file, and its commands."""

    def __init__(self, folder: Path, run: Callable[..., Result]) -> None:
        self.folder = folder
        self._run = run
        (folder / "service.py").write_text(SERVICE, "utf-8")
        sqlite3.connect(folder / "ledger.db").execute(
            "CREATE TABLE credit (key TEXT PRIMARY KEY, user TEXT, amount INTEGER)"
        ).connection.close()
        self.plan(eligible=5)

    def plan(self, plan: str = "", *, eligible: int = 5) -> None:
        """Say which users fail, or that the process crashes, and how many are eligible."""
        (self.folder / "plan").write_text(plan, "utf-8")
        (self.folder / "eligible").write_text(str(eligible), "utf-8")

    def settle(self, *options: str, period: str = "2026-11") -> Result:
        return self._run(
            "settle", "run", "rebate", "--period", period, "--app", "service:app", *options
        )

    def command(self, *args: str) -> Result:
        return self._run(*args)

    def start(self) -> subprocess.Popen[str]:
        command = ["settle", "run", "rebate", "--period", "2026-11", "--app", "service:app"]
        return subprocess.Popen(
            [sys.executable, "-m", "offpath", *command, "--json"],
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def booked(self) -> list[tuple[str, int]]:
        db = sqlite3.connect(self.folder / "ledger.db")
        try:
            return db.execute("SELECT user, amount FROM credit ORDER BY user").fetchall()
        finally:
            db.close()


@pytest.fixture
def place(here: Path, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(frame, "configure", lambda *_: None)  # of this process, which is pytest's
    return Place(here, run)


ALL = [(f"u{n}", 10) for n in range(5)]


def told(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def counts(document: dict[str, Any]) -> list[int]:
    return [document[name] for name in ("attempted", "credited", "failed", "skipped")]


def test_a_clean_run_exits_0(place: Place) -> None:
    result = place.settle("--json")
    assert result.exit_code == 0
    document = told(result)
    assert (document["ok"], document["outcome"], counts(document)) == (True, "clean", [5, 5, 0, 0])
    assert document["period"] == "2026-11@Europe/Madrid"
    assert place.booked() == ALL


def test_nothing_eligible_exits_0(place: Place) -> None:
    place.plan(eligible=0)
    result = place.settle()
    assert result.exit_code == 0
    assert "clean (0 attempted, 0 credited, 0 failed, 0 skipped)" in result.stdout


def test_a_degraded_run_exits_3_and_names_the_failed(place: Place) -> None:
    place.plan(" u1 u3 ")
    result = place.settle()
    assert result.exit_code == 3
    assert "degraded (5 attempted, 3 credited, 2 failed, 0 skipped)" in result.stdout
    assert result.stdout.count("ConnectionError") == 2
    assert "hunter2" not in result.output
    place.plan()
    again = place.settle("--json")
    assert (again.exit_code, counts(told(again))) == (0, [5, 2, 0, 3])
    assert place.booked() == ALL


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_failed_run_exits_1(place: Place, form: str) -> None:
    place.plan("all")
    result = place.settle(*(["--json"] if form == "json" else []))
    assert result.exit_code == 1
    assert "settlement_failed" in result.output
    assert "hunter2" not in result.output
    if form == "json":
        document = told(result)
        assert (document["ok"], counts(document)) == (False, [5, 0, 5, 0])
        assert document["error"]["code"] == "settlement_failed"
    assert place.booked() == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("rebat", "--period", "2026-11"), 2, "known: rebate"),
        (("rebate", "--period", "2026-13"), 2, "is not a period"),
        (("rebate", "--period", "2026-11-27"), 2, "by the month"),
        (("rebate",), 2, "--period"),
    ],
)
def test_wrong_usage_is_neither_degraded_nor_failed(
    place: Place, run: Callable[..., Result], arguments: tuple[str, ...], code: int, text: str
) -> None:
    result = run("settle", "run", *arguments, "--app", "service:app")
    assert (result.exit_code, text in result.output) == (code, True)


def test_without_an_app_it_says_what_to_write(place: Place, run: Callable[..., Result]) -> None:
    result = run("settle", "list")
    assert result.exit_code == 2
    assert "--app" in result.output


def test_the_kinds_are_listed(place: Place, run: Callable[..., Result]) -> None:
    result = run("settle", "list", "--app", "service:app", "--json")
    assert told(result)["items"] == [
        {
            "kind": "rebate",
            "zone": "Europe/Madrid",
            "unit": "month",
            "concurrency": 1,
            "timeout": 30.0,
        }
    ]
    assert "Europe/Madrid  month" in run("settle", "list", "--app", "service:app").output


def test_a_process_killed_after_three_credits_is_resumed(place: Place) -> None:
    place.plan("crash")
    process = place.start()
    process.communicate(timeout=30)
    assert process.returncode == -9
    assert len(place.booked()) == 3
    place.plan()
    again = place.settle("--json")
    assert (again.exit_code, counts(told(again))) == (0, [5, 2, 0, 3])
    assert place.booked() == ALL


def test_two_processes_at_once_credit_nothing_twice(place: Place) -> None:
    place.plan(eligible=60)
    processes = [place.start() for _ in range(2)]
    documents = [json.loads(process.communicate(timeout=50)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert [(one["attempted"], one["failed"]) for one in documents] == [(60, 0)] * 2
    assert sum(one["credited"] for one in documents) == 60
    assert sum(one["skipped"] for one in documents) == 60
    assert len(place.booked()) == 60


def test_a_degraded_run_logs_a_warning_of_its_own(place: Place) -> None:
    place.plan(" u1 ")
    process = place.start()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "WARNING offpath.settlement: settlement run rebate for 2026-11@Europe/Madrid" in errors
    assert "outcome=degraded" in errors


def test_a_run_is_noted_with_its_counts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{place.folder}/work.db"
    monkeypatch.setenv("OFFPATH_URL", url)
    place.plan(" u1 u3 ")
    assert place.settle().exit_code == 3
    place.plan("all", eligible=7)
    assert place.settle().exit_code == 1
    listed = json.loads(place.command("audit", "list", "--json", "--url", url).stdout)["items"]
    target = {"kind": "rebate", "period": "2026-11"}
    assert [(one["verb"], one["target"]) for one in listed] == [("settlement.run", target)] * 2
    second, first = ((one["state"], one["changed"], one["reasons"]) for one in listed)
    assert first == ("done", 3, {"failed": 2})
    assert second == ("failed", 0, {"failed": 7})
