"""Texts that others chose: secrets in them are shown nowhere, and none of them comes to life."""

from __future__ import annotations

import contextlib
import html
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

import offpath
from offpath.economy import Actor, TopUp, credits
from offpath.model.health import (
    AgeGauge,
    Condition,
    LoopReport,
    SettlementReport,
    WorkerReport,
)
from offpath.model.lease import WorkerInfo
from offpath.model.post import PostOutcome, PostRecord
from offpath.model.route import Route
from offpath.model.run import RunKind, RunRecord, RunReport
from offpath.model.stats import MERGED, MINUTE, QueueLevel, StatRow, StatSpan, pair, written
from offpath.model.tally import Verdict
from offpath.runtime.ids import new_id
from offpath.web.console.application import API
from offpath.web.console.exports import exported
from offpath.web.console.readings import READINGS
from tests.browser.scene import LIVELY, SECRET
from tests.conformance.log_builders import append_many, declare, run_router
from tests.unit.web.dashboard.crawl import Page, crawl
from tests.unit.web.dashboard.rig import Site, add_economy, site_of
from tests.unit.web.dashboard.test_acting import post

MARK = f"{LIVELY} token={SECRET}"
"""A text with a secret, which tries to be live."""
URL = f"https://ann:{SECRET}@93.184.216.34/hooks?token={SECRET}"
OPS = Actor.operator("ops")
HOOK = f"https://93.184.216.34/hooks?token={SECRET}"


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    """An app in memory in which every text that somebody may choose is such a text."""
    made = offpath.App("memory://", auto_start=False)
    economy = add_economy(made)
    async with made:
        await _jobs(made)
        await _events(made)
        await _router(made)
        await _worker(made)
        await _kept(made)
        paid = TopUp(key=MARK, actor=OPS, user="ann", amount=credits(5), source="card")
        await economy.submit(paid)
        yield made


async def _jobs(app: offpath.App) -> None:
    @app.task(name=MARK, queue=MARK, retry=1, strict=False)
    async def fails(ctx: offpath.Context, given: dict[str, str]) -> None:
        await ctx.step(MARK, lambda: MARK)
        raise type(f"Broken token={SECRET}", (ValueError,), {})(MARK)

    @app.task(name=f"{MARK} limited", queue=MARK, limit=offpath.Limit(key=MARK, max_running=1))
    async def limited() -> None:
        """Never run."""

    sending = fails.options(
        tags=[MARK, f"postgres://ann:{SECRET}@db/x"], fair_key=MARK, unique=MARK,
        headers={"authorization": f"Bearer {SECRET}", "x-note": MARK},
    )  # fmt: skip
    handle = await app.enqueue(sending.job({MARK: MARK, "password": SECRET}))
    async with app.worker(queues=(MARK,)):
        with contextlib.suppress(offpath.JobEnded):
            await handle.result(timeout=50)
    await app.queues.pause(MARK)
    await app.enqueue([sending.job({"url": URL}), limited.job(), limited.job()])
    await app.schedules.create(MARK, limited.job(), every=3_600.0)
    await app.signal(MARK, MARK, {MARK: MARK})


async def _events(app: offpath.App) -> None:
    given = {"authorization": SECRET, "x-note": MARK}
    await app.log.append(MARK, MARK, MARK, {MARK: MARK}, key=MARK, headers=given)
    await app.publish(MARK, {MARK: MARK}, stream=MARK, key=MARK, headers=given)
    await app.webhooks.add(
        MARK, HOOK, topics=[MARK], streams=[MARK], headers={"authorization": SECRET, "x-note": MARK}
    )
    post = PostRecord(
        endpoint=MARK, message=new_id(), topic=MARK, at=await app.store().ping(), seconds=1.0,
        outcome=PostOutcome.REFUSED, why=MARK,
    )  # fmt: skip
    await app.store().put_posts([post])
    await app.webhooks.pause(MARK, MARK)


async def _router(app: offpath.App) -> None:
    store = app.store()
    route = Route(name=MARK, type=MARK, stream=MARK, deliver=f"task:{MARK}", enabled=True)
    await declare(store, MARK, domain=MARK, partitions=1, routes=(route,))
    ids = await append_many(store, 3, domain=MARK, stream=MARK, key=MARK)
    await run_router(store, MARK, failed=ids[:1])


