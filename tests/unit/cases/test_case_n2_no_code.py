"""N2: who can write to the store cannot run code of his own in a worker."""

from __future__ import annotations

import ast
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from offpath import App
from tests.architecture import sources

_LOADERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
_RUNNERS = {"eval", "exec", "compile", "__import__"}


def _uses(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {one.name.partition(".")[0] for one in names} & _LOADERS
            case ast.ImportFrom(module=str(module)):
                found |= {module.partition(".")[0]} & _LOADERS
            case ast.Call(func=ast.Name(id=name)):
                found |= {name} & _RUNNERS
    return found


def test_nothing_that_is_read_can_become_code() -> None:
    users = {str(one.path): uses for one in sources.package() if (uses := _uses(one.tree))}
    assert users == {}


def test_the_check_sees_a_loader() -> None:
    assert _uses(ast.parse("import pickle as p\nfrom yaml import load\neval('1')")) == {
        "pickle",
        "yaml",
        "eval",
    }


@pytest.mark.parametrize("body", ["cos\nsystem\n(S'true'\ntR.", '{"__reduce__":["os"]}', "["])
async def test_a_body_that_is_no_input_is_dead_and_a_name_is_not_imported(
    body: str, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.db"
    app = App(f"sqlite:///{path}", auto_start=False)
    runs: list[str] = []

    @app.task
    async def work(text: str = "") -> None:
        runs.append(text)

    async with app:
        bad, good = work.job("bad"), work.job("good")
        stranger = app.by_name("os.system", registered=False).job(command="true")
        await app.enqueue([bad, good, stranger])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("update offpath_job set input = ? where id = ?", (body, bad.id))
        await app.worker().run_until_idle()
        records = {one.id: one for one in (await app.jobs.find()).items}
        (waiting,) = [one for one in await app.backlog() if one.task == "os.system"]
    assert (records[bad.id].state, records[bad.id].reason) == ("dead", "bad_input")
    assert (records[good.id].state, runs) == ("succeeded", ["good"])
    assert (records[stranger.id].state, waiting.task) == ("queued", "os.system")
