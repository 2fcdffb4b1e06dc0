"""Bad days of the dashboard on real databases: away, slow, older, newer, never migrated."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import offpath
from offpath.model.action import ActionState
from offpath.model.job import JobState
from offpath.operating import actions
from offpath.operating.action_loop import ActionLoop
from offpath.operating.steps import CHUNK
from offpath.web.console import places, shares
from tests.contrib.urls import run_sql
from tests.integration.polling import eventually
from tests.sqlite_files import migrated_url
from tests.unit.web.dashboard.rig import BEARER, Answer, Site, site_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.servers import PostgresCluster

PEOPLE = {**BEARER, "accept": "text/html"}


async def closed(site: Site) -> None:
    """Close what the site has opened."""
    inner: Any = site.app
    async with inner._inner.lifespan_context(inner._inner):
        pass


@pytest.fixture
async def opened() -> AsyncIterator[list[Site]]:
    """Sites that are closed after the test."""
    made: list[Site] = []
    yield made
    for one in made:
        await closed(one)


async def asked(site: Site, path: str = "/queues") -> Answer:
    """A page, as a person asks for it, whatever was shared before."""
    return await site.get(path, headers=PEOPLE)


def _table(url: str) -> str:
    return "offpath_migration" if url.startswith("sqlite") else "offpath.migration"


async def test_a_schema_that_is_older_is_said_with_what_to_do(url: str, opened: list[Site]) -> None:
    table = _table(url)
    last = run_sql(url, f"select max(number) from {table}")[0][0]
    run_sql(url, f"delete from {table} where number = {last}")
    site = site_of(url)
    opened.append(site)
    page = await asked(site)
    assert page.code == 503
    assert "SCHEMA_OUTDATED" in page.text
    assert "offpath migrate" in page.text
    assert str(last) in page.text
    assert (await site.get("/readyz")).code == 503
    assert (await site.get("/healthz")).code == 200
    # nothing was put right behind anybody's back
    assert run_sql(url, f"select max(number) from {table}")[0][0] == last - 1


async def test_a_schema_that_is_newer_is_left_alone(url: str, opened: list[Site]) -> None:
    table = _table(url)
    columns = "number, name, checksum, applied_at"
    run_sql(
        url,
        f"insert into {table} ({columns}) select 9999, 'of_tomorrow', checksum, applied_at "
        f"from {table} where number = 1",
    )
    site = site_of(url)
    opened.append(site)
    page = await asked(site)
    assert (page.code, "SCHEMA_TOO_NEW" in page.text) == (503, True)
    assert "9999" in page.text
    body = b'{"verb": "queue.pause", "target": {"name": "mail"}}'
    headers = {**BEARER, "content-type": "application/json"}
    answer = await site.ask("POST", "/api/v1/actions", headers=headers, body=body)
    assert answer.code == 503


async def test_a_mistyped_database_does_not_look_fine(tmp_path: Path, opened: list[Site]) -> None:
    site = site_of(f"sqlite:///{tmp_path / 'mistyped.db'}")
    opened.append(site)
    page = await asked(site)
    assert page.code == 503
    assert "is this the right database?" in page.text


async def test_a_server_that_is_away_is_said_and_found_again(
    own_postgres: PostgresCluster, tmp_path: Path, opened: list[Site],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(shares, "FOR", 0.0)
    async with offpath.App(own_postgres.url, auto_start=False, migrate=True):
        pass
    site = site_of({"shop": own_postgres.url, "mail": migrated_url(tmp_path / "mail.db")})
    opened.append(site)
    assert (await asked(site, "/shop/queues")).code == 200
    await asyncio.to_thread(own_postgres.stop, "immediate")
    began = time.monotonic()
    away = await asked(site, "/shop/queues")
    assert away.code == 503
    assert "The database is away" in away.text or "took longer than" in away.text
    assert time.monotonic() - began < 30  # two seconds, on a machine that has them
    assert (await asked(site, "/mail/queues")).code == 200
    assert (await site.get("/healthz")).code == 200
    assert (await site.get("/readyz")).code == 503
    await asyncio.to_thread(own_postgres.start)

    async def found_again() -> bool:
        return (await asked(site, "/shop/queues")).code == 200

    await eventually(found_again, within=60.0, what="the database is found again")
    assert (await site.get("/readyz")).code == 200


async def test_a_server_that_is_slow_costs_one_page_and_no_more(
    pg_url: str, opened: list[Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "PATIENCE", 1.0)
    monkeypatch.setattr(shares, "FOR", 0.0)
    site = site_of(pg_url)
    opened.append(site)
    monkeypatch.setattr(places, "PATIENCE", 30.0)
    assert (await asked(site, "/jobs")).code == 200
    monkeypatch.setattr(places, "PATIENCE", 1.0)
    async with await psycopg.AsyncConnection.connect(pg_url) as line:
        await line.execute("lock table offpath.job in access exclusive mode")
        page = await asked(site, "/jobs")
        assert (page.code, "TOOK_TOO_LONG" in page.text) == (503, True)
        assert page.headers["retry-after"] == "2"
        assert (await site.get("/healthz")).code == 200
        await line.rollback()
    monkeypatch.setattr(places, "PATIENCE", 30.0)
    assert (await asked(site, "/jobs")).code == 200


async def test_a_huge_argument_and_ten_thousand_tags_do_not_break_a_page(
    url: str, opened: list[Site]
) -> None:
    app = offpath.App(url, auto_start=False)

    @app.task(name="import_rows")
    async def import_rows(rows: str) -> None: ...

    async with app:
        rows = "\N{ARABIC LETTER ALEF}\N{PILE OF POO}<b>" * 100_000
        handle = await import_rows.enqueue(rows)
        tagged = import_rows.options(tags=["few"])
        await tagged.enqueue("few")
    # more tags than the API lets through: another program has written them
    tags = json.dumps([f"tag-{n}" for n in range(10_000)])
    table = "offpath_job" if url.startswith("sqlite") else "offpath.job"
    run_sql(url, f"update {table} set tags = '{tags}'")
    site = site_of(url)
    opened.append(site)
    lists = await asked(site, "/jobs")
    assert lists.code == 200
    assert "<b>" not in lists.text
    assert len(lists.text) < 100_000
    (brief, _) = (await site.get("/api/v1/jobs")).document["items"]
    assert (len(brief["tags"]), brief["more_tags"]) == (20, 9_980)
    page = await asked(site, f"/jobs/{handle.id}")
    assert page.code == 200
    assert "more characters" in page.text
    assert "<b>" not in page.text.replace("&lt;b&gt;", "")
    whole = (await site.get(f"/api/v1/jobs/{handle.id}")).document
    assert len(whole["input"]["rows"] if isinstance(whole["input"], dict) else "") in {0, len(rows)}


_BULK = """
import asyncio, sys
import offpath
from offpath.operating import actions
from offpath.operating.actions import Asker
from offpath.operating.orders import ActionAsked

