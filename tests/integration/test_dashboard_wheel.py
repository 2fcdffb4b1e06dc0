"""The wheel has all that the dashboard shows: templates, assets, runbooks; and shows it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT
from tests.conftest import missing_server

SCRIPT = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
import offpath
from offpath.web import dashboard
from offpath.web.console.renderer import asset
from offpath.web.console.runbooks import runbook

assert offpath.__file__.startswith(sys.argv[1]), offpath.__file__


async def look():
    app = offpath.App(sys.argv[2], migrate=True)
    async with app:
        console = dashboard(app, auth=False)
        paths = "/ /jobs /actions /runbooks/waiting /guides/cancel /assets/console.js"
        for path in paths.split():
            sent = []

            async def receive():
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(message):
                sent.append(message)

            scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
                     "root_path": "", "scheme": "http", "query_string": b"", "server": ("x", 80),
                     "client": ("127.0.0.1", 1), "headers": [(b"host", b"localhost")]}
            await console(scope, receive, send)
            print(path, sent[0]["status"])


asyncio.run(look())
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a wheel of this checkout installs."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = shutil.which("uv")
    if uv is None:
        missing_server("no uv: pip install uv")
    command = [str(uv), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_every_file_of_the_console_is_in_the_wheel(unpacked: Path) -> None:
    console = PACKAGE / "web" / "console"
    ours = {
        str(one.relative_to(console))
        for one in console.rglob("*")
        if one.is_file() and "__pycache__" not in one.parts
    }
    pages = {
        f"{folder}/{one.name}"
        for folder in ("guides", "runbooks")
        for one in (ROOT / "docs" / folder).glob("*.md")
    }
    shipped = unpacked / "offpath" / "web" / "console"
    assert {str(one.relative_to(shipped)) for one in shipped.rglob("*") if one.is_file()} == (
        ours | pages
    )
    assert {"templates/act.html", "static/console.js", "runbooks/jobs.md"} <= ours | pages


def test_pages_are_shown_by_what_the_wheel_installs(unpacked: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, str(unpacked), url],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {line.split()[1] for line in done.stdout.splitlines()} == {"200"}
