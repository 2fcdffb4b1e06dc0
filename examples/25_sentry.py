"""A dead job is one error in Sentry, and each occurrence of a schedule a check-in of a monitor.

In a service ``init`` is given your DSN; here what would be sent is kept.
"""

import asyncio
from datetime import timedelta

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

import offpath
from offpath.contrib.sentry import OffpathIntegration
from offpath.testing import ManualClock, pass_time

sent: list[Envelope] = []


class Kept(Transport):
    """Keeps what would be sent."""

    def capture_envelope(self, envelope: Envelope) -> None:
        """Keep it."""
        sent.append(envelope)


sentry_sdk.init(
    dsn="http://key@localhost/1",
    transport=Kept,
    integrations=[OffpathIntegration(monitor_schedules=True)],
)
clock = ManualClock()
app = offpath.App(clock=clock, auto_start=False)


@app.task(retry=2)
async def charge(order: int) -> None:
    raise ConnectionError(f"order {order}: the provider is away")


@app.task
async def report() -> None: ...


app.schedule("nightly-report", report.job(), cron="0 3 * * *")


async def main() -> None:
    async with app:
        await charge.enqueue(7)
        await pass_time(app, clock, timedelta(hours=4))
        await pass_time(app, clock, timedelta(hours=1))


asyncio.run(main())
items = [item for envelope in sent for item in envelope.items]
for error in (one.payload.json for one in items if one.type == "event"):
    tags = error["tags"]
    print(
        "error:", error["exception"]["values"][-1]["type"], tags["task"], "attempt", tags["attempt"]
    )
for check_in in (one.payload.json for one in items if one.type == "check_in"):
    print("monitor:", check_in["monitor_slug"], check_in["status"])
