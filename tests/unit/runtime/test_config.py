import logging
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offpath.config import FIELDS, Settings, load_settings, normal_url
from offpath.errors import ConfigurationError


def load(directory: Path, environ: dict[str, str] | None = None, **given: Any) -> Settings:
    return load_settings(environ=environ or {}, directory=directory, **given)


def project(directory: Path, text: str) -> Path:
    (directory / "pyproject.toml").write_text(text)
    return directory


def test_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings == Settings()
    assert settings.url == "memory://"
    assert settings.handler_threads == 100
    assert set(settings.sources().values()) == {"default"}
    assert tuple(settings.sources()) == FIELDS


def test_the_nearest_wins_and_says_where_it_came_from(tmp_path: Path) -> None:
    project(tmp_path, "[tool.offpath]\nconcurrency = 5\nprocesses = 2\nlease-seconds = 9\n")
    environ = {"OFFPATH_CONCURRENCY": "6", "OFFPATH_PROCESSES": "3"}
    settings = load(tmp_path, environ, concurrency=7, app=None)
    assert (settings.concurrency, settings.processes, settings.lease_seconds) == (7, 3, 9)
    sources = settings.sources()
    assert sources["concurrency"] == "argument"
    assert sources["processes"] == "environment (OFFPATH_PROCESSES)"
    assert sources["lease_seconds"] == f"{tmp_path / 'pyproject.toml'} [tool.offpath]"
    assert sources["app"] == "default"


def test_the_project_file_is_looked_for_upwards(tmp_path: Path) -> None:
    project(tmp_path, "[tool.offpath]\napp = 'shop:app'\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert load(below).app == "shop:app"
    project(below, "[project]\nname = 'other'\n")
    assert load(below).app is None


def test_texts_from_the_environment(tmp_path: Path) -> None:
    environ = {
        "OFFPATH_QUEUES": "a, b,",
        "OFFPATH_MIGRATE": "yes",
        "OFFPATH_KEEP_DEAD": "forever",
        "OFFPATH_KEEP_SUCCEEDED": "2d",
        "OFFPATH_POLL_INTERVAL": "500ms",
        "OFFPATH_LEASE_SECONDS": "1.5",
        "OFFPATH_DRAIN_TIMEOUT": "0",
        "OFFPATH_ABORT": "fail",
        "OFFPATH_REDACT": "iban",
        "OFFPATH_WEBHOOK_NETWORKS": "10.0.0.0/8, fd00::/8",
        "OFFPATH_APP": "",
    }
    settings = load(tmp_path, environ)
    assert settings.queues == {"a": None, "b": None}
    assert settings.webhook_networks == ("10.0.0.0/8", "fd00::/8")
    assert settings.migrate is True
    assert (settings.keep_dead, settings.keep_succeeded) == (None, 172_800)
    assert (settings.poll_interval, settings.lease_seconds, settings.drain_timeout) == (0.5, 1.5, 0)
    assert (settings.abort, settings.redact, settings.app) == ("fail", ("iban",), None)


def test_values_from_python(tmp_path: Path) -> None:
    settings = load(
        tmp_path, keep_dead=math.inf, keep_cancelled=timedelta(hours=1), queues=["x"], threads=4
    )
    assert (settings.keep_dead, settings.keep_cancelled) == (None, 3600)
    assert (settings.queues, settings.handler_threads) == ({"x": None}, 4)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"OFFPATH_CONCURRENCY": "many"}, r"concurrency, from environment \(OFFPATH_CONCURRENCY\)"),
        ({"OFFPATH_CONCURRENCY": "0"}, ">= 1"),
        ({"OFFPATH_POLL_INTERVAL": "0"}, "> 0"),
        ({"OFFPATH_POLL_INTERVAL": "1 hour"}, "500ms or 30s"),
        ({"OFFPATH_KEEP_DEAD": "-1"}, "7d, or forever"),
        ({"OFFPATH_LEASE_SECONDS": "nan"}, "lease_seconds"),
        ({"OFFPATH_ABORT": "drop"}, "abort"),
        ({"OFFPATH_MIGRATE": "perhaps"}, "bool"),
        ({"OFFPATH_URL": "mysql://u:hunter2@h/d"}, r"mysql://u:\*\*\*@h/d names a database"),
        ({"OFFPATH_URL": "work.db"}, "is not a database URL"),
        ({"OFFPATH_URL": "memory://", "OFFPATH_URL_FILE": "x"}, "both set"),
        ({"OFFPATH_URL_FILE": "/nowhere/url"}, "cannot read /nowhere/url"),
    ],
)
def test_bad_values_are_named_with_their_place(
    tmp_path: Path, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        load(tmp_path, environ)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.offpath]\nconcurency = 1\n", r"no setting concurency \(did you mean concurrency"),
        ("[tool.offpath]\norigins = []\n", "no setting origins"),
        ("[tool.offpath]\nconcurrency = '5x'\n", r"concurrency, from .*pyproject\.toml"),
        ("[tool.offpath]\nconcurrency = 1.5\n", "Expected `int`"),
        ("[tool]\noffpath = 3\n", "must be a table"),
        ("[tool.offpath\n", "cannot read"),
    ],
)
def test_bad_project_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(project(tmp_path, text))


