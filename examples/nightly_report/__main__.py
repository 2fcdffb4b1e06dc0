"""A nightly report over a week in which the clocks change: each night once, for the right day."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from offpath import App, Context
from offpath.testing import ManualClock

BERLIN = ZoneInfo("Europe/Berlin")

clock = ManualClock(datetime(2026, 3, 26, 12, tzinfo=UTC))
app = App(auto_start=False, clock=clock)


@app.task
async def report(ctx: Context, region: str) -> None:
    """Report about the day before the night that it was made for, however late it runs."""
    night = ctx.scheduled_for
    if night is None:
        raise ValueError("made by hand: say which day")
    local = night.astimezone(BERLIN)
    day = local.date() - timedelta(days=1)
    print(f"{region}: {day:%d %B}, made for {local:%H:%M} ({night:%H:%M} UTC)")


# 02:30 does not exist in the night to the 29th: it comes at 03:00 then.
app.schedule("nightly", report.job("eu"), cron="30 2 * * *", zone="Europe/Berlin", overlap="skip")


async def live(hours: int) -> None:
    """A worker lives so long."""
    for _ in range(hours * 2):
        clock.advance(1800)
        await app.worker().run_until_idle()


async def main() -> None:
    async with app:
        await app.worker().run_until_idle()  # puts the schedule
        await live(4 * 24)
        clock.advance(timedelta(days=3))  # nobody works for three days: one night is made up for
        await live(1)
        await app.schedules.pause("nightly")
        await live(2 * 24)
        await app.schedules.resume("nightly")
        await live(24)
        history = await app.schedules.history("nightly")
        print([one.outcome.value for one in reversed(history)])


if __name__ == "__main__":
    asyncio.run(main())
