"""``offpath outbox``: what is shown, what is put back, and for whom nothing is changed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import offpath
from offpath.events import Event
from tests.cli.conftest import Run, document
from tests.sqlite_files import migrated_url


class Sent:
    """A store with three events: one delivered, one dead, one that waits."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ids: dict[str, str] = {}

    async def fill(self) -> None:
        app = offpath.App(self.url, auto_start=False)

        @app.outbox("mail", attempts=1)
        async def send(event: Event) -> None:
            if event.key == "bad":
                raise ConnectionError("refused password=hunter2")

        async with app:
            payload = {"to": "a@b.example", "apiToken": "hunter2", "text": "\x1b[31mred"}
            for key in ("good", "bad"):
                self.ids[key] = await app.publish(
                    "mail.sent", payload, key=key, stream="mail", headers={"x-secret": "hunter2"}
                )
            await app.relay("mail").run_once()
            self.ids["waiting"] = await app.publish("other", stream="other")
            self.ids["inbox"] = (await app.accept("bank", "e1", {})).id

    def states(self) -> dict[str, str]:
        async def read() -> dict[str, str]:
            async with offpath.App(self.url, auto_start=False) as app:
                found = (await app.messages.find()).items
                names = {message_id: name for name, message_id in self.ids.items()}
                return {names[one.id]: one.state.value for one in found}

        return asyncio.run(read())


@pytest.fixture
def sent(tmp_path: Path) -> Sent:
    made = Sent(migrated_url(tmp_path / "work.db"))
    asyncio.run(made.fill())
    return made


def test_the_list_is_newest_first_and_shows_no_payload(run: Run, sent: Sent) -> None:
    done = run("outbox", "list", "--url", sent.url)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["id", *(sent.ids[n] for n in ("waiting", "bad", "good"))]
    assert rows[2][1:6] == ["mail", "mail.sent", "bad", "dead", "(exhausted)"]
    assert "a@b.example" not in done.output
    assert "hunter2" not in done.output


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--state", "dead"], ["bad"]),
        (["--state", "dead", "--state", "done"], ["bad", "good"]),
        (["--stream", "other"], ["waiting"]),
        (["--topic", "mail.sent", "--key", "good"], ["good"]),
        (["--reason", "exhausted"], ["bad"]),
        (["--stream", "nope"], []),
    ],
)
def test_filters_choose(run: Run, sent: Sent, options: list[str], names: list[str]) -> None:
    told = document(run("outbox", "list", *options, "--url", sent.url, "--json"))
    assert [one["id"] for one in told["items"]] == [sent.ids[name] for name in names]
    assert all("payload" not in one for one in told["items"])


def test_a_list_goes_on_where_the_page_before_ended(run: Run, sent: Sent) -> None:
    first = document(run("outbox", "list", "--limit", "2", "--url", sent.url, "--json"))
    told = document(run("outbox", "list", "--after", first["next"], "--url", sent.url, "--json"))
    assert ([one["id"] for one in told["items"]], told["next"]) == ([sent.ids["good"]], None)


def test_one_is_shown_whole_with_its_secrets_hidden(run: Run, sent: Sent) -> None:
    done = run("outbox", "show", sent.ids["bad"], "--url", sent.url)
    assert done.exit_code == 0
    assert '"to":"a@b.example","apiToken":"***"' in done.stdout
    assert "ConnectionError: refused password=***" in done.stdout
    assert "hunter2" not in done.output
    assert "\x1b" not in done.output
    told = document(run("outbox", "show", sent.ids["bad"], "--url", sent.url, "--json"))
    assert (told["payload"]["apiToken"], told["headers"]) == ("***", {"x-secret": "***"})
    assert (told["state"], told["reason"], told["key"]) == ("dead", "exhausted", "bad")
    assert "hunter2" not in json.dumps(told)


