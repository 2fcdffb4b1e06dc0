"""The words of ``manage.py check``, and the commands of ``manage.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import modify_settings, override_settings

from offpath.contrib.django import app_of
from offpath.contrib.django.checks import check_schema, worker_messages
from offpath.contrib.django.database import url_of
from offpath.contrib.django.names import task_backends
from offpath.errors import ConfigurationError
from tests.contrib.django import site
from tests.contrib.django.conftest import point_to, with_options

if TYPE_CHECKING:
    from pathlib import Path


def said(alias: str, **options: Any) -> list[str]:
    """The ids of what is said of a backend with these options."""
    with with_options(alias, **options):
        return [str(one.id) for one in task_backends[alias].check()]


def test_nothing_is_said_of_a_good_backend(alias: str) -> None:
    assert said(alias) == []


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"database": "nowhere"}, ["offpath.E001"]),
        ({"url": "postgresql://elsewhere/jobs"}, ["offpath.E002"]),
        ({"url": "postgresql://elsewhere/jobs", "enqueue": "on_commit"}, ["offpath.W002"]),
        ({"url": "postgresql://elsewhere/jobs", "enqueue": "now"}, []),
        ({"enqueue": "sometimes"}, ["offpath.E004"]),
        ({"settings": {"queues": "default:5"}}, ["offpath.E003"]),  # QUEUES has mail, too
        ({"settings": {"queues": ["default", "mail"]}}, []),
        ({"settings": {"queues": "default:5,*"}}, []),
        ({"enque": "now"}, ["offpath.E005"]),
        ({"settings": {"retri": 3}}, ["offpath.E006"]),
        ({"settings": {"poll_interval": "soon"}}, ["offpath.E006"]),
        ({"settings": {"retry": -1}}, ["offpath.E006"]),
        ({"app": "tests.contrib.django.test_checks.said"}, ["offpath.E006"]),
        ({"app": "tests.contrib.nowhere.app"}, ["offpath.E006"]),
        ({"imports": ["tests.contrib.django.tasks"]}, []),
        ({"imports": ["nowhere.tasks"]}, ["offpath.E006"]),
        ({"imports": ["tests.contrib.django.task"]}, ["offpath.E006"]),
    ],
)
def test_what_is_wrong_is_said(alias: str, options: dict[str, Any], ids: list[str]) -> None:
    assert said(alias, **options) == ids


@pytest.mark.parametrize(
    ("options", "word"), [({"enque": "now"}, "'enqueue'"), ({"settings": {"thread": 3}}, "threads")]
)
def test_a_slip_is_told_with_what_was_meant(alias: str, options: dict[str, Any], word: str) -> None:
    with with_options(alias, **options):
        (told,) = task_backends[alias].check()
    assert ("did you mean" in told.msg, word in told.msg) == (True, True), told.msg


def test_a_backend_whose_app_is_not_installed_is_told(alias: str) -> None:
    from tests.contrib.django import tasks

    with modify_settings(INSTALLED_APPS={"remove": ["offpath.contrib.django"]}):
        assert said(alias) == ["offpath.E007"]
        with pytest.raises(ImproperlyConfigured, match=r"INSTALLED_APPS.*offpath_worker"):
            tasks.double.using(backend=alias)


def test_a_queue_of_a_task_that_no_worker_serves_is_told(alias: str) -> None:
    from tests.contrib.django import tasks

    given = site._tasks()
    given[alias] |= {"QUEUES": [], "OPTIONS": {"database": alias}}
    with override_settings(TASKS=given):
        tasks.describe.using(backend=alias, queue_name="mail")
        assert list(task_backends[alias].check()) == []
    given[alias]["OPTIONS"]["settings"] = {"queues": ["default"]}
    with override_settings(TASKS=given):
        (told,) = task_backends[alias].check()
        assert (told.id, "'mail'" in told.msg) == ("offpath.E003", True)


def test_a_transaction_of_sqlite_that_may_be_refused_is_told() -> None:
    options = connections[site.SQLITE].settings_dict["OPTIONS"]
    mode = options.pop("transaction_mode")
    try:
        assert said(site.SQLITE) == ["offpath.W003"]
    finally:
        options["transaction_mode"] = mode


def test_async_tasks_and_kept_connections_are_told(alias: str) -> None:
    from tests.contrib.django import tasks

    tasks.double_later.using(backend=alias)
    point_to(alias, CONN_MAX_AGE=60)
    try:
        assert said(alias) == ["offpath.W004"]
    finally:
        point_to(alias, CONN_MAX_AGE=0)


@pytest.mark.parametrize(("debug", "ids"), [(True, ["offpath.W005"]), (False, [])])
def test_a_worker_with_debug_is_told(debug: bool, ids: list[str]) -> None:
    with override_settings(DEBUG=debug):
        assert [str(one.id) for one in worker_messages()] == ids


def test_a_schema_that_is_behind_is_told_when_databases_are_looked_at(empty_alias: str) -> None:
    assert checks.run_checks(databases=[]) == []
    (one,) = check_schema(databases=[empty_alias])
    assert (one.id, "0 of" in one.msg) == ("offpath.W001", True)


def test_migrate_does_not_tell_that_the_schema_is_behind(
    empty_alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["manage.py", "migrate"])
    assert check_schema(databases=[empty_alias]) == [], "it runs the steps after its checks"


def test_a_schema_that_is_current_is_not(alias: str) -> None:
    assert check_schema(databases=[alias]) == []


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"NAME": "shop"}, "postgresql:///shop"),
        (
            {"NAME": "a b", "USER": "me@x", "PASSWORD": "p/w", "HOST": "db", "PORT": 6432},
            "postgresql://me%40x:p%2Fw@db:6432/a%20b",
        ),
        ({"NAME": "shop", "HOST": "/run/pg"}, "postgresql:///shop?host=%2Frun%2Fpg"),
        (
            {"NAME": "shop", "OPTIONS": {"sslmode": "require", "pool": True}},
            "postgresql:///shop?sslmode=require",
        ),
    ],
)
def test_the_url_is_what_django_connects_with(settings: dict[str, Any], url: str) -> None:
    plain = {"NAME": "", "USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}}
    before = dict(connections[site.POSTGRES].settings_dict)
    try:
        point_to(site.POSTGRES, **{**plain, **settings})
        assert url_of(site.POSTGRES) == url
    finally:
        point_to(site.POSTGRES, **before)


def test_the_url_of_a_file_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    point_to(site.SQLITE, NAME="here.db")
    assert url_of(site.SQLITE) == f"sqlite:///{tmp_path / 'here.db'}"


def test_another_backend_has_no_app_of_ours() -> None:
    from offpath.contrib.django.names import HOME

    other = {"default": {"BACKEND": f"{HOME}.backends.immediate.ImmediateBackend"}}
    with (
        override_settings(TASKS=other),
        pytest.raises(ImproperlyConfigured, match="OffpathBackend"),
    ):
        app_of()


def test_what_is_no_app_is_refused(alias: str) -> None:
    with (
        with_options(alias, app="tests.contrib.django.test_checks.said"),
        pytest.raises(ConfigurationError, match=r"not an offpath\.App"),
    ):
        app_of(alias)
