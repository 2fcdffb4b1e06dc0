"""``offpath endpoints``: a secret is shown when it is made, and never again."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import pytest

import offpath
from offpath.events import Verifier
from offpath.events.webhook.signature import new_key_pair, signer
from offpath.jobs.client.core import core_of
from offpath.model.effects import Effects
from offpath.model.endpoint import stream_of
from offpath.model.new import Box, NewMessage
from offpath.runtime.ids import new_id
from tests.cli.conftest import Run, document
from tests.sqlite_files import migrated_url

HOOK = "https://shop.example/hooks"
GIVEN = "whsec_" + base64.b64encode(b"g" * 32).decode()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return migrated_url(tmp_path / "work.db")


def secrets_of(url: str, name: str = "shop") -> tuple[str, ...]:
    """The signer itself."""

    async def read() -> tuple[str, ...]:
        async with offpath.App(url, auto_start=False) as app:
            return next(one.secrets for one in await app.store().endpoints() if one.name == name)

    return asyncio.run(read())


def add(run: Run, url: str, *options: str) -> Any:
    return document(run("endpoints", "add", "shop", HOOK, *options, "--url", url, "--json"))


def test_a_new_endpoint_shows_its_secret_once(run: Run, url: str) -> None:
    done = run("endpoints", "add", "shop", HOOK, "--topic", "order.*", "--url", url)
    (secret,) = re.findall(r"whsec_\S+", done.stdout)
    assert (done.exit_code, (secret,)) == (0, secrets_of(url))
    assert "not shown again" in done.stderr
    for args in (
        ["list"],
        ["list", "--json"],
        ["show", "shop"],
        ["show", "shop", "--json"],
        ["add", "shop", HOOK],
        ["add", "shop", HOOK, "--json"],
        ["pause", "shop", "--json"],
        ["resume", "shop", "--json"],
        ["retire", "shop", "--json"],
    ):
        later = run("endpoints", *args, "--url", url)
        assert later.exit_code == 0
        assert "whsec_" not in later.output
        assert secret.removeprefix("whsec_") not in later.output
    assert secrets_of(url) == (secret,)


def test_an_endpoint_is_changed_by_adding_it_again(run: Run, url: str) -> None:
    assert add(run, url)["done"] == "added"
    before = secrets_of(url)
    told = add(
        run, url, "--topic", "a", "--topic", "b.*", "--stream", "mail", "--header", "X-A=1=2"
    )
    assert (told["done"], told["secret"]) == ("changed", None)
    assert (told["topics"], told["streams"]) == (["a", "b.*"], ["mail"])
    assert secrets_of(url) == before


def test_an_endpoint_may_decline_the_trace(run: Run, url: str) -> None:
    assert add(run, url)["trace"] is True
    assert add(run, url, "--no-trace")["trace"] is False
    shown = run("endpoints", "show", "shop", "--url", url)
    assert [line.split() for line in shown.output.splitlines() if "trace" in line] == [
        ["trace", "declined"]
    ]


def test_a_secret_may_be_given_and_is_not_told_back(run: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{GIVEN}\n")
    told = add(run, url, "--secret-file", str(tmp_path / "secret"))
    assert (told["secret"], told["secrets"], secrets_of(url)) == (None, 1, (GIVEN,))
    again = run(
        *("endpoints", "rotate", "shop", "--secret-file", "-", "--url", url, "--json"),
        stdin=f"{GIVEN.replace('Z2', 'Z3')}\n",
    )
    assert (again.exit_code, document(again)["secrets"]) == (0, 2)
    assert "whsec_" not in again.output


def test_an_ed25519_key_stays_here_and_its_public_half_is_told(run: Run, url: str) -> None:
    told = add(run, url, "--ed25519")
    (private,) = secrets_of(url)
    assert (told["secret"], told["public_key"][:5], private[:5]) == (None, "whpk_", "whsk_")
    signature = signer(private)(b"id.1.body").removeprefix("v1a,")
    assert Verifier(told["public_key"])._checkers[0](
        "v1a", base64.b64decode(signature), b"id.1.body"
    )
    person = run("endpoints", "rotate", "shop", "--ed25519", "--url", url)
    assert re.search(r"public key: whpk_\S+", person.stdout)
    assert "whsk_" not in person.output


def test_secrets_are_rotated_and_then_retired(run: Run, url: str) -> None:
    first = add(run, url)["secret"]
    told = document(run("endpoints", "rotate", "shop", "--url", url, "--json"))
    assert (told["secrets"], secrets_of(url)) == (2, (told["secret"], first))
    assert document(run("endpoints", "retire", "shop", "--url", url, "--json")) == {
        "ok": True,
        "retired": 1,
    }
    assert secrets_of(url) == (told["secret"],)


def test_an_endpoint_is_paused_and_resumed(run: Run, url: str) -> None:
    add(run, url)
    done = run("endpoints", "pause", "shop", "--reason", "they asked", "--url", url)
    assert (done.exit_code, done.stdout) == (0, "shop: paused\n")
    told = document(run("endpoints", "show", "shop", "--url", url, "--json"))
    assert (told["state"], told["reason"]) == ("paused", "they asked")
    assert "paused (they asked)" in run("endpoints", "show", "shop", "--url", url).stdout
    told = document(run("endpoints", "resume", "shop", "--url", url, "--json"))
    assert (told["state"], told["reason"]) == ("enabled", None)


async def _written(url: str, count: int) -> None:
    async with offpath.App(url, auto_start=False) as app:
        messages = [
            NewMessage(
                id=new_id(), box=Box.OUT, stream=stream_of("shop"), topic="order.paid", payload="1"
            )
            for _ in range(count)
        ]
        await core_of(app).client.commit(Effects(messages=tuple(messages)))


async def _ended(url: str) -> None:
    """Deliver what waits for the shop, as a worker would."""
    app = offpath.App(url, auto_start=False)
    app.outbox(stream_of("shop"), dispatcher=lambda event: None)
    async with app:
        await app.relay(stream_of("shop")).run_once()


def test_what_waits_is_counted_and_what_was_posted_is_replayed(run: Run, url: str) -> None:
    add(run, url)
    asyncio.run(_written(url, 3))
    (one,) = document(run("endpoints", "list", "--url", url, "--json"))["items"]
    assert (one["name"], one["due"], one["dead"], one["failures"]) == ("shop", 3, 0, 0)
    asyncio.run(_ended(url))
    assert document(run("endpoints", "show", "shop", "--url", url, "--json"))["due"] == 0
    refused = run("endpoints", "replay", "shop", "--since", "1h", "--url", url)
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    told = run("endpoints", "replay", "shop", "--since", "1h", "--yes", "--url", url, "--json")
    assert document(told) == {"ok": True, "replayed": 3}
    assert document(run("endpoints", "show", "shop", "--url", url, "--json"))["due"] == 3


def test_an_endpoint_is_removed_when_that_is_confirmed(run: Run, url: str) -> None:
    add(run, url)
    assert run("endpoints", "remove", "shop", "--url", url).exit_code == 2
    assert run("endpoints", "remove", "shop", "--yes", "--url", url).stdout == "shop: removed\n"
    assert run("endpoints", "list", "--url", url).stdout == "there are no endpoints\n"


def test_a_url_is_shown_without_its_token(run: Run, url: str) -> None:
    run("endpoints", "add", "shop", f"{HOOK}?token=hunter2", "--url", url)
    for args in (["list"], ["list", "--json"], ["show", "shop"]):
        assert "hunter2" not in run("endpoints", *args, "--url", url).output


@pytest.mark.parametrize(
    "args",
    [
        ["show", "nope"],
        ["pause", "nope"],
        ["resume", "nope"],
        ["rotate", "nope"],
        ["retire", "nope"],
        ["remove", "nope", "--yes"],
        ["replay", "nope", "--since", "1h", "--yes"],
    ],
)
def test_an_unknown_endpoint_is_not_found(run: Run, url: str, args: list[str]) -> None:
    done = run("endpoints", *args, "--url", url)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    told = document(run("endpoints", *args, "--url", url, "--json"))
    assert told["error"]["code"] == "endpoint_not_found"


@pytest.mark.parametrize(
    "args",
    [
        ["http://shop.example/"],
        ["https://10.0.0.1/"],
        ["https://0x7f.1/"],
        ["https://user:hunter2@shop.example/"],
        ["nonsense"],
        [HOOK, "--topic", "a*b"],
        [HOOK, "--header", "X-A"],
        [HOOK, "--header", "webhook-id=1"],
        [HOOK, "--secret-file", "absent"],
        [HOOK, "--secret-file", "-"],
        [HOOK, "--secret-file", "-", "--ed25519"],
    ],
)
def test_what_cannot_be_is_refused_in_one_line(run: Run, url: str, args: list[str]) -> None:
    done = run("endpoints", "add", "shop", *args, "--url", url, stdin="whsec_hunter2\n")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "hunter2" not in done.output
    assert document(run("endpoints", "list", "--url", url, "--json")) == {"ok": True, "items": []}


def test_a_key_pair_of_your_own_signs_too(run: Run, url: str) -> None:
    private, _ = new_key_pair()
    run("endpoints", "add", "shop", HOOK, "--secret-file", "-", "--url", url, stdin=private)
    assert secrets_of(url) == (private,)
