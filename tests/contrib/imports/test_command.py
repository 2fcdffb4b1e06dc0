"""``offpath import``: what it prints, its exit codes, and what it refuses."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner

import offpath
from offpath.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHOP = """
import celery
import offpath

app = offpath.App()
old = celery.Celery("shop", set_as_current=False)
old.conf.beat_schedule = {"sweep": {"task": "clean", "schedule": 60}}


@app.task
def clean() -> None: ...
"""
TABLE = """
create table pgqueuer (
    id bigserial primary key, priority int, entrypoint text, dedupe_key text, payload bytea,
    headers jsonb, execute_after timestamptz default now(), status text default 'queued'
);
create table pgqueuer_log (job_id bigint, status text, priority int, entrypoint text);
insert into pgqueuer (priority, entrypoint) values (0, 'clean'), (0, 'gone'), (0, 'tidy');
insert into pgqueuer (priority, entrypoint, status) values (0, 'clean', 'picked');
"""
"""As much of PgQueuer's tables as is read; ``test_pgqueuer.py`` has the real ones."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Runs one command in a folder that has the shop; its exit code and what it said."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("OFFPATH_URL", "DATABASE_URL", "OFFPATH_APP"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)

    def go(*arguments: str) -> tuple[int, str]:
        monkeypatch.delitem(sys.modules, "shop", raising=False)
        result = CliRunner().invoke(cli, ["import", *arguments])
        return result.exit_code, result.output

    return go


def test_it_tells_what_moved_what_stays_and_what_runs(
    run: Callable[..., tuple[int, str]], server: str
) -> None:
    with psycopg.connect(server) as connection:
        connection.execute(TABLE)
    asked = ("pgqueuer", "--app", "shop:app", "--url", server, "--task", "tidy=clean")
    code, told = run(*asked, "--dry-run")
    assert code == 3
    assert "would move" in told
    code, told = run(*asked, "--json")
    found = json.loads(told)
    assert (code, found["moved"], found["running"]) == (3, {"clean": 2}, 1)
    assert [one["name"] for one in found["left"]] == ["gone"]
    code, told = run(*asked)
    assert "nothing to move from pgqueuer" in told
    assert "1 run there" in told


def test_schedules_of_an_app_of_celery_are_made(
    run: Callable[..., tuple[int, str]], url: str
) -> None:
    asked = ("celery-beat", "--app", "shop:app", "--url", url, "--from", "shop:old")
    assert run(*asked)[0] == 0
    code, told = run(*asked, "--json")  # again: nothing changes
    assert (code, json.loads(told)["moved"]) == (0, {"sweep": 1})


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("procrastinate", "--app", "shop:app"), "in Postgres"),
        (("django-tasks", "--app", "shop:app"), "there is no table"),
        (("django-tasks", "--app", "shop:app", "--schema", "old"), "SQLite has no schemas"),
        (("celery-beat", "--app", "shop:app", "--from", "shop:none"), "no attribute"),
        (("celery-beat", "--app", "shop:app"), "there is no table"),
        (("django-tasks",), "which app"),
        (("django-tasks", "--app", "shop:app", "--task", "a"), "OLD=NEW"),
    ],
)
def test_what_cannot_be_is_one_line(
    run: Callable[..., tuple[int, str]], tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    code, told = run(*arguments, "--url", f"sqlite:///{tmp_path / 'work.db'}")
    assert code in {1, 2}
    assert why in told
    assert len(told.splitlines()) == 1


async def test_a_store_of_another_kind_is_refused() -> None:
    from offpath.contrib.imports import open_tables

    app: Any = offpath.App("memory://", auto_start=False)
    with pytest.raises(offpath.InvalidArgument, match="Postgres or SQLite"), open_tables(app):
        pass
