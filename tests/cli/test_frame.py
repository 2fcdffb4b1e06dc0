"""The frame: bad input ends a command before a database is opened, and values are printed alike."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from offpath import App
from offpath.cli.frame import confirmed, framed, option_group, plain_command, store_command
from offpath.cli.program import Program
from offpath.cli.values import Changed, Failed, Fields, Listing, Quote, Said, Shown, Table, Value
from offpath.errors import InvalidArgument
from tests.cli.conftest import Run, document

HOSTILE = "\x1b[31mred\u202e"


def printed(value: Value, *words: str) -> Result:
    """The output of a command that returns this."""

    @click.group(cls=Program)
    def program() -> None:
        """Hold the command."""

    @program.command("give")
    @plain_command
    def give() -> Value:
        return value

    return CliRunner().invoke(program, ["give", *words])


@pytest.mark.parametrize("answer", ["n\n", ""], ids=["declined", "ended"])
def test_what_is_not_confirmed_is_said_to_be_left(
    run: Run, migrated: str, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    told = run("schedules", "delete", "nightly", "--url", migrated, stdin=answer)
    assert (told.exit_code, "not confirmed: nothing was changed" in told.stderr) == (1, True)
    assert answer or told.stderr.startswith("\nnot confirmed"), "not in the line of the question"


def test_a_duration_without_bounds_names_none(run: Run) -> None:
    told = run("worker", "--help").output
    assert "--drain-timeout DURATION" in told
    assert "None" not in told


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "signal", "x", "y", "--payload", "{"),
        ("jobs", "cancel"),
        ("jobs", "cancel", "--task", "add"),
        ("dead", "discard", "--all"),
        ("outbox", "redrive", "x", "--key", "k"),
        ("outbox", "replay", "--since", "yesterday"),
        ("endpoints", "replay", "shop", "--since", "yesterday", "--yes"),
        ("endpoints", "remove", "shop"),
        ("schedules", "delete", "nightly"),
        ("schedules", "change", "nightly", "--queue", "mail"),
        ("router", "enable"),
        ("router", "attempts", "iu", "--after", "x"),
        ("ledger", "balance", "nobody:nothing"),
        ("ledger", "prove", "--par", "x"),
    ],
)
def test_bad_input_is_refused_before_the_database_is_opened(
    run: Run, words: tuple[str, ...]
) -> None:
    result = run(*words, "--url", "postgresql://127.0.0.1:1/none", "--json")
    assert (result.exit_code, document(result)["error"]["code"]) == (2, "invalid_argument")


VALUES = [
    Said({"ok": True}, HOSTILE, [HOSTILE]),
    Shown({}, [HOSTILE, Fields({"name": HOSTILE}), Quote(HOSTILE, f"{HOSTILE}\nERROR")]),
    Listing([], Table(("id",), [(HOSTILE,)]), next=HOSTILE),
    Changed({HOSTILE: HOSTILE}, [HOSTILE], "changed", HOSTILE),
    Changed({}, [HOSTILE], "changed", HOSTILE),
    Failed("wrong", f"{HOSTILE}\nERROR"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_foreign_text_is_escaped_in_every_value(value: Value) -> None:
    result = printed(value)
    assert "\\x1b[31mred\\u202e" in result.output
    lines = result.output.split("\n")
    assert [one for one in lines if not one.isprintable() or one.startswith("ERROR")] == []
    assert printed(value, "--json").output.isascii() or isinstance(value, Changed)


@pytest.mark.parametrize(
    "value",
    [*VALUES, Shown(["a"]), Shown({"a": 1}, exit=1)],
    ids=lambda value: type(value).__name__,
)
def test_every_document_says_whether_all_is_well(value: Value) -> None:
    result = printed(value, "--json")
    found = document(result)
    assert (next(iter(found)), found["ok"]) == ("ok", result.exit_code == 0)
    assert ("error" in found) is isinstance(value, Failed)


def test_a_page_says_how_to_go_on() -> None:
    table = Table(("id",), [("a",)], "nothing")
    result = printed(Listing(["a"], table, next="a"))
    assert (result.stdout, result.stderr) == ("id\na\n", "more: add --after a\n")
    assert document(printed(Listing(["a"], table, next=None), "--json"))["next"] is None
    assert "next" not in document(printed(Listing(["a"], table), "--json"))
    assert printed(Listing([], Table(("id",), [], "nothing"))).output == "nothing\n"


def test_ids_of_which_none_was_changed_are_not_found() -> None:
    assert printed(Changed({"a": "done"}, ["a", "b"], "done", "unknown")).exit_code == 0
    assert printed(Changed({}, [], "done", "unknown")).exit_code == 0
    none = printed(Changed({}, ["b"], "done", "unknown"), "--json")
    assert (none.exit_code, document(none)) == (3, {"ok": False, "changed": [], "unchanged": ["b"]})


def test_a_group_of_options_is_one_value_and_its_error_is_json() -> None:
    def refuse(left: str, right: str) -> str:
        if left == right:
            raise InvalidArgument("they are the same")
        return left + right

    @click.group(cls=Program)
    def program() -> None:
        """Hold the command."""

    @program.command("join")
    @option_group("both", refuse, click.option("--left"), click.option("--right"))
    @plain_command
    def join(both: str) -> Said:
        return Said({"both": both}, both)

    words = ["join", "--left", "a", "--right"]
    assert CliRunner().invoke(program, [*words, "b"]).output == "ab\n"
    wrong = CliRunner().invoke(program, [*words, "a", "--json"])
    assert (wrong.exit_code, document(wrong)["error"]["code"]) == (2, "invalid_argument")


def test_a_question_is_asked_before_the_app_is_opened(tmp_path: Path) -> None:
    opened = []

    @click.group(cls=Program)
    def program() -> None:
        """Hold the command."""

    @program.command("drop")
    @click.argument("name")
    @confirmed("Drop {name}?")
    @store_command
    async def drop(app: App, *, name: str) -> Said:
        opened.append(app)
        return Said({}, name)

    url = f"sqlite:///{tmp_path / 'x.db'}"
    asked = CliRunner().invoke(program, ["drop", "it", "--url", url])
    assert (asked.exit_code, "Drop it? Repeat it with --yes" in asked.output) == (2, True)
    assert CliRunner().invoke(program, ["drop", "it", "--url", url, "--yes"]).exit_code == 1
    assert (opened, (tmp_path / "x.db").exists()) == ([], False)


def test_a_command_may_end_with_a_code_of_its_own() -> None:
    @click.group(cls=Program)
    def program() -> None:
        """Hold the command."""

    @program.command("quiet")
    @framed(json=False)
    def quiet() -> int:
        return 7

    assert CliRunner().invoke(program, ["quiet"]).exit_code == 7
    assert CliRunner().invoke(program, ["quiet", "--json"]).exit_code == 2


@pytest.mark.parametrize("words", [(), ("jobs",), ("dead",), ("router",)])
def test_the_name_of_a_group_alone_shows_what_there_is(run: Run, words: tuple[str, ...]) -> None:
    """F5: a question is no error, and a help page is lines and not one escaped text."""
    alone = run(*words)
    assert (alone.exit_code, alone.stderr) == (0, "")
    assert alone.output == run(*words, "--help").output
    assert len(alone.output.splitlines()) > 8
