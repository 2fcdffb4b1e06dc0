"""Edge case B.6.25: a job's status on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offpath import App
from offpath.cli.main import cli


def _show(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["jobs", "show", *arguments])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'work.db'}"


@pytest.fixture
def job_id(url: str) -> str:
    async def make() -> str:
        async with App(url) as app:
            return (await app.by_name("echo", registered=False).enqueue(text="hello")).id

    return asyncio.run(make())


def test_b6_25_the_command_line_shows_a_job(url: str, job_id: str) -> None:
    shown = _show(job_id, "--url", url, "--json")
    document = json.loads(shown.stdout)
    assert (shown.exit_code, document["id"], document["state"]) == (0, job_id, "queued")
    plain = _show(job_id, "--url", url)
    assert plain.exit_code == 0
    assert all(word in plain.stdout for word in (job_id, "queued", "attempt"))


def test_b6_25_an_unknown_job_has_its_exit_code(url: str, job_id: str) -> None:
    unknown = job_id[:-4] + "0000"
    shown = _show(unknown, "--url", url, "--json")
    assert shown.exit_code == 3
    assert json.loads(shown.stdout or shown.stderr)["error"]["code"] == "job_not_found"


def test_b6_25_an_unknown_store_is_refused(job_id: str) -> None:
    shown = _show(job_id, "--url", "mysql://host/database")
    assert shown.exit_code == 2
    assert "postgresql://" in shown.stderr
