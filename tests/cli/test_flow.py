"""``offpath queues`` and ``offpath limits``: looked at, paused and resumed from a shell."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offpath import App, Limit, Rate
from tests.cli.conftest import Run


class Shell:
    """Runs the commands on one store, and reads their JSON."""

    def __init__(self, run: Run, url: str) -> None:
        self._run = run
        self.url = url

    def __call__(self, *args: str, code: int = 0) -> dict[str, Any]:
        done = self._run(*args, "--url", self.url, "--json")
        assert done.exit_code == code, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def text(self, *args: str, code: int = 0) -> str:
        done = self._run(*args, "--url", self.url)
        assert done.exit_code == code, done.output
        return done.output


@pytest.fixture
def shell(run: Run, tmp_path: Path) -> Shell:
    url = f"sqlite:///{tmp_path}/work.db"
    asyncio.run(_filled(url))
    return Shell(run, url)


async def _filled(url: str) -> None:
    app = App(url)

    @app.task(queue="mail", limit=Limit(key="smtp", max_running=2, rate=Rate(10, per=60)))
    def send(n: int) -> None: ...

    @app.task
    def plain() -> None: ...

    async with app:
        await app.enqueue([send.job(n) for n in range(5)])
        await plain.enqueue()


def test_queues_are_listed_with_what_waits(shell: Shell) -> None:
    found = {one["name"]: one for one in shell("queues", "list")["items"]}
    assert set(found) == {"default", "mail"}
    assert (found["default"]["ready"], found["mail"]["blocked"]) == (1, 5)
    assert (found["default"]["held"], found["mail"]["held"]) == (0, 5)
    assert {one["state"] for one in found.values()} == {"on"}
    assert "mail" in shell.text("queues", "list")


def test_a_queue_is_paused_and_resumed(shell: Shell) -> None:
    assert shell("queues", "pause", "mail")["until"] is None
    found = {one["name"]: one for one in shell("queues", "list")["items"]}
    assert (found["mail"]["paused"], found["mail"]["state"]) == (True, "paused")
    assert shell("queues", "resume", "mail")["changed"] is True
    assert shell("queues", "resume", "mail")["changed"] is False
    assert shell.text("queues", "resume", "mail") == "mail was not paused\n"


def test_a_queue_is_paused_until_a_time(shell: Shell) -> None:
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    shell("queues", "pause", "mail", "--until", later.isoformat())
    (one,) = (one for one in shell("queues", "list")["items"] if one["name"] == "mail")
    assert datetime.fromisoformat(one["paused_until"]) == later
    assert one["state"].startswith("paused until ")


def test_limits_are_listed_with_what_is_held(shell: Shell) -> None:
    (one,) = shell("limits", "list")["items"]
    assert (one["key"], one["max_running"], one["state"]) == ("smtp", 2, "on")
    assert one["held"] + one["admitted"] == 5
    assert (one["rate"]["count"], one["rate"]["per"]) == (10, 60.0)
    text = shell.text("limits", "list")
    assert "smtp" in text
    assert "10 per 60 s, token_bucket" in text


def test_a_key_is_paused_and_resumed(shell: Shell) -> None:
    assert shell("limits", "pause", "smtp")["until"] is None
    (one,) = shell("limits", "list")["items"]
    assert (one["paused"], one["state"]) == (True, "paused")
    assert shell("limits", "resume", "smtp")["changed"] is True
    assert shell.text("limits", "resume", "smtp") == "smtp was not paused\n"


def test_a_key_is_paused_for_some_seconds(shell: Shell) -> None:
    assert shell("limits", "pause", "smtp", "--for", "90")["until"] is not None
    (one,) = shell("limits", "list")["items"]
    assert one["state"].startswith("closed until ")
    assert "smtp is paused until 20" in shell.text("limits", "pause", "smtp", "--for", "90")


def test_keys_come_in_pages(shell: Shell) -> None:
    first = shell("limits", "list", "--limit", "1")
    assert first["next"] == "smtp"
    rest = shell("limits", "list", "--limit", "1", "--after", "smtp")
    assert rest == {"ok": True, "items": [], "next": None}


@pytest.mark.parametrize(
    "args",
    [
        ("limits", "pause", "smtp", "--until", "tomorrow"),
        ("limits", "pause", "smtp", "--until", "2026-01-01T00:00"),
        ("limits", "pause", "smtp", "--until", "2001-01-01T00:00Z"),
        ("limits", "pause", "smtp", "--until", "2126-01-01T00:00Z", "--for", "5"),
        ("limits", "pause", "smtp", "--for", "-5"),
        ("limits", "pause", ""),
        ("queues", "pause", "a\tb"),
        ("queues", "pause", "mail", "--until", "soon"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(shell: Shell, args: tuple[str, ...]) -> None:
    error = shell(*args, code=2)["error"]
    assert error["code"] == "invalid_argument"


def test_a_terminal_is_not_written_to_by_names(shell: Shell, run: Run) -> None:
    assert "\x1b" not in shell.text("queues", "resume", "a\x1b[31m", code=2)
