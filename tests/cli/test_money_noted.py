"""Commands that move or judge money are noted: who, what, how many, and what was left alone."""

from __future__ import annotations

import pytest

from tests.cli.test_money import DECLINED, SPEND, TOP_UP, Money, money

__all__ = ["money"]


def noted(money: Money) -> list[tuple[str, str, int, dict[str, int]]]:
    """The actions of the commands, the oldest first, each with its counts."""
    found = money.json("audit", "list", "--url", money.url)["items"]
    assert {one["via"] for one in found} == {"cli"}
    return [(one["verb"], one["state"], one["changed"], one["reasons"]) for one in reversed(found)]


def test_each_command_that_moves_or_judges_money_is_noted(money: Money) -> None:
    url = ("--url", money.url)
    money.submit(TOP_UP, SPEND, DECLINED)
    money.text("economy", "pause")
    money.text("economy", "resume")
    money.text("economy", "resume")
    money.text("economy", "release", "--reason", "the cash was paid in")
    money.text("ledger", "checkpoint", *url)
    money.text("ledger", "checkpoint", *url)
    money.text("ledger", "prove", *url)
    money.text("ledger", "prove", "--since", "2020-01-01T00:00Z", *url)
    money.text("ledger", "verify", *url)
    assert [(verb, state) for verb, state, _, _ in noted(money)] == [
        ("economy.submit", "done"),
        ("economy.pause", "done"),
        ("economy.resume", "done"),
        ("economy.resume", "done"),
        ("economy.release", "done"),
        ("ledger.checkpoint", "done"),
        ("ledger.checkpoint", "done"),
        ("ledger.prove", "done"),
        ("ledger.prove_part", "done"),
        ("ledger.verify", "done"),
    ]
    submitted, _, resumed, again, released, sealed, idle, proved, part, verified = noted(money)
    assert submitted[2:] == (2, {"rejected": 1})
    assert (resumed[2:], again[2:]) == ((1, {}), (0, {"not_paused": 1}))
    assert released[2:] == (0, {"nothing_rested": 1})
    assert (sealed[2:], idle[2:]) == ((1, {}), (0, {"nothing_was_posted_since": 1}))
    assert (proved[2] > 0, part[2] > 0, verified[2:]) == (True, True, (1, {}))


def test_a_release_is_noted_with_its_reason_and_who_it_was(
    money: Money, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFPATH_ACTOR", "ann")
    money.submit(TOP_UP)
    money.text("economy", "release", "--reason", "the cash was paid in")
    newest = money.json("audit", "list", "--url", money.url)["items"][0]
    assert (newest["actor"], newest["note"]) == ("ann", "the cash was paid in")


def test_a_refused_operation_of_a_command_is_noted_as_failed(money: Money) -> None:
    money.submit(TOP_UP)
    money.text(
        *("ledger", "accept", "0198c0de-0000-7000-8000-000000000001"),
        *("--reason", "restored", "--url", money.url),
        code=3,
    )
    (*_, last) = noted(money)
    assert last[:3] == ("finding.accept", "failed", 0)
