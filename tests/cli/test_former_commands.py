"""Commands that had another name in the release before: hidden, still there, and they say so."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run, document

UNKNOWN = "0198c0de-0000-7000-8000-000000000000"
FORMER = {
    ("jobs", "retry"): "offpath jobs redrive, or offpath jobs run-now",
    ("outbox", "retry"): "offpath outbox redrive",
    ("inbox", "revive"): "offpath inbox redrive",
    ("router", "replay"): "offpath router redrive",
}


@pytest.mark.parametrize("words", FORMER)
def test_a_former_command_is_not_in_the_help_and_says_its_new_name(
    run: Run, migrated: str, words: tuple[str, str]
) -> None:
    group, name = words
    listed = run(group, "--help").output
    assert not any(line.split()[:1] == [name] for line in listed.splitlines())
    result = run(group, name, UNKNOWN, "--url", migrated)
    assert f"warning: `offpath {group} {name}` goes with the next release" in result.stderr
    assert FORMER[words] in result.stderr


def test_retry_puts_back_the_cancelled_and_makes_the_waiting_due(run: Run, migrated: str) -> None:
    url = ("--url", migrated, "--json")
    ended = document(run("enqueue", "add", "a=1", "b=2", *url))["id"]
    assert run("jobs", "cancel", ended, *url).exit_code == 0
    waiting = document(run("enqueue", "add", "a=1", "b=2", "--delay", "3600", *url))["id"]
    told = run("jobs", "retry", ended, waiting, UNKNOWN, *url)
    assert document(told)["changed"][0]["id"] == ended
    assert [one["id"] for one in document(told)["changed"]] == [ended, waiting]
    assert document(told)["unchanged"] == [UNKNOWN]


def test_redrive_leaves_the_waiting_and_run_now_leaves_the_cancelled(
    run: Run, migrated: str
) -> None:
    url = ("--url", migrated, "--json")
    ended = document(run("enqueue", "add", "a=1", "b=2", *url))["id"]
    assert run("jobs", "cancel", ended, *url).exit_code == 0
    waiting = document(run("enqueue", "add", "a=1", "b=2", "--delay", "3600", *url))["id"]
    due = document(run("jobs", "run-now", ended, waiting, *url))
    assert ([one["id"] for one in due["changed"]], due["unchanged"]) == ([waiting], [ended])
    back = document(run("jobs", "redrive", ended, waiting, *url))
    assert ([one["id"] for one in back["changed"]], back["unchanged"]) == ([ended], [waiting])
