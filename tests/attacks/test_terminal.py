"""Text of others on an operator's terminal and in the log: shown, never obeyed, and on one line.

T2-31: escape sequences, 8-bit controls, line breaks and direction marks, as the text of errors, as
arguments, and as whatever is typed wrongly, through every command.
"""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offpath import App, Limit
from offpath.cli import logs
from offpath.cli.main import cli
from tests.architecture.commands import every

HOSTILE = "\x1b[31m\x1b]0;mine\x07\x9b2J\r\nERROR forged\u202e\u2028\u2066end"
FORGED = "ERROR forged"


def harmless(text: str) -> bool:
    """True if a terminal shows it as it is, and no line of it begins as the text wanted."""
    lines = text.split("\n")
    return all(line.isprintable() and not line.startswith(FORGED) for line in lines)


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """A store that holds hostile text wherever a caller may put text."""
    place = f"sqlite:///{tmp_path / 'work.db'}"
    app = App(place)

    @app.task(retry=1, limit=Limit(key="a", max_running=1))
    async def fail(text: str) -> None:
        raise ValueError(text)

    @app.outbox("default")
    async def refuse(message: object) -> None:
        raise ValueError(HOSTILE)

    async with app:
        await fail.enqueue(HOSTILE)
        await app.publish("a.topic", {"text": HOSTILE})
        await app.webhooks.add("shop", "https://shop.example/hooks")
        await app.webhooks.pause("shop", HOSTILE)
        async with app.worker() as worker:
            await worker.run_until_idle()
    return place


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


LISTINGS = [
    ("jobs", "list"),
    ("dead", "list"),
    ("groups", "list"),
    ("outbox", "list"),
    ("inbox", "list"),
    ("endpoints", "list"),
    ("endpoints", "show", "shop"),
    ("queues", "list"),
    ("limits", "list"),
    ("schedules", "list"),
    ("router", "status"),
    ("workers",),
    ("doctor",),
    ("health",),
]


@pytest.mark.parametrize("extra", [(), ("--json",)], ids=["text", "json"])
def test_what_is_stored_does_not_steer_the_terminal(url: str, extra: tuple[str, ...]) -> None:
    job = json.loads(run("jobs", "list", "--json", "--url", url).output)["items"][0]["id"]
    message = json.loads(run("outbox", "list", "--json", "--url", url).output)["items"][0]["id"]
    shown = [("jobs", "show", job), ("outbox", "show", message)]
    told = {words: run(*words, "--url", url, *extra) for words in (*LISTINGS, *shown)}
    assert [words for words, result in told.items() if not harmless(result.output)] == []
    texts = [told[words].output for words in shown]
    assert [text for text in texts if "u001b" not in text and "x1b" not in text] == []


@pytest.mark.parametrize("extra", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("name", [name for name, _ in every()])
def test_what_is_typed_wrongly_is_repeated_harmlessly(name: str, extra: tuple[str, ...]) -> None:
    words = name.split()
    for wrong in ((HOSTILE,), (f"--{HOSTILE}",), ("--url", f"sqlite:///{HOSTILE}/x.db", HOSTILE)):
        result = run(*words, *wrong, *extra)
        assert result.exit_code != 0 or wrong == (HOSTILE,)
        assert harmless(result.output), (name, result.output)


def test_on_a_real_terminal_nothing_but_text_arrives(url: str) -> None:
    """Through a pseudo-terminal: also what only a terminal is sent."""
    leader, follower = pty.openpty()
    job = json.loads(run("jobs", "list", "--json", "--url", url).output)["items"][0]["id"]
    seen = b""
    for words in (("jobs", "show", job), ("jobs", "list"), ("jobs", "show", HOSTILE)):
        with subprocess.Popen(
            [sys.executable, "-m", "offpath", *words, "--url", url],
            stdin=subprocess.DEVNULL,
            stdout=follower,
            stderr=follower,
            env={**os.environ, "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "80"},
        ) as process:
            process.wait(60)
        seen += os.read(leader, 65536)
    os.close(follower)
    os.close(leader)
    assert b"ValueError" in seen
    assert harmless(seen.decode().replace("\r\n", "\n"))


@pytest.mark.parametrize("formatter", [logs._TextLines(), logs._JsonLines()], ids=["text", "json"])
def test_a_record_stays_one_record(formatter: logging.Formatter) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        error = sys.exc_info()
    record = logging.LogRecord("offpath.jobs", logging.ERROR, "", 0, "%s", (HOSTILE,), error)
    record.tenant = HOSTILE
    text = formatter.format(record)
    first, *rest = text.split("\n")
    assert harmless(text)
    assert FORGED in first
    assert [line for line in rest if not line.startswith("  ")] == []
