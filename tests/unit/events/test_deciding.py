"""The most specific route wins; gates and switches close, never open, by accident."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec import structs

from offpath.model.route import AttemptStatus, LogEvent, Route, RouterRecord
from offpath.model.route_decision import decide, matches

AT = datetime(2026, 1, 1, tzinfo=UTC)
GATES = RouterRecord(
    name="iu",
    domain="iu",
    partitions=1,
    open=True,
    master=True,
    routes=(),
    cursors=(),
    created_at=AT,
)
EVENT = LogEvent(
    position=7, id="e", domain="iu", type="order.paid", stream="eu", payload="{}", at=AT
)


def _live(name: str, **parts: str) -> Route:
    return Route(name=name, enabled=True, dry_run=False, **parts)


@pytest.mark.parametrize(
    ("routes", "winner"),
    [
        ([_live("any"), _live("type", type="order.paid")], "type"),
        ([_live("type", type="order.paid"), _live("stream", stream="eu")], "type"),
        ([_live("prefix", type="order.*"), _live("exact", type="order.paid")], "exact"),
        ([_live("short", type="order.*"), _live("shorter", type="o.*")], "short"),
        (
            [_live("both", type="order.*", stream="eu"), _live("one", type="order.*")],
            "both",
        ),
        ([_live("b"), _live("a")], "a"),
        ([_live("other", type="order.sent")], "-"),
        ([], "-"),
    ],
)
def test_the_most_specific_route_wins(routes: list[Route], winner: str) -> None:
    assert decide(EVENT, routes, gates=GATES).route == winner
    assert decide(EVENT, routes[::-1], gates=GATES).route == winner


@pytest.mark.parametrize(
    ("route", "status"),
    [
        (Route(name="r"), AttemptStatus.DISABLED),
        (Route(name="r", enabled=True), AttemptStatus.DRY_RUN),
        (Route(name="r", dry_run=False), AttemptStatus.DISABLED),
        (Route(name="r", enabled=True, dry_run=False), AttemptStatus.SENT),
    ],
)
def test_a_new_route_does_nothing_until_it_is_told(route: Route, status: AttemptStatus) -> None:
    assert decide(EVENT, [route], gates=GATES).status is status


@pytest.mark.parametrize("closed", [{"open": False}, {"master": False}])
def test_a_closed_gate_sends_nothing(closed: dict[str, bool]) -> None:
    gates = structs.replace(GATES, **closed)
    assert decide(EVENT, [_live("r")], gates=gates).status is AttemptStatus.DISABLED


def test_an_event_without_a_route_is_skipped_under_a_key_of_its_own() -> None:
    attempt = decide(EVENT, [], gates=GATES)
    assert attempt.status is AttemptStatus.SKIPPED
    assert attempt.key == "iu:-:e"


def test_a_pattern_is_a_name_a_prefix_or_everything() -> None:
    assert matches("a.b", "a.b")
    assert matches("a.*", "a.b.c")
    assert matches("*", "anything")
    assert not matches("a.*", "a")
    assert not matches("a.*", "ab.c")
    assert not matches("a", "a.b")
