"""An economy's settings: from arguments and the environment, and what is wrong told at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offpath import App
from offpath.economy import DECLINED, Economy, EconomyConfigInvalid, Rates
from offpath.economy.ledger.configuration import load_economy_settings
from offpath.economy.ledger.rules import rules_of
from offpath.economy.ledger.settings import EconomySettings
from offpath.errors import InvalidArgument
from offpath.jobs.client.core import core_of


def test_the_defaults_are_those_of_the_spec() -> None:
    settings = load_economy_settings(environ={})
    assert settings == EconomySettings()
    assert settings.platform_fee_bps == 1530
    assert settings.payout_fee_bps == 150
    assert settings.max_payout_age == 72 * 3_600
    assert settings.payout_min_earned_minor == 2_000_000
    assert settings.velocity_limit_minor == 100_000
    assert (settings.sla_pending, settings.sla_submitted, settings.sla_default) == (30, 120, 60)
    assert settings.origins == ()


def test_an_argument_wins_over_the_environment() -> None:
    environ = {
        "OFFPATH_ECONOMY_PLATFORM_FEE_BPS": "100",
        "OFFPATH_ECONOMY_PAYOUT_FEE_BPS": "7",
        "OFFPATH_ECONOMY_MAX_PAYOUT_AGE": "72h",
        "OFFPATH_ECONOMY_MATURITY_CARD": "1500ms",
        "OFFPATH_ECONOMY_TOP_UP_BUNDLES_MINOR": "100, 200",
        "OFFPATH_ECONOMY_PAUSE_START": "2026-01-01T00:00:00Z",
        "OFFPATH_ECONOMY_PAUSE_END": "2026-01-01T01:00:00+00:00",
    }
    settings = load_economy_settings(
        environ=environ, platform_fee_bps=200, velocity_window=timedelta(minutes=5)
    )
    assert settings.platform_fee_bps == 200
    assert settings.payout_fee_bps == 7
    assert settings.max_payout_age == 259_200.0
    assert settings.maturity_card == 1.5
    assert settings.velocity_window == 300.0
    assert settings.top_up_bundles_minor == (100, 200)
    assert settings.pause_end == datetime(2026, 1, 1, 1, tzinfo=UTC)
    origins = dict(settings.origins)
    assert origins["platform_fee_bps"] == "argument"
    assert origins["payout_fee_bps"] == "environment (OFFPATH_ECONOMY_PAYOUT_FEE_BPS)"


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(EconomyConfigInvalid) as raised:
        load_economy_settings(
            environ={
                "OFFPATH_ECONOMY_PAYOUT_FEE_BPS": "lots",
                "OFFPATH_ECONOMY_PLATFORM_FEE": "1",
            },
            platform_fee_bps=10_001,
            max_batch=0,
            colour="red",
        )
    message = str(raised.value)
    for word in ("payout_fee_bps", "platform_fee_bps", "max_batch", "colour", "PLATFORM_FEE"):
        assert word in message
    assert "did you mean OFFPATH_ECONOMY_PLATFORM_FEE_BPS?" in message
    assert raised.value.code == "CONFIG.INVALID"


@pytest.mark.parametrize(
    "given",
    [
        {"subscription_price_min_minor": 10, "subscription_price_max_minor": 9},
        {"pause_start": datetime(2026, 1, 1, tzinfo=UTC)},
        {
            "pause_start": datetime(2026, 1, 2, tzinfo=UTC),
            "pause_end": datetime(2026, 1, 1, tzinfo=UTC),
        },
        {"pause_start": datetime(2026, 1, 1), "pause_end": datetime(2026, 1, 2)},  # noqa: DTZ001
        {"velocity_limit_minor": 0},
        {"velocity_limit_minor": 1.5},
        {"velocity_limit_minor": True},
        {"velocity_window": float("nan")},
        {"top_up_bundles_minor": (0,)},
        {"pause_start": "yesterday"},
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(EconomyConfigInvalid):
        load_economy_settings(environ={}, **given)


def test_sources_without_a_wait_of_their_own_wait_as_cards_do() -> None:
    rules = rules_of(EconomySettings(maturity_card=60.0, maturity_steam=5.0), Rates())
    assert rules.horizon("card") == rules.horizon("crypto") == 60_000
    assert rules.horizon("steam") == 5_000
    assert rules.horizon(None) == rules.horizon("pigeon") == 60_000
    assert rules.longest == 60_000


def test_in_production_the_anchors_must_be_given_or_declined() -> None:
    """§12"""
    with pytest.raises(EconomyConfigInvalid) as raised:
        Economy(App(), production=True)
    for word in ("velocity_limit_minor", "maturity_card", "directory", "anchor"):
        assert word in str(raised.value)
    economy = Economy(
        App(),
        production=True,
        velocity_limit_minor=1,
        maturity_card=0.0,
        directory=DECLINED,
        anchor=DECLINED,
    )
    assert economy.ports.directory is None
    assert economy.ports.anchor is None


def test_an_app_has_one_economy() -> None:
    app = App()
    with pytest.raises(InvalidArgument):
        _ = app.economy
    economy = Economy(app)
    assert app.economy is economy
    assert core_of(app).economies == [economy]
    with pytest.raises(InvalidArgument):
        Economy(app)