async def main() -> None:
    app = offpath.App(sys.argv[1], auto_start=False)
    async with app:
        asked = ActionAsked(verb="job.cancel", target={"where": {}})
        record = await actions.ask(app, asked, Asker(name="ann", via="dashboard"))
        record = (await actions.advance(app, record)).record
        print(record.id, record.changed, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_process_that_is_killed_in_the_middle_of_a_bulk_action_is_followed_by_another(
    url: str,
) -> None:
    app = offpath.App(url, auto_start=False)

    @app.task(name="nothing")
    async def nothing() -> None: ...

    count = CHUNK + 7
    async with app:
        await app.enqueue([nothing.job() for _ in range(count)])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _BULK, url, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        action_id, changed = (await process.stdout.readline()).decode().split()
        assert int(changed) == CHUNK
        process.kill()
        await process.wait()
        # its time of half a minute is over
        past = "1" if url.startswith("sqlite") else "'2020-01-01 00:00:00+00'"
        table = "offpath_action" if url.startswith("sqlite") else "offpath.action"
        run_sql(url, f"update {table} set held_until = {past}")
        loop = ActionLoop(app)
        while (await loop.step()).again is not None:
            pass
        done = await actions.action(app, action_id)
        assert (done.state, done.changed, done.resumed) == (ActionState.DONE, count, True)
        assert await app.jobs.count(state=JobState.CANCELLED) == count
