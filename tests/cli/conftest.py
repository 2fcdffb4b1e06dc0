"""Driving the command line: in this process through click's runner, or as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.servers import migrate
from tests.sqlite_files import migrated_url

SERVICE = """
import asyncio, os, signal, sys
from pathlib import Path
import offpath

app = offpath.App()
HERE = Path(__file__).parent


def note(text: str) -> None:
    with (HERE / "notes").open("a") as file:
        file.write(text + "\\n")
    print(text, flush=True)


@app.task
async def add(a: int, b: int) -> int:
    return a + b


@app.task
async def kinds() -> set[complex] | dict[str, bytes]:
    return {"raw": b"abc"}


@app.task(retry=1)
async def fail(password: str = "marker") -> None:
    raise ValueError("\\x1b[31mred password=hunter2")


@app.task
async def fail_behind(ctx: offpath.Context) -> offpath.Plan:
    return ctx.queue(fail.job()).next(add.job(1, 2))


@app.task(retry=2)
async def flaky() -> None:
    raise ValueError("once more")


@app.task
async def nap(seconds: float) -> None:
    note("began")
    await asyncio.sleep(seconds)
    note("ended")


@app.task
async def mode() -> None:
    note(f"dev_mode={sys.flags.dev_mode}")


@app.task
async def crash() -> None:
    if not (HERE / "crashed").exists():
        (HERE / "crashed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    note("survived")


def create() -> offpath.App:
    return app
"""

Run = Callable[..., Result]


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str:
    """The backend that the commands work on."""
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place on each backend where nothing is yet, not even a schema."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path / 'work.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a service in it, which is the working directory."""
    (tmp_path / "service.py").write_text(SERVICE.replace("set[complex] | ", ""), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("OFFPATH_URL", "DATABASE_URL", "OFFPATH_APP"):
        monkeypatch.setenv(name, "")  # commands set one of them: so that it is put back
        monkeypatch.delenv(name)
    for name in ("service", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture
def run(here: Path) -> Run:
    """Runs one command in this process."""
    from offpath.cli.main import cli

    def go(*args: str, stdin: str | None = None) -> Result:
        sys.modules.pop("service", None)
        return CliRunner().invoke(cli, list(args), input=stdin)

    return go


@pytest.fixture
def migrated(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store on each backend, with a schema."""
    if backend == "sqlite":
        return migrated_url(tmp_path / "work.db")
    return str(request.getfixturevalue("database_from_template")("schema", migrate))


class Processes:
    """Starts the real program; nothing of it outlives the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start it; its errors come with its output."""
        return self.python("-m", "offpath", *args)

    def python(self, *args: str) -> subprocess.Popen[str]:
        """Start Python with these arguments."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OFFPATH_")}
        process = subprocess.Popen(
            [sys.executable, *args],
            cwd=self._folder,
            env=environment | {"PYTHONUNBUFFERED": "1"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.started.append(process)
        return process


@pytest.fixture
def processes(here: Path) -> Iterator[Processes]:
    made = Processes(here)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Read its output up to a line with this text; the test's timeout is the limit."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"ended without {text!r}: {''.join(lines)}")


def document(result: Result) -> Any:
    """The JSON document that a command printed."""
    return json.loads(result.stdout)
