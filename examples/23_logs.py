"""The job on every record of a logger that knows nothing of jobs.

``offpath.contrib.logging`` needs the standard library alone; for structlog there is a processor.
"""

import asyncio
import logging
import sys

import offpath
from offpath.contrib.logging import JobLogFilter, JobLogging

handler = logging.StreamHandler(sys.stdout)
handler.addFilter(JobLogFilter())
handler.setFormatter(logging.Formatter("%(message)s task=%(task)s attempt=%(attempt)s"))
log = logging.getLogger("shop.mail")
log.addHandler(handler)
log.setLevel(logging.INFO)

app = offpath.App(extensions=[JobLogging()], auto_start=False)


def deliver(order: int) -> None:
    """A function of a library of yours."""
    log.info("order %d delivered", order)


@app.task
def send_receipt(order: int) -> None:
    deliver(order)


async def main() -> None:
    async with app:
        await send_receipt.enqueue(7)
        await app.worker().run_until_idle()
    log.info("outside of a job")


asyncio.run(main())