def test_a_project_file_that_is_not_about_us_is_not_judged(tmp_path: Path) -> None:
    assert load(project(tmp_path, "[broken\n")) == Settings()


def test_unknown_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no setting lease \(did you mean"):
        load(tmp_path, lease=3)


def test_unknown_variables_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environ = {
        "OFFPATH_CONCURENCY": "3",
        "OFFPATH_TEST_POSTGRES": "x",
        "OFFPATH_SERVICE_HOST": "10.0.0.1",
        "OFFPATH_PORT_80_TCP": "x",
        "OTHER": "x",
    }
    with caplog.at_level(logging.WARNING):
        load(tmp_path, environ)
    assert caplog.messages == [
        "environment: there is no setting OFFPATH_CONCURENCY (did you mean OFFPATH_CONCURRENCY?)"
    ]


def test_the_url_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgres://u:pw@h/d\n")
    settings = load(tmp_path, {"OFFPATH_URL_FILE": str(secret)})
    assert settings.url == "postgresql://u:pw@h/d"
    assert settings.sources()["url"] == f"file {secret} (OFFPATH_URL_FILE)"
    secret.write_text(" \n")
    with pytest.raises(ConfigurationError, match="is empty"):
        load(tmp_path, {"OFFPATH_URL_FILE": str(secret)})


def test_database_url_only_where_asked_for(tmp_path: Path) -> None:
    environ = {"DATABASE_URL": "postgres://h/d"}
    assert load(tmp_path, environ).url == "memory://"
    settings = load(tmp_path, environ, database_url=True)
    assert settings.url == "postgresql://h/d"
    assert settings.sources()["url"] == "environment (DATABASE_URL)"
    environ["OFFPATH_URL"] = "sqlite:///x.db"
    assert load(tmp_path, environ, database_url=True).url == "sqlite:///x.db"
    assert load(tmp_path, environ, database_url=True, url="memory://").url == "memory://"
    named = project(tmp_path, '[tool.offpath]\nurl = "sqlite:///named.db"')
    del environ["OFFPATH_URL"]
    assert load(named, environ, database_url=True).url == "sqlite:///named.db"


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("postgres://u@h/d?x=1", "postgresql://u@h/d?x=1"),
        ("postgresql+psycopg://h/d", "postgresql://h/d"),
        ("postgresql+asyncpg://h/d", "postgresql://h/d"),
        ("sqlite+aiosqlite:///x.db", "sqlite:///x.db"),
        (" SQLITE:///X.db\n", "sqlite:///X.db"),
        ("memory://", "memory://"),
        ("memory:", "memory://"),
        ("host=h dbname=d", "host=h dbname=d"),
    ],
)
def test_urls(url: str, normal: str) -> None:
    assert normal_url(url) == normal


def test_an_empty_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="an empty text is not a database URL"):
        normal_url("  ")


def test_the_password_is_not_shown() -> None:
    settings = Settings(url="postgresql://u:hunter2@h/d")
    assert "hunter2" not in repr(settings) + str(settings) + str(settings.shown())
    assert "postgresql://u:***@h/d" in repr(settings)