async def _worker(app: offpath.App) -> None:
    info = WorkerInfo(
        id=new_id(), host=MARK, pid=1, version=MARK, concurrency=2, tasks=(MARK,), queues=(MARK,)
    )
    report = WorkerReport(
        loops=(
            LoopReport(
                name=MARK, condition=Condition.UNHEALTHY, state="failing", reason=MARK, skipped=MARK
            ),
        ),
        gauges=(AgeGauge(name=MARK, age=9.0, limit=1.0, router=MARK),),
        problems=(MARK,),
        running={MARK: 1},
        settlements=(
            SettlementReport(
                kind=MARK, period=MARK, verdict=Verdict.FAILED,
                started_at=datetime.now(UTC), cause=MARK,
            ),
        ),
        findings=(MARK,),
        crowded=(MARK,),
    )  # fmt: skip
    store = app.store()
    await store.register(info, lease_seconds=3_600.0)
    text = msgspec.json.encode(report).decode()
    await store.extend(info, lease_seconds=3_600.0, held=[], report=text)


async def _kept(app: offpath.App) -> None:
    """Rows about the past: findings, runs, stats and actions."""
    store, now = app.store(), await app.store().ping()
    await store.record_finding(MARK, MARK, new_id=new_id())
    report = RunReport(verdict=Verdict.DEGRADED, counts={MARK: 7}, period=MARK, cause=MARK)
    for kind in RunKind:
        await store.put_run(RunRecord(id=new_id(), kind=kind, name=MARK, at=now, report=report))
    span = StatSpan(
        jobs={"started": {pair(MARK, MARK): 3}}, levels={MARK: QueueLevel(looks=1, ready=1)},
        wait={MARK: {"1": 3}}, queue_wait={MARK: {"1": 3}}, passed={MARK: 1},
    )  # fmt: skip
    at = now.replace(second=0, microsecond=0) - timedelta(minutes=2)
    await store.put_stats([StatRow(step=MINUTE, at=at, source=MERGED, body=written(span))])
    for verb, target in (
        ("queue.resume", {"name": MARK}),
        ("route.switch", {"router": MARK, "route": f"{MARK} of nobody"}),
    ):
        asked = {"verb": verb, "target": target, "note": MARK}
        assert (await post(site_of(app), asked)).code == 200


@pytest.fixture
def site(app: offpath.App) -> Site:
    """Its dashboard, for one who may see everything."""
    return site_of(app)


SECTIONS = (
    "/jobs", "/queues", "/tasks", "/workers", "/routers", "/endpoints", "/schedules", "/limits",
    "/signals", "/messages", "/log", "/dead", "/runs", "/actions", "/health", "/ledger/postings",
)  # fmt: skip


async def test_pages_show_what_others_chose_as_text_and_without_secrets(site: Site) -> None:
    found = await crawl(site)
    leaks = [link for link, text in found.items() if SECRET in text or SECRET in link]
    assert leaks == []
    pages = {link: text for link, text in found.items() if text.startswith("<!doctype")}
    for link, text in pages.items():
        page = Page(text)
        assert (link, page.refused) == (link, [])
        assert None not in page.scripts, link
        assert "<script>" not in text, link
    shown = [link for link, text in pages.items() if html.escape(LIVELY) in text]
    missing = [one for one in SECTIONS if not any(link.startswith(one) for link in shown)]
    assert missing == [], "the text must have been there to be tried"


async def test_no_secret_is_in_the_api_or_an_export(site: Site) -> None:
    for one in READINGS:
        if "{" in one.path:
            continue  # those that the crawl has found
        answer = await site.get(API + one.path)
        assert (one.name, answer.code, SECRET in answer.text) == (one.name, 200, False)
        assert answer.headers["content-type"] == "application/json"
        if exported(one):
            for kind in ("csv", "ndjson"):
                told = await site.get(f"{API}{one.path}?format={kind}")
                assert (one.name, told.code, SECRET in told.text) == (one.name, 200, False)
                assert "html" not in told.headers["content-type"]
