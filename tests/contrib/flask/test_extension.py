"""Flask's extension: contexts of handlers, settings, work for after the answer, commands."""

from __future__ import annotations

import gc
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, abort, current_app, g
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import text

import offpath
from offpath.contrib.flask import Offpath
from offpath.errors import ConfigurationError, InvalidArgument
from offpath.testing import drain
from tests.contrib.urls import blocking_url
from tests.sqlite_files import migrated_url


def flask_app(url: str, jobs: Offpath, name: str = "shop", **config: Any) -> Flask:
    app = Flask(name)
    app.config.update(OFFPATH_URL=url, SQLALCHEMY_DATABASE_URI=blocking_url(url), **config)
    jobs.init_app(app)
    return app


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return migrated_url(tmp_path / "shop.db")


async def test_each_attempt_has_an_application_context_of_its_own_that_is_popped(
    file_url: str,
) -> None:
    jobs, seen, popped = Offpath(), [], []

    @jobs.task
    def in_thread(number: int) -> None:
        assert not hasattr(g, "number")
        g.number = number
        seen.append(current_app.name)

    @jobs.task(retry=1)
    async def in_task() -> None:
        assert not hasattr(g, "number")
        seen.append(current_app.name)
        raise ValueError

    app = flask_app(file_url, jobs)

    @app.teardown_appcontext
    def gone(error: BaseException | None) -> None:
        popped.append(type(error).__name__)

    async with jobs:
        for number in range(3):
            await in_thread.enqueue(number)
        await in_task.enqueue()
        await drain(jobs)
    assert seen == ["shop"] * 4
    assert sorted(popped) == ["NoneType"] * 3 + ["ValueError"]


async def test_the_application_lives_as_long_as_its_jobs(file_url: str) -> None:
    """A worker keeps the jobs alone: whoever made the application has let go of it."""
    jobs, seen = Offpath(), []

    @jobs.task
    async def work() -> None:
        seen.append(current_app.name)

    flask_app(file_url, jobs)
    gc.collect()
    async with jobs:
        await work.enqueue()
        await drain(jobs)
    assert seen == ["shop"]


def test_a_job_is_a_row_of_the_sessions_transaction(url: str) -> None:
    db, jobs = SQLAlchemy(), Offpath()

    @jobs.task
    def work() -> None: ...

    app = flask_app(url, jobs)
    db.init_app(app)
    with app.app_context(), jobs.blocking:
        jobs.blocking.enqueue(work.job(), within=db.session)
        db.session.rollback()
        assert jobs.blocking.jobs.count() == 0
        bound = jobs.blocking.bound(db.session)
        bound.enqueue(work.job())
        db.session.commit()
        assert jobs.blocking.jobs.count() == 1
        db.session.execute(text("select 1"))
        db.session.remove()
        db.engine.dispose()


def test_what_is_left_for_later_is_written_before_the_answer_and_dropped_with_an_error(
    file_url: str,
) -> None:
    jobs = Offpath()

    @jobs.task
    def work(how: str) -> None: ...

    app = flask_app(file_url, jobs)

    @app.get("/good")
    def good() -> str:
        jobs.later.add(work, "first")
        jobs.later.add(work.options(priority=1), "second")
        return "good"

    @app.get("/refused")
    def refused() -> str:
        jobs.later.add(work, "refused")
        abort(409)

    @app.get("/broken")
    def broken() -> str:
        jobs.later.add(work, "broken")
        raise ValueError

    client = app.test_client()
    with jobs.blocking:
        assert client.get("/good").status_code == 200
        assert client.get("/refused").status_code == 409
        assert client.get("/broken").status_code == 500
        assert jobs.blocking.jobs.count() == 2
    jobs.blocking.close()


def test_a_store_that_refuses_makes_an_error_of_the_answer(file_url: str) -> None:
    jobs = Offpath()

    @jobs.task(unique=offpath.Unique(key="one", policy="refuse"))
    def work() -> None: ...

    app = flask_app(file_url, jobs)

    @app.get("/")
    def view() -> str:
        jobs.later.add(work)
        return "good"

    with jobs.blocking:
        assert [app.test_client().get("/").status_code for _ in range(2)] == [200, 500]


def test_outside_of_a_request_nothing_is_left_for_later(file_url: str) -> None:
    jobs = Offpath()

    @jobs.task
    def work() -> None: ...

    flask_app(file_url, jobs)
    with pytest.raises(InvalidArgument, match=r"jobs\.blocking"):
        jobs.later.add(work)


async def test_two_applications_of_one_process_have_a_context_each(tmp_path: Path) -> None:
    seen = []
    several = [Offpath(), Offpath()]
    kept = []
    for at, jobs in enumerate(several):
        jobs.task(name="look")(lambda: seen.append(current_app.name))
        kept.append(flask_app(migrated_url(tmp_path / f"{at}.db"), jobs, f"app{at}"))
    for jobs in several:
        async with jobs:
            await jobs.enqueue_by_name("look")
            await drain(jobs)
    assert seen == ["app0", "app1"]


async def test_settings_come_from_the_config_and_one_that_is_not_there_is_refused(
    file_url: str,
) -> None:
    jobs = Offpath()
    flask_app(file_url, jobs, OFFPATH_CONCURRENCY=7)
    assert (jobs.settings.url, jobs.settings.concurrency) == (file_url, 7)
    with pytest.raises(ConfigurationError, match="OFFPATH_CONCURENCY"):
        flask_app(file_url, Offpath(), OFFPATH_CONCURENCY=7)


async def test_another_store_is_refused_while_one_is_open(file_url: str, tmp_path: Path) -> None:
    jobs = Offpath()
    flask_app(file_url, jobs)
    async with jobs:
        with pytest.raises(InvalidArgument, match="one Offpath for each"):
            flask_app(migrated_url(tmp_path / "other.db"), jobs)


async def test_without_an_application_a_handler_fails_and_says_why() -> None:
    jobs = Offpath("memory://")

    @jobs.task(retry=1)
    def work() -> None: ...

    async with jobs:
        handle = await work.enqueue()
        await drain(jobs)
        failure = (await jobs.jobs.get(handle.id)).failure
    assert failure is not None
    assert "init_app" in failure.message


async def test_patched_threads_are_refused_at_opening(
    monkeypatch: pytest.MonkeyPatch, file_url: str
) -> None:
    """gevent itself is not loaded: it would patch the threads of the tests."""
    fake: Any = types.ModuleType("gevent.monkey")
    fake.is_module_patched = lambda name: name == "threading"
    monkeypatch.setitem(sys.modules, "gevent.monkey", fake)
    jobs = Offpath()
    flask_app(file_url, jobs)
    with pytest.raises(ConfigurationError, match="process of its own"):
        await jobs.open()


def test_the_whole_command_line_is_a_command_of_flask(
    file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OFFPATH_APP", "OFFPATH_URL", "FLASK_APP"):
        monkeypatch.setenv(name, "")
    jobs = Offpath()

    @jobs.task
    def work() -> None: ...

    app = flask_app(file_url, jobs)
    with jobs.blocking:
        jobs.blocking.enqueue(work.job())
    done = app.test_cli_runner().invoke(args=["offpath", "jobs", "list", "--json"])
    assert done.exit_code == 0, done.output
    assert '"task": "work"' in done.output or '"task":"work"' in done.output
    assert app.test_cli_runner().invoke(args=["offpath", "jobs", "show", "nope"]).exit_code != 0
