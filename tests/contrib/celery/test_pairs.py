"""The ten pairs of the page: Celery's code under Celery with Redis, ours under offpath.

The database of ours is stopped in the middle, as a crash does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

import offpath
from tests.architecture.page import ROOT, blocks
from tests.contrib.processes import Processes, write_files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import PostgresCluster

PAIRS: Final[dict[str, Any]] = {
    "first": 5,
    "second": [1, "acme"],
    "third": "after 2 retries",
    "fourth": ["a", "no name"],
    "fifth": ["mail to ann", True],
    "sixth": "small-a.png is out",
    "seventh": 3,
    "eighth": [True, False],
    "ninth": "called off",
    "tenth": ["receipt 1", 1],
}
BEFORE: Final = """
import importlib, json, os
print(json.dumps({one: importlib.import_module(one).main() for one in %r}), flush=True)
os._exit(0)
"""
AFTER: Final = """
import asyncio, importlib, json
from shop import app
async def main():
    async with app:
        return {one: await importlib.import_module(one).main() for one in %r}
print(json.dumps(asyncio.run(main())))
"""


def called(code: str, folder: Path, **variables: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, **variables},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_before(redis: str, tmp_path: Path) -> None:
    write_files("celery.md", tmp_path)
    run = Processes(tmp_path / "before", {"REDIS_URL": redis})
    try:
        run.start(
            "-m", "celery", "-A", "shop", "worker", "-I", ",".join(PAIRS), "-c", "2",
            "-Q", "celery,mail",
        )  # fmt: skip
        found = called(BEFORE % list(PAIRS), tmp_path / "before", REDIS_URL=redis)
        assert found == PAIRS, run.output()
    finally:
        run.destroy()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_after(tmp_path: Path) -> None:
    write_files("celery.md", tmp_path)
    folder, url = tmp_path / "after", f"sqlite:///{tmp_path / 'after' / 'jobs.db'}"
    worked(folder, url, list(PAIRS), PAIRS)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_after_a_crash_of_the_database(own_postgres: PostgresCluster, tmp_path: Path) -> None:
    write_files("celery.md", tmp_path)
    folder, url = tmp_path / "after", own_postgres.url
    run = worker(folder, url, ["first", "second"])
    try:
        assert called(AFTER % ["first"], folder, OFFPATH_URL=url) == {"first": 5}
        own_postgres.restart("immediate")
        left = {"second": PAIRS["second"]}
        assert called(AFTER % ["second"], folder, OFFPATH_URL=url) == left
        async with offpath.App(url, auto_start=False) as app:
            assert await app.jobs.count(state="succeeded") == 2
    finally:
        run.destroy()


def worker(folder: Path, url: str, names: list[str]) -> Processes:
    run = Processes(folder, {"OFFPATH_URL": url, "OFFPATH_POLL_INTERVAL": "0.2"})
    imports = "\n".join(f"import {one}" for one in names)
    (folder / "everything.py").write_text(f"{imports}\nfrom shop import app\n")
    run.run("-m", "offpath", "migrate", "--url", url)
    run.start("-m", "offpath", "worker", "everything:app")
    return run


def worked(folder: Path, url: str, names: list[str], expected: dict[str, Any]) -> None:
    run = worker(folder, url, names)
    try:
        assert called(AFTER % names, folder, OFFPATH_URL=url) == expected, run.output()
    finally:
        run.destroy()


def test_each_pair_stands_on_the_page() -> None:
    page = (ROOT / "docs" / "integrations" / "celery.md").read_text("utf-8")
    files = {block.value for block in blocks(page) if block.mark == "file"}
    both = {f"{side}/{name}.py" for side in ("before", "after") for name in (*PAIRS, "shop")}
    assert files >= both
