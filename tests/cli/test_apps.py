"""The app that is named to a command: an offpath.App, or what a web framework's app carries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from offpath.app import App
from offpath.cli.apps import load_app
from offpath.cli.main import cli
from offpath.errors import ConfigurationError
from tests.cli.conftest import Run, document
from tests.sqlite_files import migrated_url

CARRIERS = {
    "fastapi": "from fastapi import FastAPI\nweb = FastAPI()\nweb.state.offpath = jobs\n",
    "starlette": (
        "from starlette.applications import Starlette\n"
        "web = Starlette()\nweb.state.offpath = jobs\n"
    ),
    "flask": 'from flask import Flask\nweb = Flask("shop")\nweb.extensions["offpath"] = jobs\n',
}
BARE = {
    "FastAPI": "from fastapi import FastAPI\nweb = FastAPI()\n",
    "Flask": 'from flask import Flask\nweb = Flask("shop")\n',
}

OWN = """
import offpath

app = offpath.App({url!r})


@app.task
def add() -> None: ...
"""
"""A service whose code names its store."""

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """``write(text)``: the name of a module with an app of ours and this after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"shop_{tmp_path.name.replace('-', '_')}"

    def written(text: str) -> str:
        made = f"import offpath\njobs = offpath.App('sqlite:///jobs.db')\n{text}"
        (tmp_path / f"{name}.py").write_text(made, "utf-8")
        return name

    yield written
    sys.modules.pop(name, None)


@pytest.mark.parametrize("framework", CARRIERS)
@pytest.mark.parametrize("path", ["web", "create_app()"])
def test_the_app_of_a_framework_stands_for_the_one_that_it_carries(
    framework: str, path: str, write: Write
) -> None:
    name = write(f"{CARRIERS[framework]}\ndef create_app():\n    return web\n")
    found = load_app(f"{name}:{path}")
    assert isinstance(found, App)
    assert found is sys.modules[name].jobs


@pytest.mark.parametrize("framework", BARE)
def test_one_that_carries_none_is_refused_with_what_to_write(framework: str, write: Write) -> None:
    name = write(BARE[framework])
    with pytest.raises(ConfigurationError, match=rf"but a {framework}; .* `state\.offpath`"):
        load_app(f"{name}:web")


def test_an_app_of_ours_is_taken_as_it_is(write: Write) -> None:
    name = write("")
    assert load_app(f"{name}:jobs") is sys.modules[name].jobs


def test_a_module_without_a_backend_of_ours_names_no_app(write: Write) -> None:
    name = write('TASKS = {"default": {"BACKEND": "json.decoder.JSONDecoder"}}\n')
    with pytest.raises(ConfigurationError, match="module:attribute"):
        load_app(name)


@pytest.mark.parametrize(
    "words", [("jobs", "list"), ("doctor",), ("status",), ("queues", "list"), ("config", "show")]
)
def test_the_store_is_that_of_the_app(run: Run, here: Path, words: tuple[str, ...]) -> None:
    """No ``--url`` is needed where the app's code, or what it reads, names the store."""
    url = migrated_url(here / "own.db")
    (here / "service.py").write_text(OWN.format(url=url), "utf-8")
    named = run(*words, "--app", "service:app", "--json")
    assert named.exit_code == 0
    run("enqueue", "add", "--url", url)
    told = run("jobs", "list", "--app", "service:app", "--json")
    assert len(document(told)["items"]) == 1


