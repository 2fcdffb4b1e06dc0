"""Field names that the settings call secret are hidden in what handlers log."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from offpath import App, Context
from offpath.config import load_settings
from tests.unit.jobs.worker.rig import Rig


@pytest.mark.parametrize(("redact", "shown"), [((), "DE12"), (("iban",), "***")])
async def test_named_fields_are_hidden(
    rig: Rig, caplog: pytest.LogCaptureFixture, redact: tuple[str, ...], shown: str
) -> None:
    caplog.set_level(logging.INFO, logger="offpath")

    async def pay(ctx: Any, iban: str) -> None:
        ctx.logger.info("paying", extra={"token": "t-1"})

    rig.task(pay, log_context=lambda iban: {"customerIban": iban})
    await rig.enqueue("pay", '{"iban":"DE12"}')
    await rig.run(redact=redact)
    (record,) = [each for each in caplog.records if each.message == "paying"]
    assert (vars(record)["customerIban"], vars(record)["token"]) == (shown, "***")


async def test_the_setting_reaches_the_workers_of_an_app(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="offpath")
    settings = load_settings(url="memory://", redact=["iban"], environ={})
    app = App(settings=settings, auto_start=False)

    @app.task(log_context=lambda iban: {"iban": iban})
    async def pay(ctx: Context, iban: str) -> None:
        ctx.logger.info("paying")

    async with app:
        await pay.enqueue("DE12")
        await app.worker().run_until_idle()
    (record,) = [each for each in caplog.records if each.message == "paying"]
    assert vars(record)["iban"] == "***"
