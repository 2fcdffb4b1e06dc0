"""A store in which there is one of everything that the dashboard shows."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator
from datetime import datetime, timedelta

import offpath
from offpath.model.lease import WorkerInfo
from offpath.model.post import PostOutcome, PostRecord
from offpath.model.stats import MERGED, MINUTE, QueueLevel, StatRow, StatSpan, pair, written
from offpath.runtime.clock import Clock
from offpath.runtime.ids import new_id

SECRET = "hunter2-marker"
LIVELY = "<script>window.hacked = true</script>"


def make_app(url: str, lively: str = LIVELY, clock: Clock | None = None) -> offpath.App:
    """An app with tasks that do well, fail and wait; some texts of it try to be live."""
    app = offpath.App(url, auto_start=False, migrate=True, clock=clock)

    @app.task(queue="mail", retry=1)
    async def send_mail(to: str, password: str) -> None:
        msg = f"Connection to smtp{len(to)}.example.org unexpectedly closed, password={password}"
        raise ConnectionResetError(msg)

    @app.task(queue="images", retry=1)
    async def thumbnail(path: str) -> None:
        msg = f"{path} is not an image {lively}".strip()
        raise ValueError(msg)

    @app.task(queue="exports")
    async def export(month: str) -> str:
        return month

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task(limit=offpath.Limit(key="api.example.org", max_running=2))
    async def fetch(page: int) -> int:
        return page

    @app.task
    async def resize(size: int) -> int:
        return size

    @app.task
    async def approve() -> str:
        """Wait for somebody's word."""
        return "approved"

    @app.task
    async def album(ctx: offpath.Context, pictures: int) -> offpath.Plan[None, object]:
        """Resize every picture, export them, and have somebody approve them."""
        several = [resize.job(n) for n in range(pictures)]
        return ctx.queue(*several, export.job(month="2026-12")).next(
            approve.job(), timeout=timedelta(days=2)
        )

    @app.task
    async def nightly_report() -> None:
        raise offpath.Abort

    return app


async def fill(
    app: offpath.App, *, dead: int = 12, close: bool = True, lively: str = LIVELY
) -> None:
    """Run some of it, and leave the rest waiting."""
    tasks = app.tasks
    async with contextlib.AsyncExitStack() as stack:
        await app.open()
        if close:
            stack.push_async_callback(app.close)
        mail, thumb, add = (tasks[name] for name in ("send_mail", "thumbnail", "add"))
        jobs = [mail.job(to=f"ann{n}@example.org", password=SECRET) for n in range(dead)]
        jobs += [thumb.job(path=f"/srv/pictures/{n}.png") for n in range(3)]
        jobs += [tasks["album"].job(pictures=30)]
        jobs += [add.options(tags=["vip", lively or "eu"]).job(n, b=1) for n in range(20)]
        handles = await app.enqueue(jobs)
        async with app.worker(queues=("mail", "images", "default")):
            for handle in handles:
                with contextlib.suppress(offpath.JobEnded):
                    await handle.result(timeout=50)
        await app.enqueue([tasks["export"].job(month=f"2026-{n:02}") for n in range(1, 6)])
        await app.enqueue([tasks["fetch"].job(page=n) for n in range(6)])
        await app.enqueue([add.options(delay=3_600).job(n, b=2) for n in range(4)])
        await app.schedules.create(
            "nightly", tasks["nightly_report"].job(), cron="0 3 * * *", zone="Europe/Berlin"
        )
        await app.schedules.create("poll", add.job(1, b=2), every=30.0)
        await app.queues.pause("images")
        await app.signal(f"order-{lively or 7}", "paid", {"amount": 12, "token": SECRET})
        await app.log.append(
            "iu", "paid", "orders", {"order": 7, "token": SECRET}, key=lively or "ann"
        )
        await app.publish("order.paid", {"order": 7, "token": SECRET}, key=lively or "ann")
        await app.publish("order.sent", {"order": 8}, stream="billing")
        await app.webhooks.add("shop", "https://93.184.216.34/hooks", topics=["order.*"])
        await app.store().put_posts(list(posts_to("shop", await app.store().ping())))
        router = app.router("iu", domain="iu", start="beginning")
        router.route(type="paid", deliver=add, name="call")
        await router.record()
        store = app.store()
        worker = WorkerInfo(
            id="0198c0de-0000-7000-8000-00000000beef",
            host="web-1",
            pid=4242,
            version=offpath.__version__,
            concurrency=20,
            tasks=("send_mail", "thumbnail", "add", "fetch"),
            queues=("mail", "images", "default"),
        )
        await store.put_stats(list(an_hour(await store.ping())))
        await store.register(worker, lease_seconds=timedelta(hours=1).total_seconds())


def posts_to(endpoint: str, now: datetime) -> Iterator[PostRecord]:
    """The last posts to an endpoint: it was overloaded, and answers again."""
    for number in range(12):
        status = (200, 204, 503, None, 200, 429)[number % 6]
        outcome, why = _ANSWERS.get(status, (PostOutcome.DELIVERED, None))
        yield PostRecord(
            endpoint=endpoint,
            message=new_id(),
            topic="order.paid",
            at=now - timedelta(seconds=40 * number),
            seconds=20.0 if status is None else 0.04 * (number + 1),
            outcome=outcome,
            status=status,
            why=why,
        )


_ANSWERS: dict[int | None, tuple[PostOutcome, str | None]] = {
    None: (PostOutcome.REFUSED, "no answer within 20 s"),
    429: (PostOutcome.LATER, "asked for 60 s"),
    503: (PostOutcome.REFUSED, "status 503"),
}


def an_hour(now: datetime) -> Iterator[StatRow]:
    """The stats of the last hour, as a busy shop has them: a wave, and a failing mail server."""
    first = now.replace(second=0, microsecond=0) - timedelta(hours=1)
    for minute in range(59):
        wave = 1 + 0.5 * math.sin(minute / 9)
        ended, failed = round(5_400 * wave), 0 if minute < _FAILS_FROM else 40 * minute
        mail = pair("mail", "send_mail")
        due = round(60 * wave + max(minute - _FAILS_FROM, 0) * 30)
        span = StatSpan(
            jobs={"started": {mail: ended}, "succeeded": {mail: ended}, "failed": {mail: failed}},
            wait={"send_mail": {str(7 + minute // 15): ended}},
            run={"send_mail": {"6": ended}},
            levels={"mail": QueueLevel(looks=1, ready=due, running=20, oldest=due / 90)},
            workers=(1, 4),
        )
        at = first + timedelta(minutes=minute)
        yield StatRow(step=MINUTE, at=at, source=MERGED, body=written(span))


_FAILS_FROM = 40

if __name__ == "__main__":
    import sys

    asyncio.run(fill(make_app(sys.argv[1])))
