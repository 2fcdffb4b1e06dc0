"""``offpath inbox``: rejected messages come back only when they are asked for by name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import offpath
from offpath.events import InboxMessage, Rejected
from tests.cli.conftest import Run, document
from tests.sqlite_files import migrated_url


class Taken:
    """A store with messages that were applied, rejected, broken, and one that waits."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ids: dict[str, str] = {}

    async def fill(self) -> None:
        app = offpath.App(self.url, auto_start=False)

        @app.inbox("bank", attempts=1)
        async def take(message: InboxMessage) -> None:
            if message.key == "rejected":
                raise Rejected("no such account")
            if message.key == "broken":
                raise ValueError("token=hunter2")

        async with app:
            for key in ("applied", "rejected", "broken"):
                accepted = await app.accept("bank", key, {"iban": "X1", "password": "hunter2"})
                self.ids[key] = accepted.id
            await app.drain("bank").run_once()
            self.ids["waiting"] = (await app.accept("other", "waiting", 1)).id
            self.ids["outbox"] = await app.publish("topic")

    def states(self) -> dict[str, str]:
        async def read() -> dict[str, str]:
            async with offpath.App(self.url, auto_start=False) as app:
                found = (await app.messages.find(box="in")).items
                return {one.key or "": one.state.value for one in found}

        return asyncio.run(read())


@pytest.fixture
def taken(tmp_path: Path) -> Taken:
    made = Taken(migrated_url(tmp_path / "work.db"))
    asyncio.run(made.fill())
    return made


def test_the_list_says_why_messages_are_dead(run: Run, taken: Taken) -> None:
    done = run("inbox", "list", "--url", taken.url)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[2] for row in rows] == ["key", "waiting", "broken", "rejected", "applied"]
    assert rows[2][:5] == [taken.ids["broken"], "bank", "broken", "dead", "(exhausted)"]
    assert rows[3][3:5] == ["dead", "(rejected)"]
    assert "hunter2" not in done.output


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["--source", "bank", "--state", "dead"], ["broken", "rejected"]),
        (["--reason", "rejected"], ["rejected"]),
        (["--key", "applied"], ["applied"]),
        (["--state", "pending"], ["waiting"]),
    ],
)
def test_filters_choose(run: Run, taken: Taken, options: list[str], keys: list[str]) -> None:
    told = document(run("inbox", "list", *options, "--url", taken.url, "--json"))
    assert [one["key"] for one in told["items"]] == keys


def test_one_is_shown_whole_with_its_secrets_hidden(run: Run, taken: Taken) -> None:
    done = run("inbox", "show", taken.ids["broken"], "--url", taken.url)
    assert '{"iban":"X1","password":"***"}' in done.stdout
    assert "ValueError: token=***" in done.stdout
    assert "hunter2" not in done.output
    assert run("inbox", "show", taken.ids["outbox"], "--url", taken.url).exit_code == 3
    assert run("inbox", "show", "nope", "--url", taken.url, "--json").exit_code == 3


@pytest.mark.parametrize("options", [["--all"], ["--source", "bank"]])
def test_many_are_revived_without_those_that_were_rejected(
    run: Run, taken: Taken, options: list[str]
) -> None:
    told = document(run("inbox", "redrive", *options, "--yes", "--url", taken.url, "--json"))
    assert told["changed"] == [taken.ids["broken"]]
    assert taken.states() == {
        "applied": "done",
        "rejected": "dead",
        "broken": "pending",
        "waiting": "pending",
    }


@pytest.mark.parametrize("options", [["--rejected"], ["--reason", "rejected"]])
def test_rejected_ones_are_revived_by_name(run: Run, taken: Taken, options: list[str]) -> None:
    told = document(
        run("inbox", "redrive", "--source", "bank", *options, "--yes", "--url", taken.url, "--json")
    )
    assert told["changed"] == [taken.ids["rejected"]]
    assert taken.states()["broken"] == "dead"


def test_a_rejected_one_is_revived_by_id(run: Run, taken: Taken) -> None:
    done = run("inbox", "redrive", taken.ids["rejected"], "--url", taken.url)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "1 pending again")
    assert taken.states()["rejected"] == "pending"


def test_dead_ones_are_deleted_and_their_keys_are_free(run: Run, taken: Taken) -> None:
    told = document(
        run("inbox", "discard", "--source", "bank", "--yes", "--url", taken.url, "--json")
    )
    assert set(told["changed"]) == {taken.ids["broken"], taken.ids["rejected"]}
    assert set(taken.states()) == {"applied", "waiting"}

    async def again() -> bool:
        async with offpath.App(taken.url, auto_start=False) as app:
            return (await app.accept("bank", "broken", 1)).new

    assert asyncio.run(again())


@pytest.mark.parametrize(
    "args",
    [
        ["redrive"],
        ["redrive", "--all"],
        ["redrive", "some-id", "--rejected"],
        ["redrive", "--rejected", "--reason", "exhausted", "--yes"],
        ["discard", "some-id"],
    ],
)
def test_wrong_usage_is_one_line_and_changes_nothing(
    run: Run, taken: Taken, args: list[str]
) -> None:
    before = taken.states()
    done = run("inbox", *args, "--url", taken.url)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert taken.states() == before
