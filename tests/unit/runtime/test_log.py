import logging
from typing import Any

import pytest

from offpath.model.redact import HIDDEN, is_secret, redact, redact_text, redact_url
from offpath.runtime.clock import ManualClock
from offpath.runtime.log import RateLimited, adapter, bind, fields, logger


def attributes(record: logging.LogRecord) -> dict[str, Any]:
    return vars(record)


def test_loggers_are_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    assert isinstance(logging.getLogger("offpath").handlers[0], logging.NullHandler)
    assert logger("worker").logger.name == "offpath.worker"


def test_bound_fields_reach_the_records(caplog: pytest.LogCaptureFixture) -> None:
    with bind(worker="w1"), bind(job="j1"):
        logger("x").warning("inside", extra={"n": 3})
    logger("x").warning("outside")
    inside, outside = caplog.records
    assert (inside.worker, inside.job, inside.n) == ("w1", "j1", 3)  # type: ignore[attr-defined]
    assert "worker" not in attributes(outside)
    assert fields() == {}


def test_adapter_fields_win_over_bound_ones(caplog: pytest.LogCaptureFixture) -> None:
    with bind(task="outer", worker="w1"):
        adapter("job", {"task": "inner"}).warning("hello")
    record = caplog.records[0]
    assert record.name == "offpath.job"
    assert (attributes(record)["task"], attributes(record)["worker"]) == ("inner", "w1")


def test_fields_named_like_a_records_own_are_kept_beside(caplog: pytest.LogCaptureFixture) -> None:
    adapter("job", {"name": "n", "args": (1,), "message": "m", "job": "j"}).warning("%s", "text")
    record = attributes(caplog.records[0])
    assert record["name"] == "offpath.job"
    assert (record["name_"], record["message_"], record["job"]) == ("n", "m", "j")
    assert caplog.messages == ["text"]


def test_secrets_in_fields_are_hidden(caplog: pytest.LogCaptureFixture) -> None:
    adapter("job", {"api_key": "k", "at": {"dbPassword": "p", "host": "h"}}).warning("x")
    adapter("job", {"pin": 5}, secrets={"pin"}).warning("x")
    first, second = map(attributes, caplog.records)
    assert (first["api_key"], first["at"]) == (HIDDEN, {"dbPassword": HIDDEN, "host": "h"})
    assert second["pin"] == HIDDEN


def test_a_cause_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    limited = RateLimited(logger("x"), clock, 60)
    said = []
    for _ in range(120):
        said.append(limited.log(logging.ERROR, "gone", "store %s is gone", "s"))
        clock.advance(1)
    limited.log(logging.ERROR, "other", "another")
    assert sum(said) == 2
    assert caplog.messages == [
        "store s is gone",
        "store s is gone (and 59 more like this)",
        "another",
    ]


def test_a_cause_that_is_over_is_logged_again_at_once(caplog: pytest.LogCaptureFixture) -> None:
    limited = RateLimited(logger("x"), ManualClock(), 60)
    assert limited.forget("gone") is False
    assert limited.log(logging.ERROR, "gone", "gone")
    assert limited.forget("gone") is True
    assert limited.log(logging.ERROR, "gone", "gone")
    assert len(caplog.records) == 2


def test_causes_are_forgotten_at_last() -> None:
    limited = RateLimited(logger("x"), ManualClock(), 60)
    for number in range(RateLimited.LIMIT + 10):
        limited.log(logging.DEBUG, str(number), "x")
    assert len(limited._seen) == RateLimited.LIMIT


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "db_password",
        "dbPassword",
        "passwords",
        "X-Api-Key",
        "apiKey",
        "Authorization",
        "set-cookie",
        "client_secret",
        "accessToken",
        "SENTRY_DSN",
        "pwd",
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["author", "tokenizer", "secretary", "compass", "key", "", "user"])
def test_names_that_are_no_secret(name: str) -> None:
    assert not is_secret(name)


def test_redaction_goes_deep_and_changes_nothing_else() -> None:
    value = {"a": [{"token": "t", "n": 1}], "b": ("x", {"SECRET": {"k": 1}}), 5: None, "c": 1.5}
    assert redact(value) == {
        "a": [{"token": HIDDEN, "n": 1}],
        "b": ["x", {"SECRET": HIDDEN}],
        5: None,
        "c": 1.5,
    }
    assert value["a"] == [{"token": "t", "n": 1}]


def test_a_secret_in_the_name_of_a_field_is_hidden() -> None:
    value = {"postgres://ann:hunter2@db/x": {"password=hunter2": 7, "page": 1}, 5: 1}
    assert redact(value) == {
        f"postgres://ann:{HIDDEN}@db/x": {f"password={HIDDEN}": HIDDEN, "page": 1},
        5: 1,
    }


def test_redaction_ends_on_a_value_that_contains_itself() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert "…" in repr(redact(loop))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:pw@h:5432/db", "postgresql://u:***@h:5432/db"),
        ("postgresql://u:p@ss:w/rd@h/db", "postgresql://u:***@h/db"),
        ("postgresql://:pw@h/db", "postgresql://:***@h/db"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("postgresql:///db?user=u&password=pw&x=1", "postgresql:///db?user=u&password=***&x=1"),
        ("host=h password=pw user=u", "host=h password=*** user=u"),
        ("host=h password='p w\\' x' user=u", "host=h password=*** user=u"),
        ("sqlite:///work.db", "sqlite:///work.db"),
        ("memory://", "memory://"),
    ],
)
def test_urls_lose_their_password(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_passwords_in_error_texts() -> None:
    text = 'cannot reach "postgresql://u:pw@h/db": {"api_key": "k"}, token=abc'
    assert (
        redact_text(text) == 'cannot reach "postgresql://u:***@h/db": {"api_key": "k"}, token=***'
    )


def test_a_password_in_a_url_that_is_a_parameter_is_hidden() -> None:
    url = "postgresql://u:one@h/db?offpath_notify_url=redis%3A%2F%2Fu%3Atwo%40h%2F0&x=1"
    assert redact_url(url) == (
        "postgresql://u:***@h/db?offpath_notify_url=redis%3A%2F%2Fu:***@h%2F0&x=1"
    )
    assert "two" not in redact_text(f"cannot open {url.replace('u:one@', '')}")
    assert redact_text("50% of a%3Ab at 3%40") == "50% of a%3Ab at 3%40"
