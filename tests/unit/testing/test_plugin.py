"""The pytest plugin: fixtures for those who want them, and nothing at all for the others."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
USERS = """
import pytest
from offpath import App
from offpath.testing import assert_enqueued

app = App("postgresql://nobody@127.0.0.1:1/none")

@app.task
async def work(n: int) -> int:
    return n

async def test_async(offpath_memory, offpath_drain, offpath_clock):
    offpath_memory(app)
    await work.options(delay=60).enqueue(1)
    assert (await offpath_drain(app)).total == 0
    offpath_clock.advance(60)
    assert (await offpath_drain(app)).succeeded == 1
    await assert_enqueued(app, work.job(1), count=1)

def test_blocking(offpath_memory, offpath_drain):
    offpath_memory(app)
    handle = app.blocking.enqueue(work.job(2))
    app.blocking.run(lambda: offpath_drain(app))
    assert handle.result() == 2

def test_all_is_put_back():
    assert "postgresql" in repr(app)
"""


MARKED = """
import psycopg, pytest
from offpath import App
from offpath.testing import NeverIdle

URL = {url!r}
app = App("postgresql://nobody@127.0.0.1:1/none")

@app.task
def work(n: int) -> int:
    return n

def schemas():
    with psycopg.connect(URL) as connection:
        text = "select nspname from pg_namespace where nspname like 'offpath%'"
        return [name for (name,) in connection.execute(text)]

@pytest.mark.offpath(store="postgres", url=URL)
async def test_in_a_schema(offpath_store, offpath_drain, offpath_clock):
    swapped = offpath_store(app)
    handle = await work.options(delay=60).enqueue(1)
    assert schemas() == [swapped.schema]
    assert (await offpath_drain(app)).total == 0
    offpath_clock.advance(60)
    assert (await offpath_drain(app, here=True)).succeeded == 1
    assert await handle.result() == 1
    await app.close()

@pytest.mark.offpath(store="postgres", url=URL)
def test_blocking(offpath_store):
    offpath_store(app)
    assert app.blocking.jobs.count() == 0
    app.blocking.enqueue(work.job(2))
    assert app.blocking.jobs.count() == 1

def test_in_memory(offpath_store):
    assert schemas() == [], "each was dropped"
    offpath_store(app)
    app.blocking.enqueue(work.job(2))

@pytest.mark.offpath(store="postgres")
def test_without_a_server(offpath_store): ...

@pytest.mark.offpath("redis")
def test_mistaken(offpath_store): ...
"""


def run(
    *arguments: str, folder: Path, without: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in without:
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_fixtures_work(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS, "utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n", "utf-8"
    )
    options = ("-p", "pytest_asyncio.plugin", "-p", "pytest_offpath", "-W", "error", "-q")
    done = run("-m", "pytest", *options, folder=tmp_path)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_a_marker_makes_a_schema_for_the_test_and_drops_it(
    tmp_path: Path, postgres_url: str
) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED.format(url=postgres_url), "utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n", "utf-8"
    )
    options = ("-p", "pytest_asyncio.plugin", "-p", "pytest_offpath", "-W", "error", "-q", "-rs")
    plain = ("-m", "pytest", *options, "--strict-markers")
    done = run(*plain, folder=tmp_path, without=("OFFPATH_TEST_POSTGRES", "CI"))
    said = done.stdout + done.stderr
    assert "3 passed, 1 skipped, 1 error" in said, said
    assert "names no Postgres for this test" in said
    assert 'write @pytest.mark.offpath(store="memory")' in said


def test_loading_it_imports_nothing(tmp_path: Path) -> None:
    look = (
        "import sys, pytest_offpath; print([n for n in sys.modules if n.split('.')[0] in {names}])"
    )
    names = "{'offpath', 'msgspec', 'sqlite3', 'psycopg', 'asyncpg', 'click', 'rich'}"
    done = run("-c", look.replace("{names}", names), folder=tmp_path)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_package_announces_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {"offpath": "pytest_offpath"}