def test_the_settings_app_names_the_store(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = migrated_url(here / "own.db")
    (here / "service.py").write_text(OWN.format(url=url), "utf-8")
    monkeypatch.setenv("OFFPATH_APP", "service:app")
    assert run("jobs", "list").output == "no jobs match\n"
    other = migrated_url(here / "other.db")
    run("enqueue", "add", "--url", other)
    monkeypatch.setenv("OFFPATH_URL", other)
    assert len(document(run("jobs", "list", "--json"))["items"]) == 1, "a URL counts more"


def test_the_variable_of_every_library_counts_least(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists and changes are in one store, also where a service has another database."""
    url, other = migrated_url(here / "own.db"), migrated_url(here / "other.db")
    (here / "service.py").write_text(OWN.format(url=url), "utf-8")
    monkeypatch.setenv("DATABASE_URL", other)
    told = document(run("config", "show", "--json"))["url"]
    assert (told["value"], told["source"]) == (other, "environment (DATABASE_URL)")
    monkeypatch.setenv("OFFPATH_APP", "service:app")
    run("enqueue", "add")
    assert len(document(run("jobs", "list", "--json"))["items"]) == 1
    assert document(run("config", "show", "--json"))["url"]["value"] == url


def test_the_variable_of_every_library_helps_an_app_without_a_store(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", migrated_url(here / "other.db"))
    monkeypatch.setenv("OFFPATH_APP", "service:app")
    assert run("jobs", "list").output == "no jobs match\n"


@pytest.mark.parametrize(
    "words",
    [
        ("schedules", "create", "often", "--every", "30", "--task", "add"),
        ("enqueue", "add"),
        ("jobs", "signal", "order-7", "paid"),
        ("sweep", "run", "prune"),
        ("router", "status"),
        ("router", "run", "mail"),
    ],
)
def test_two_stores_of_the_settings_are_one_too_many(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """What a list shows and what a command changes are in one store."""
    own, other = migrated_url(here / "own.db"), migrated_url(here / "other.db")
    (here / "service.py").write_text(OWN.format(url=own), "utf-8")
    monkeypatch.setenv("OFFPATH_APP", "service:app")
    monkeypatch.setenv("OFFPATH_URL", other)
    told = run(*words)
    assert told.exit_code == 2
    assert all(one in told.stderr for one in ("which store?", own, f"--url {other}"))
    assert "which store?" not in run(*words, "--app", "service:app").stderr
    monkeypatch.setenv("OFFPATH_URL", own)
    assert "which store?" not in run(*words).stderr


def test_a_schedule_s_task_is_looked_up_in_the_app_of_the_settings(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = migrated_url(here / "own.db")
    (here / "service.py").write_text(OWN.format(url=url), "utf-8")
    monkeypatch.setenv("OFFPATH_APP", "service:app")
    told = run("schedules", "create", "often", "--every", "30", "--task", "nothing")
    assert (told.exit_code, "nothing" in told.stderr) == (3, True)
    assert (
        run(
            "schedules", "create", "often", "--every", "30", "--task", "nothing", "--url", url
        ).exit_code
        == 0
    )


def test_every_command_on_a_store_takes_an_app() -> None:
    """But the demo, which has a store of its own."""
    without = [
        " ".join(path)
        for path, command in commands()
        if (names := {name for one in command.params for name in one.opts})
        if "--url" in names and "--app" not in names
    ]
    assert without == ["demo"]


def commands(
    group: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands with their names."""
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands(command, (*path, name))


def test_a_function_that_makes_an_app_is_told_to_be_called(write: Write) -> None:
    name = write("def create_app():\n    return jobs\n")
    with pytest.raises(ConfigurationError, match=rf"write `{name}:create_app\(\)`"):
        load_app(f"{name}:create_app")
    assert load_app(f"{name}:create_app()") is sys.modules[name].jobs


def test_the_database_that_an_app_names_is_migrated(run: Run, write: Write, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/named.db"
    name = write(f"import offpath\nnamed = offpath.App({url!r})\n")
    told = run("migrate", "--check", "--app", f"{name}:named")
    assert (told.exit_code, "pending" in told.output) == (1, True)
    assert run("migrate", "--app", f"{name}:named").exit_code == 0
    assert run("migrate", "--check", "--app", f"{name}:named").exit_code == 0
    assert run("jobs", "list", "--url", url).output == "no jobs match\n"
