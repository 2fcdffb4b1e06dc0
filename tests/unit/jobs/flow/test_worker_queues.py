"""The queues that a worker serves, how much of each it runs, and in which order: the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from offpath import App, InvalidArgument
from offpath.config import Settings, load_settings
from offpath.errors import ConfigurationError
from offpath.jobs.worker.settings import overridden, worker_terms
from offpath.jobs.worker.terms import WorkerSettings
from offpath.model.lease import Order
from offpath.model.served import by_queue


def load(where: Path, project: str = "", **environ: str) -> Settings:
    (where / "pyproject.toml").write_text(f"[tool.offpath]\n{project}\n")
    return load_settings(environ=environ, directory=where)


def terms(**overrides: Any) -> WorkerSettings:
    return worker_terms(overridden(Settings(), overrides), None)  # type: ignore[arg-type]


def test_queues_and_order_come_from_the_environment(tmp_path: Path) -> None:
    environ = {"OFFPATH_QUEUES": "emails:5, reports", "OFFPATH_DISPATCH": "balanced"}
    settings = load(tmp_path, **environ)
    assert settings.queues == {"emails": 5, "reports": None}
    assert (settings.served_queues, settings.queue_limits) == (
        ("emails", "reports"),
        {"emails": 5},
    )
    assert settings.dispatch == "balanced"


@pytest.mark.parametrize(
    "project", ['queues = ["emails:5", "reports"]', 'queues = "emails:5,reports"']
)
def test_queues_come_from_the_project_file(tmp_path: Path, project: str) -> None:
    assert load(tmp_path, project).queues == {"emails": 5, "reports": None}


def test_a_table_of_queues_in_the_project_file_has_limits(tmp_path: Path) -> None:
    settings = load(tmp_path, 'queues = {emails = 5, "a:7" = 2}\ndispatch = "age"')
    assert settings.queues == {"emails": 5, "a:7": 2}
    assert settings.dispatch == "age"


def test_a_worker_takes_a_list_or_a_mapping() -> None:
    assert terms(queues=["a", "b"]).queues == ("a", "b")
    made = terms(queues={"emails": 5, "reports": None}, dispatch="age")
    assert (made.queues, made.queue_limits, made.order) == (
        ("emails", "reports"),
        {"emails": 5},
        Order.AGE,
    )


def test_a_star_stands_for_all_other_queues() -> None:
    made = terms(queues={"emails": 5, "*": None})
    assert (made.queues, made.queue_limits) == ((), {"emails": 5})


def test_each_queue_may_have_an_order(tmp_path: Path) -> None:
    made = terms(dispatch={"mail": "balanced", "*": "age"})
    assert (made.order, made.orders) == (Order.AGE, {"mail": Order.BALANCED})
    settings = load(tmp_path, OFFPATH_DISPATCH="mail:balanced, a:b:age")
    assert settings.dispatch == {"mail": "balanced", "a:b": "age"}
    assert terms(dispatch={"mail": "age"}).order is Order.PRIORITY
    table = load(tmp_path, 'dispatch = {mail = "balanced", "*" = "age"}')
    assert table.dispatch == {"mail": "balanced", "*": "age"}


def test_without_a_word_all_queues_are_served_by_priority() -> None:
    made = terms()
    assert (made.queues, made.queue_limits, made.order) == ((), {}, Order.PRIORITY)


@pytest.mark.parametrize(
    "bad",
    [
        {"queues": "emails"},
        {"queues": {"emails": 0}},
        {"queues": {"emails": "many"}},
        {"queues": {"*": 5}},
        {"queues": {"a\n": 5}},
        {"queues": 5},
        {"dispatch": "random"},
        {"dispatch": {"mail": "random"}},
        {"dispatch": {"mail": ["age"]}},
        {"dispatch": {"a\n": "age"}},
        {"dispatch": 5},
    ],
)
def test_what_cannot_be_served_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        App().worker(**bad)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"queues": {"emails": 0}}, "queue 'emails': .* 1 or more, or None, not 0"),
        ({"queues": ["emails:0"]}, "queue 'emails'"),
        ({"dispatch": "random"}, "dispatch is priority, age or balanced, or one for each queue"),
    ],
)
def test_a_refusal_says_what_may_be(bad: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        App().worker(**bad)


@pytest.mark.parametrize("text", ["emails:0", "*:5"])
def test_what_cannot_be_served_is_refused_in_the_environment(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="OFFPATH_QUEUES"):
        load(tmp_path, OFFPATH_QUEUES=text)


@pytest.mark.parametrize("text", ["emails:x", "reports, emails:", "a:b:c", "emails:-5"])
def test_what_is_no_number_of_jobs_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is not a number of jobs; the form is .*:5"):
        by_queue(text)
    with pytest.raises(ConfigurationError, match=r"OFFPATH_QUEUES.*the form is"):
        load_settings(environ={"OFFPATH_QUEUES": text, "OFFPATH_URL": "memory://"})


def test_a_list_may_name_a_queue_with_a_colon() -> None:
    assert by_queue(["mail:urgent", "bulk:3"]) == {"mail:urgent": None, "bulk": 3}


def test_an_order_that_is_none_is_refused_in_the_environment(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="priority, age or balanced, or one for each"):
        load(tmp_path, OFFPATH_DISPATCH="mail:random")
