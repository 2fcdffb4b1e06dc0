"""``offpath schedules``: made, looked at and operated from a shell, without a deploy."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from offpath import App
from offpath.cli.apps import load_shared_app
from tests.cli.conftest import Run

CODE = """

@app.next_time
def new_year(after):
    from datetime import UTC, datetime

    return datetime(after.year + 1, 1, 1, tzinfo=UTC)
"""


class Shell:
    """Runs the commands on one store, and reads their JSON."""

    def __init__(self, run: Run, url: str) -> None:
        self._run = run
        self.url = url

    def __call__(self, *args: str, code: int = 0) -> dict[str, Any]:
        done = self._run("schedules", *args, "--url", self.url, "--json")
        assert done.exit_code == code, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def text(self, *args: str, code: int = 0) -> str:
        done = self._run("schedules", *args, "--url", self.url)
        assert done.exit_code == code, done.output
        return done.output

    def create(self, name: str = "nightly", *args: str) -> dict[str, Any]:
        when = () if "--every" in args else ("--cron", "0 3 * * *", "--zone", "Europe/Berlin")
        return self("create", name, *when, "--task", "add", "--input", '{"a": 1, "b": 2}', *args)


@pytest.fixture
def shell(run: Run, migrated: str) -> Shell:
    return Shell(run, migrated)


def test_one_is_created_and_shown(shell: Shell) -> None:
    made = shell.create("nightly", "--overlap", "skip", "--missed", "all", "--queue", "slow")
    assert (made["ok"], made["state"], made["origin"], made["version"]) == (True, "on", "api", 1)
    shown = shell("show", "nightly")
    assert shown["timing"] == {
        "kind": "cron",
        "expression": "0 3 * * *",
        "zone": "Europe/Berlin",
    }
    assert (shown["overlap"], shown["missed"], shown["queue"]) == ("skip", "all", "slow")
    assert (shown["input"], shown["history"]) == ({"a": 1, "b": 2}, [])
    assert shown["tags"] == ["schedule:nightly"]
    (listed,) = shell("list")["items"]
    assert listed == {k: value for k, value in shown.items() if k not in {"history", "ok"}}
    text = shell.text("show", "nightly")
    assert "0 3 * * * Europe/Berlin" in text
    assert "no occurrences yet" in text


def test_the_list_is_for_people_too(shell: Shell) -> None:
    assert "there are no schedules" in shell.text("list")
    shell.create("nightly")
    shell.create("often", "--every", "90")
    lines = shell.text("list").splitlines()
    assert lines[0].split() == ["schedule", "when", "task", "state", "next", "last", "by"]
    assert "0 3 * * * Europe/Berlin" in lines[1]
    assert "every 90 s" in lines[2]


def test_the_next_times_are_told_in_utc_and_in_the_zone(shell: Shell) -> None:
    shell.create()
    found = shell("next", "nightly", "--count", "4")
    assert (found["name"], found["zone"], len(found["items"])) == ("nightly", "Europe/Berlin", 4)
    assert found["items"] == sorted(set(found["items"]))
    assert all("T03:00:00+0" in line for line in shell.text("next", "nightly").splitlines()[1:])


def test_it_is_changed_paused_and_resumed(shell: Shell) -> None:
    shell.create()
    changed = shell("change", "nightly", "--cron", "@hourly", "--grace", "5")
    assert (changed["version"], changed["grace"], changed["timing"]["expression"]) == (
        2,
        5.0,
        "@hourly",
    )
    assert changed["input"] == {"a": 1, "b": 2}
    assert shell("pause", "nightly")["state"] == "paused"
    assert shell("pause", "nightly")["next_at"] is None
    assert "nightly paused\n" in shell.text("pause", "nightly")
    resumed = shell("resume", "nightly")
    assert (resumed["state"], resumed["next_at"] is None) == ("on", False)


async def work(url: str) -> None:
    """A worker of the service runs what is due."""
    sys.modules.pop("service", None)
    async with load_shared_app("service:app", url) as app:
        await app.worker().run_until_idle()


def test_a_trigger_makes_a_job_that_a_worker_runs(shell: Shell, run: Run) -> None:
    shell.create()
    job = shell("trigger", "nightly")["job"]
    asyncio.run(work(shell.url))
    shown = json.loads(run("jobs", "show", job, "--url", shell.url, "--json").stdout)
    assert (shown["state"], shown["result"]) == ("succeeded", 3)
    (occurrence,) = shell("history", "nightly")["items"]
    assert (occurrence["outcome"], occurrence["job"]) == ("triggered", job)
    assert job in shell.text("history", "nightly")
    before = shell("history", "nightly", "--before", occurrence["at"])
    assert before == {"ok": True, "items": []}


def test_it_is_deleted_when_that_is_said(shell: Shell) -> None:
    shell.create()
    assert shell("delete", "nightly", code=2)["error"]["code"] == "invalid_argument"
    assert shell("delete", "nightly", "--yes") == {"ok": True, "name": "nightly"}
    assert shell("list") == {"ok": True, "items": []}


def test_the_same_again_is_the_same_and_another_one_fails(shell: Shell) -> None:
    first = shell.create()
    assert shell.create() == first
    refused = shell("create", "nightly", "--every", "60", "--task", "add", code=1)
    assert refused["error"]["code"] == "conflict"


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("--cron", "0 0 30 2 *"), "0 0 30 2"),
        (("--cron", "@daily", "--zone", "Mars/Olympus"), "Mars/Olympus"),
        (("--cron", "@daily", "--every", "60"), "one of"),
        (("--every", "0.5"), "every"),
        (("--every", "60", "--anchor", "noon"), "--anchor"),
        (("--every", "60", "--input", "[1]"), "--input"),
        (("--when", "nobody"), "nobody"),
        ((), "cron="),
    ],
)
def test_what_cannot_be_is_wrong_usage(shell: Shell, args: tuple[str, ...], named: str) -> None:
    refused = shell("create", "x", "--task", "add", *args, code=2)
    assert named in refused["error"]["message"]
    assert shell("list") == {"ok": True, "items": []}


@pytest.mark.parametrize(
    "verb", ["show", "next", "change", "pause", "resume", "trigger", "history", "delete"]
)
def test_an_unknown_name_is_not_found(shell: Shell, verb: str) -> None:
    more = ("--yes",) if verb == "delete" else ()
    assert shell(verb, "nobody", *more, code=3)["error"]["code"] == "schedule_not_found"


def test_job_options_of_a_change_go_with_a_task(shell: Shell) -> None:
    shell.create()
    refused = shell("change", "nightly", "--queue", "slow", code=2)
    assert "--task" in refused["error"]["message"]
    changed = shell("change", "nightly", "--task", "add", "--input", "{}", "--queue", "slow")
    assert (changed["queue"], changed["input"]) == ("slow", {})


def test_with_an_app_functions_are_known_and_arguments_checked(shell: Shell, here: Path) -> None:
    with (here / "service.py").open("a", encoding="utf-8") as file:
        file.write(CODE)
    app = ("--app", "service:app")
    made = shell.create("yearly", "--every", "60", *app)
    assert made["task"] == "add"
    shell("delete", "yearly", "--yes")
    args = ("create", "yearly", "--when", "new_year", "--task", "add", *app)
    assert shell(*args, "--input", '{"a": 1}', code=2)["error"]["code"] == "invalid_input"
    made = shell(*args, "--input", '{"a": 1, "b": 2}')
    assert made["timing"] == {"kind": "function", "function": "new_year"}
    found = shell("next", "yearly", "--count", "2", *app)["items"]
    assert [at[4:] for at in found] == ["-01-01T00:00:00Z"] * 2
    assert "new_year" in shell("next", "yearly", code=2)["error"]["message"]


def test_what_a_shell_makes_is_what_an_app_sees(shell: Shell) -> None:
    shell.create()

    async def look() -> list[str]:
        async with App(shell.url, auto_start=False) as app:
            return [one.schedule.name for one in await app.schedules.list()]

    assert asyncio.run(look()) == ["nightly"]


def test_a_schedule_is_shown_in_words(shell: Shell) -> None:
    shell.create()
    lines = [line.split(maxsplit=2) for line in shell.text("show", "nightly").splitlines()]
    assert ["last", "job", "-"] in lines
    assert ["last", "open", "no"] in lines
    assert [line[1] for line in lines if line[:1] == ["tags"]] == ["schedule:nightly"]


def test_times_in_utc_are_told_once(shell: Shell) -> None:
    shell.create("utc", "--zone", "UTC")
    lines = shell.text("next", "utc").splitlines()
    assert lines[0].split() == ["utc"]
    assert {len(line.split()) for line in lines} == {1}