@pytest.mark.parametrize("name", ["unknown", "inbox"])
def test_what_is_not_in_the_outbox_is_not_found_there(run: Run, sent: Sent, name: str) -> None:
    done = run("outbox", "show", sent.ids.get(name, "nope"), "--url", sent.url)
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.endswith("(message_not_found)\n")
    assert done.stderr.count("\n") == 1


def test_dead_events_are_put_back_by_id(run: Run, sent: Sent) -> None:
    asked = [sent.ids[name] for name in ("bad", "good", "inbox")]
    refused = run("outbox", "redrive", *asked, "nope", "--url", sent.url)
    assert (refused.exit_code, "'nope'" in refused.stderr) == (2, True)
    assert sent.states()["bad"] == "dead", "what cannot be an id stops the call before it begins"
    unknown = "01900000-0000-7000-8000-0000000000ff"
    told = document(run("outbox", "redrive", *asked, unknown, "--url", sent.url, "--json"))
    assert told == {
        "ok": True,
        "changed": [sent.ids["bad"]],
        "unchanged": [sent.ids["good"], sent.ids["inbox"], unknown],
    }
    assert sent.states()["bad"] == "pending"
    again = run("outbox", "redrive", sent.ids["bad"], "--url", sent.url)
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (3, "0 pending again")


@pytest.mark.parametrize("options", [["--stream", "mail"], ["--all"], ["--key", "bad"]])
def test_dead_events_are_put_back_by_filter_when_that_is_confirmed(
    run: Run, sent: Sent, options: list[str]
) -> None:
    refused = run("outbox", "redrive", *options, "--url", sent.url)
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert sent.states()["bad"] == "dead"
    done = run("outbox", "redrive", *options, "--yes", "--url", sent.url)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "1 pending again")
    assert sent.states() == {
        "good": "done",
        "bad": "pending",
        "waiting": "pending",
        "inbox": "pending",
    }


def test_what_was_delivered_is_sent_again_since_a_time(run: Run, sent: Sent) -> None:
    future = run("outbox", "replay", "--since", "2100-01-01T00:00Z", "--yes", "--url", sent.url)
    assert (future.exit_code, future.stdout) == (0, "0 pending again\n")
    other = ["--since", "1h", "--stream", "other", "--yes", "--url", sent.url]
    assert run("outbox", "replay", *other).stdout == "0 pending again\n"
    told = document(run("outbox", "replay", "--since", "1h", "--yes", "--url", sent.url, "--json"))
    assert told == {"ok": True, "changed": [sent.ids["good"]], "unchanged": []}
    assert sent.states()["good"] == "pending"


def test_dead_events_are_deleted_when_that_is_confirmed(run: Run, sent: Sent) -> None:
    refused = run("outbox", "discard", sent.ids["bad"], "--url", sent.url)
    assert refused.exit_code == 2
    told = document(run("outbox", "discard", "--all", "--yes", "--url", sent.url, "--json"))
    assert told == {"ok": True, "changed": [sent.ids["bad"]], "unchanged": []}
    assert set(sent.states()) == {"good", "waiting", "inbox"}


@pytest.mark.parametrize(
    "args",
    [
        ["redrive"],
        ["redrive", "some-id", "--stream", "mail"],
        ["redrive", "--all", "--stream", "mail", "--yes"],
        ["redrive", "--reason", "boredom", "--yes"],
        ["discard", "--yes"],
        ["replay", "--since", "yesterday", "--yes"],
        ["replay", "--since", "2026-11-27T09:00", "--yes"],
    ],
)
def test_wrong_usage_is_one_line_and_changes_nothing(run: Run, sent: Sent, args: list[str]) -> None:
    before = sent.states()
    done = run("outbox", *args, "--url", sent.url)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    told: dict[str, Any] = document(run("outbox", *args, "--url", sent.url, "--json"))
    assert (told["ok"], told["error"]["code"]) == (False, "invalid_argument")
    assert sent.states() == before
