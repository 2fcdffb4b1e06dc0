"""Each alert fires at the first event, is silent while there is none, and clears: by promtool."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Struct

from tests.architecture.test_alerts import ALERTS
from tests.conftest import missing_server
from tests.prometheus import PACKAGE, RULES, Look, promtool, told


class Course(Struct, frozen=True):
    """The course of one series when all is well, and when something happens at minute 60."""

    series: str
    well: str
    ill: str


WELL = 50
"""A minute at which nothing has happened yet."""
FIRST = 60
"""The minute of the event."""
RISES = "0x59 1x180"
"""A counter that exists, and has its first event."""
BORN = "_x59 1x180"
"""One of labels that nobody knew: it begins with its first event."""
GROWS = "0x59 0+1x30 30x180"
STILL = "0x300"


def counted(series: str, *ways: str) -> list[list[Course]]:
    return [[Course(series, STILL, way)] for way in ways]


def gauge(series: str, well: float, ill: float) -> list[list[Course]]:
    return [[Course(series, f"{well}x300", f"{well}x59 {ill}x30 {well}x210")]]


def age(what: str) -> list[list[Course]]:
    return gauge(f'offpath_waiting_oldest_seconds{{what="{what}"}}', 0, 301)


class Case(Struct, frozen=True):
    """The courses of an alert; each is another way in which it comes to fire."""

    courses: list[list[Course]]
    within: int = 2
    """Minutes after the event in which it fires."""
    clears: int = 59
    """Minutes after the event in which it is over."""


_DEAD = 'offpath_messages_total{box="out",stream="s",outcome="dead"}'
_SUCCESS = 'offpath_loop_last_success_timestamp_seconds{loop="claim"}'
_WINDOW = Course('offpath_loop_window_seconds{loop="claim"}', "60x300", "60x300")

CASES: dict[str, Case] = {
    "OffpathNoWorker": Case(gauge("offpath_worker_up", 1, 0), within=3),
    "OffpathWorkersLost": Case(
        counted('offpath_jobs_rescued_total{task="t",queue="q"}', RISES, BORN)
    ),
    "OffpathLoopFailing": Case(gauge('offpath_loop_consecutive_failures{loop="claim"}', 0, 4)),
    "OffpathLoopStale": Case(
        # its last success stays where it was for five minutes and more
        [[Course(_SUCCESS, "0+60x300", "0+60x59 3540x20 4800+60x220"), _WINDOW]],
        within=6,
    ),
    "OffpathLoopRestarts": Case(
        counted('offpath_loop_restarts_total{loop="claim"}', "0x59 0+1x3 3x240"), within=5
    ),
    "OffpathJobsWait": Case(age("the oldest due job of queue mail")),
    "OffpathEventsWait": Case(age("the oldest undelivered event of stream s")),
    "OffpathInboxWaits": Case(age("the oldest unapplied inbox message of stream s")),
    "OffpathDeadLettersWait": Case(
        gauge('offpath_waiting_oldest_seconds{what="the oldest dead letter"}', 0, 604_801)
    ),
    "OffpathJobsDie": Case(counted('offpath_jobs_dead_total{task="t",queue="q"}', RISES, BORN)),
    "OffpathPublicationFails": Case(
        counted('offpath_messages_total{box="out",stream="s",outcome="failed"}', "0x59 12x240")
    ),
    "OffpathMessagesDie": Case(counted(_DEAD, RISES, BORN)),
    "OffpathWebhookFailing": Case(
        counted(
            'offpath_messages_total{box="out",stream="webhook:a",outcome="dead"}', "0x59 12x240"
        )
    ),
    "OffpathRouterLetters": Case(
        counted('offpath_router_attempts_total{router="r",status="failed"}', RISES, BORN)
    ),
    "OffpathRouterBehind": Case(
        [
            [
                *gauge('offpath_router_lag_seconds{router="r"}', 0, 301)[0],
                Course('offpath_router_open{router="r"}', "1x300", "1x300"),
                # another router runs well, and hides nothing
                Course('offpath_router_lag_seconds{router="other"}', STILL, STILL),
                Course('offpath_router_open{router="other"}', "1x300", "1x300"),
            ]
        ]
    ),
    "OffpathSweepFailing": Case(
        counted('offpath_sweep_passes_total{sweep="s",outcome="failed"}', "0x59 0+1x5 5x240"),
        within=6,
    ),
    "OffpathSettlementNotClean": Case(
        gauge('offpath_settlement_consecutive_failures{kind="rebate"}', 0, 1)
    ),
    "OffpathTreasuryBreach": Case(counted("offpath_economy_breaches_total", RISES)),
    "OffpathLedgerMismatch": Case(
        [
            *counted('offpath_economy_verifications_total{outcome="mismatch"}', RISES),
            *counted(
                'offpath_sweep_rows_total{sweep="economy.checkpoint",bucket="dead_lettered"}', RISES
            ),
        ]
    ),
    "OffpathPayoutsDie": Case(
        counted('offpath_economy_payouts_dead_total{reason="payout.timeout"}', RISES, BORN),
        clears=62,
    ),
    "OffpathPayoutStuck": Case(
        counted('offpath_economy_payout_findings_total{finding="pending_past_timeout"}', RISES)
    ),
    "OffpathAnchorFails": Case(
        counted('offpath_economy_anchorings_total{outcome="failed"}', "0x59 0+1x5 5x240"), within=6
    ),
    "OffpathFinding": Case(gauge('offpath_findings{kind="limit.full"}', 0, 1)),
    "OffpathStoreErrors": Case(
        counted(
            'offpath_store_errors_total{backend="b",operation="lease",error="E"}', "0x59 12x240"
        )
    ),
}
WAYS = [(name, n) for name, case in CASES.items() for n in range(len(case.courses))]


@pytest.fixture(scope="module")
def tool() -> str:
    found = promtool()
    if found is None:
        missing_server(f"promtool is not installed: apt-get install {PACKAGE}")
    return found


def test_each_alert_has_a_case() -> None:
    assert sorted(CASES) == sorted(rule["alert"] for rule in ALERTS)
    assert RULES.is_file()


@pytest.mark.parametrize(("alert", "way"), WAYS)
def test_an_alert_fires_at_the_first_event_and_is_silent_before_and_after(
    tool: str, tmp_path: Path, alert: str, way: int
) -> None:
    case = CASES[alert]
    happens = {course.series: course.ill for course in case.courses[way]}
    nothing = {course.series: course.well for course in case.courses[way]}

    looks = (
        Look(nothing, FIRST + case.within, fires=False),
        Look(happens, WELL, fires=False),
        Look(happens, FIRST + case.within, fires=True),
        Look(happens, FIRST + case.clears, fires=False),
    )
    assert told(tool, tmp_path, alert, looks) == ""


def test_a_closed_router_is_no_alert(tool: str, tmp_path: Path) -> None:
    series = {
        'offpath_router_lag_seconds{router="r"}': "9000x300",
        'offpath_router_open{router="r"}': STILL,
    }
    assert told(tool, tmp_path, "OffpathRouterBehind", [Look(series, FIRST, fires=False)]) == ""


def test_what_does_not_fire_as_it_should_is_seen(tool: str, tmp_path: Path) -> None:
    gone = {"offpath_worker_up": STILL}
    assert "FAILED" in told(tool, tmp_path, "OffpathNone", [Look(gone, FIRST, fires=True)])
    assert "FAILED" in told(tool, tmp_path, "OffpathNoWorker", [Look(gone, FIRST, fires=False)])
