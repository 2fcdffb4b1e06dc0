"""Code of Celery's on offpath: one import is another, and tasks become native one by one.

Celery need not be installed. ``offpath celery scan .`` tells beforehand what becomes of your code.
"""

import offpath
from offpath.contrib.celery import Celery, NotInShim, chord, shared_task

jobs = offpath.App("sqlite:///moved.db", auto_start=False)
app = Celery("shop", offpath=jobs)


@app.task(bind=True, autoretry_for=(ConnectionError,), default_retry_delay=0)
def fetch(self, page):  # noqa: ANN001, ANN201 - as Celery's users write it
    if not self.request.retries:
        raise ConnectionError("busy")
    return page * 10


@shared_task
def total(numbers):  # noqa: ANN001, ANN201 - as above
    return sum(numbers)


@jobs.task
async def announce(ctx: offpath.Context, amount: int) -> str:
    return f"{amount} in all, attempt {ctx.attempt}"


def work() -> None:
    """Run what is due; in a service a process does it: ``offpath worker shop:jobs``."""
    jobs.blocking.run(lambda: jobs.worker().run_until_idle())


jobs.blocking.migrate()
result = chord([fetch.s(1), fetch.s(2)])(total.s())
print("before:", result.state)
work()
print("after:", result.state, result.get(timeout=10))
handle = jobs.blocking.enqueue(announce.job(result.get()))
work()
print("native:", handle.result(timeout=10))
try:
    app.task(soft_time_limit=5)(lambda: None)
except NotInShim as refused:
    print("refused:", refused)
jobs.blocking.close()
