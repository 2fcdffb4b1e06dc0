"""N5, N8: what is printed, logged or raised shows neither arguments nor passwords."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from offpath import App, Context, InvalidArgument
from offpath.config import normal_url
from offpath.errors import ConfigurationError
from offpath.model.redact import redact_url
from offpath.model.settlement import Succeeded
from offpath.model.unsent import unsent
from offpath.store.postgres.address import parse_address

MARK = "correct-horse-battery"


@pytest.mark.parametrize(
    "url",
    [
        f"user:{MARK}@host",
        f"user:{MARK}@host/database",
        f"//user:{MARK}@host/database",
        f"postgres:/user:{MARK}@host",
        f"postgresql//user:{MARK}@host/database",
        f"mysql://user:{MARK}@host/database",
        f"mysql://user:two words {MARK}@host/database",
        f"mongodb://:{MARK}@host",
    ],
)
def test_a_url_that_is_refused_shows_no_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        normal_url(url)
    assert MARK not in str(refused.value)
    assert "host" in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["postgresql://host/database", "postgresql://user@host:5432/database", "sqlite:////tmp/a.db"],
)
def test_a_url_without_a_password_stays_readable(url: str) -> None:
    assert redact_url(url) == url


@pytest.mark.parametrize("cut", ["/", "#", "[", "]"])
def test_a_password_that_cuts_its_url_is_refused_unshown(cut: str) -> None:
    with pytest.raises(InvalidArgument, match="%2F") as refused:
        parse_address(f"postgresql://user:bat{cut}{MARK}@host/database")
    assert MARK not in str(refused.value)


async def test_no_value_of_a_job_shows_what_its_user_put_in() -> None:
    events: list[Any] = []
    app = App(auto_start=False, on_event=events.append)

    @app.task(retry=1)
    async def good(ctx: Context, text: str) -> str:
        await ctx.progress(1, note=text)
        return text

    @app.task(retry=1)
    async def bad(text: str) -> str:
        raise ValueError(text)

    async with app:
        handles = await app.enqueue([good.job(MARK), bad.job(MARK)])
        await app.worker().run_until_idle()
        records = [await handle.status() for handle in handles]
        page = await app.jobs.find()
    assert MARK in str(records[0].result) + str(records[0].progress)
    assert MARK in str(records[1].failure and records[1].failure.message)
    new = good.job(MARK)
    shown = [
        *records,
        page,
        events,
        new,
        unsent(new).new,
        Succeeded(result=MARK),
        records[1].failure,
    ]
    for one in shown:
        assert MARK not in repr(one)
    assert "good" in repr(records[0])
    rich: Any = records[0]
    assert MARK not in repr(rich.__rich_repr__())


async def test_nothing_that_raises_brings_arguments_into_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every hook quotes the argument in what it raises; the log has kinds and phases only."""
    caplog.set_level(logging.INFO)
    seen: list[str] = []

    def raising(*given: object, **_: object) -> Any:
        seen.append(type(given[0]).__name__)
        raise RuntimeError(MARK)

    app = App(
        auto_start=False,
        on_event=raising,
        on_error=raising,
        on_failure=raising,
        log_context=raising,
    )

    @app.task(retry=1)
    async def bad(text: str) -> str:
        raise ValueError(text)

    @app.task(retry=1)
    async def leaves(text: str) -> str:
        raise SystemExit(text)

    async with app:
        await app.enqueue([bad.job(MARK), leaves.job(MARK)])
        counts = await app.worker().run_until_idle()
        metrics = repr(app.metrics.list())
    assert counts.dead == 2
    assert {"str", "JobEvent", "ValueError", "RuntimeError"} <= set(seen)
    formatter = logging.Formatter()
    lines = [f"{formatter.format(one)} {vars(one)}" for one in caplog.records]
    assert lines
    assert [line for line in lines if MARK in line] == []
    assert MARK not in metrics
