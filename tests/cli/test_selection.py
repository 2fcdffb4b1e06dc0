"""The choice of many rows: they are counted before a person is asked, and those left alone told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from offpath.cli.selection import Question
from offpath.operating.targets import MessagesTarget
from tests.cli.conftest import Processes, Run, document
from tests.cli.terminal import on_a_terminal

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits at the terminal."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)


@pytest.fixture
def dead(run: Run, migrated: str, processes: Processes, here: Path) -> str:
    """A store with three dead jobs of one task and a queued one of another."""
    for _ in range(3):
        run("enqueue", "fail", "--app", "service:app", "--url", migrated)
    run("enqueue", "add", "a=1", "b=2", "--delay", "1h", "--url", migrated)
    worker = processes.start("worker", "service:app", "--url", migrated, "--until-idle")
    assert worker.wait() == 3
    return migrated


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("words", "question"),
    [
        (("dead", "redrive", "--task", "fail"), "Redrive 3 dead jobs that match?"),
        (("dead", "redrive", "--all"), "Redrive all 3 dead jobs?"),
        (("dead", "redrive", "--all", "--limit", "2"), "Redrive the oldest 2 of 3 dead jobs?"),
        (("dead", "discard", "--task", "fail"), "Delete 3 dead jobs that match?"),
        (("jobs", "redrive", "--state", "dead"), "Redrive 3 jobs that match?"),
        (("jobs", "cancel", "--queue", "default"), "Cancel 1 job that matches?"),
        (("jobs", "run-now", "--task", "add"), "Run now 1 job that matches?"),
        (("jobs", "amend", "--task", "add", "--set-priority", "1"), "Change 1 job that matches?"),
    ],
)
def test_a_question_has_the_number_of_rows_that_would_change(
    run: Run, dead: str, words: tuple[str, ...], question: str
) -> None:
    told = run(*words, "--url", dead, stdin="n\n")
    assert question in told.output
    assert (told.exit_code, "nothing was changed" in told.stderr) == (1, True)
    assert len(document(run("dead", "list", "--url", dead, "--json"))["items"]) == 3


@pytest.mark.usefixtures("asked")
def test_nobody_is_asked_about_nothing(run: Run, dead: str) -> None:
    told = run("dead", "redrive", "--task", "nothing", "--url", dead, stdin="")
    assert (told.exit_code, told.output) == (0, "0 redriven\n")


@pytest.mark.usefixtures("asked")
def test_the_answer_yes_acts(run: Run, dead: str) -> None:
    told = run("dead", "redrive", "--all", "--url", dead, stdin="y\n")
    assert (told.exit_code, told.output.splitlines()[-1]) == (0, "3 redriven")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (Question("Redrive", "dead job", False).text(), "Redrive every dead job that matches?"),
        (Question("Redrive", "dead job", True).text(), "Redrive all dead jobs?"),
        (Question("Redrive", "job", False).text(1), "Redrive 1 job that matches?"),
        (Question("Redrive", "job", True).text(1), "Redrive 1 job?"),
        (
            Question("Redrive", "job", False).text(10_000, more=True),
            "Redrive more than 10,000 jobs that match?",
        ),
    ],
)
def test_what_could_not_be_counted_is_asked_without_a_number(
    backend: str, question: str, text: str
) -> None:
    del backend
    assert question == text


def test_ctrl_c_ends_a_question(dead: str, here: Path) -> None:
    """The event loop's own handler would wait for the answer."""
    lines, code = on_a_terminal(
        here, "dead", "redrive", "--all", "--url", dead, interrupt_at="dead jobs?"
    )
    assert "Redrive all 3 dead jobs? [y/N]: " in "".join(lines)
    assert (code, lines[-1]) == (1, "not confirmed: nothing was changed")


def test_a_group_is_named_by_the_beginning_of_its_id(run: Run, migrated: str) -> None:
    made = document(run("enqueue", "add", "a=1", "b=2", "--url", migrated, "--json"))["id"]
    run("enqueue", "other", "--url", migrated)
    listed = document(run("jobs", "list", "--group", made[:23], "--url", migrated, "--json"))
    assert [one["id"] for one in listed["items"]] == [made]
    words = ("jobs", "cancel", "--group", made[:23], "--yes", "--url", migrated, "--json")
    assert [one["id"] for one in document(run(*words))["changed"]] == [made]


@pytest.mark.parametrize("words", [("jobs",), ("audit",)])
def test_a_page_follows_the_beginning_of_an_id(
    run: Run, migrated: str, words: tuple[str, ...]
) -> None:
    for _ in range(2):
        run("enqueue", "add", "a=1", "b=2", "--url", migrated)
    newest, oldest = (
        one["id"] for one in document(run(*words, "list", "--url", migrated, "--json"))["items"]
    )
    told = run(*words, "list", "--after", newest[:23], "--url", migrated, "--json")
    assert [one["id"] for one in document(told)["items"]] == [oldest]


def test_each_job_that_an_amendment_leaves_alone_has_its_reason(
    run: Run, dead: str, processes: Processes
) -> None:
    done = document(run("dead", "list", "--url", dead, "--json"))["items"][0]["id"]
    behind = document(
        run("enqueue", "fail_behind", "--app", "service:app", "--url", dead, "--json")
    )["id"]
    worker = processes.start("worker", "service:app", "--url", dead, "--max-jobs", "1")
    worker.wait()
    members = document(run("groups", "show", behind, "--url", dead, "--json"))["open_members"]
    blocked = next(one["id"] for one in members["items"] if one["state"] == "blocked")
    nobody = "01900000-0000-7000-8000-0000000000ff"
    words = ("jobs", "amend", done, blocked, nobody, "--set-queue", "slow", "--url", dead)
    lines = dict(line.split("  ", 1) for line in run(*words).output.splitlines()[:3])
    assert lines[done] == "left alone: its state is dead (exhausted)"
    assert lines[blocked].startswith("left alone: its state is blocked (")
    assert lines[blocked].endswith("): it takes a priority and a deadline only")
    assert lines[nobody] == "left alone: unknown"


def test_a_signal_is_sent_to_the_job_whose_cut_id_is_given(run: Run, migrated: str) -> None:
    made = document(run("enqueue", "add", "a=1", "b=2", "--url", migrated, "--json"))["id"]
    run("jobs", "signal", made[:28], "go", "--id", made, "--url", migrated)
    again = run("jobs", "signal", made, "go", "--id", made, "--url", migrated, "--json")
    assert document(again)["sent"] is False, "it was sent to that job before"


def test_the_note_of_an_action_on_messages_can_be_carried_on(run: Run, migrated: str) -> None:
    """A worker reads it as any other action's where the command was killed."""
    run("outbox", "redrive", "--stream", "mail", "--key", "k", "--yes", "--url", migrated)
    (listed,) = document(run("audit", "list", "--url", migrated, "--json"))["items"]
    shown = document(run("audit", "show", listed["id"][:18], "--url", migrated, "--json"))
    target = msgspec.convert(shown["target"], MessagesTarget)
    assert target.where is not None
    assert (target.where.box, target.where.stream, target.where.key) == ("out", ("mail",), ("k",))
