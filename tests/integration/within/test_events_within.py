"""Events, inbox messages and a router's step share the fate of the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import offpath
from offpath import InvalidArgument
from offpath.events import Accepted, Outbox
from offpath.events.router import Router
from tests.integration.within.callers import CALLERS, Caller
from tests.integration.within.test_within import rows_of

AppMaker = Callable[[str], offpath.App]
UrlOf = Callable[[str], str]

KINDS = (
    *("psycopg", "sqlalchemy-session-psycopg", "sqlalchemy-async-session-psycopg"),
    *("sqlite3", "sqlalchemy-session-sqlite", "sqlalchemy-async-session-sqlite"),
)
chosen = pytest.mark.parametrize(
    "caller", [one for one in CALLERS if one.name in KINDS], ids=lambda one: one.name
)


async def _count(app: offpath.App, *streams: str) -> int:
    return len((await app.messages.find(streams=streams)).items)


@chosen
@pytest.mark.parametrize("commit", [False, True], ids=["rollback", "commit"])
async def test_an_event_and_a_message_are_there_when_the_caller_has_committed(
    caller: Caller, commit: bool, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    await app.open()
    async with caller.open(url, False) as (connection, end):
        end.commit = commit
        first = await app.accept("bank", "evt_1", {"n": 1}, within=connection)
        again = await app.accept("bank", "evt_1", {"n": 1}, within=connection)
        assert (first.new, again) == (True, Accepted(id=first.id, new=False))
        await app.publish("paid", {"n": 1}, stream="out", within=connection)
        await app.log.append("iu", "paid", "eu", {"n": 1}, within=connection)
        assert await _count(app, "bank", "out") == 0, "visible before the caller has committed"
    assert rows_of(url) == commit
    assert await _count(app, "bank", "out") == 2 * commit
    assert len(await app.store().read_events(domain="iu")) == commit
    # a rolled-back message leaves its key free for the real one
    late = await app.accept("bank", "evt_1", {"n": 1})
    assert late.new is not commit


async def _routed(app: offpath.App, deliver: object, *, live: bool = True) -> Router:
    router = app.router("iu", domain="iu", start="beginning")
    router.route(deliver=deliver, name="all", enabled=True, dry_run=not live)
    await app.open()
    await app.routers.open_gate()
    await router.open_gate()
    return router


@chosen
@pytest.mark.parametrize("commit", [False, True], ids=["rollback", "commit"])
async def test_a_routers_step_is_the_callers(
    caller: Caller, commit: bool, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    router = await _routed(app, Outbox("wallet"))
    await app.log.append("iu", "paid", "eu", {"n": 1})
    async with caller.open(url, False) as (connection, end):
        end.commit = commit
        await app.log.append("iu", "paid", "eu", {"n": 2}, within=connection)
        run = await router.run_once(within=connection)
        assert (run.passed, run.counts) == (2, {"sent": 2})
        assert await app.store().attempts("iu") == []
    assert rows_of(url) == commit
    assert len(await app.store().attempts("iu")) == 2 * commit
    assert await _count(app, "wallet") == 2 * commit
    (cursor,) = (await router.record()).cursors
    assert (cursor.position > 0, cursor.passed) == (commit, 2 * commit)
    rest = await router.run_once()
    assert rest.counts == ({} if commit else {"sent": 1})


@pytest.mark.parametrize(
    "caller",
    [one for one in CALLERS if one.name in KINDS and one.blocking],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize("commit", [False, True], ids=["rollback", "commit"])
async def test_a_blocking_step_needs_no_event_loop_and_is_the_callers(
    caller: Caller, commit: bool, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    router = await _routed(app, Outbox("wallet"))
    await app.log.append("iu", "paid", "eu", {"n": 1})
    async with caller.open(url, False) as (connection, end):
        end.commit = commit
        run = router.run_once_blocking(app.store(), connection)
        assert run.counts == {"sent": 1}
        assert await app.store().attempts("iu") == []
    assert len(await app.store().attempts("iu")) == commit
    assert await _count(app, "wallet") == commit


@chosen
@pytest.mark.parametrize("switched", [False, True], ids=["declared live", "switched live"])
async def test_what_a_rollback_could_not_undo_is_refused_before_anything(
    caller: Caller, switched: bool, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    sent: list[Any] = []
    router = await _routed(app, sent.append, live=not switched)
    await app.log.append("iu", "paid", "eu", {"n": 1})
    if switched:
        # a dry run goes nowhere, so it is allowed
        async with caller.open(url, False) as (connection, end):
            assert (await router.run_once(within=connection)).counts == {"dry_run": 1}
            end.commit = False
        await router.switch("all", dry_run=False)
    async with caller.open(url, False) as (connection, _):
        with pytest.raises(InvalidArgument, match="outside of the database"):
            await router.run_once(within=connection)
    assert rows_of(url) == 1, "the caller's transaction goes on"
    assert sent == []
    assert await app.store().attempts("iu") == []
    assert (await router.run_once()).counts == {"sent": 1}
    assert len(sent) == 1


@chosen
async def test_a_router_that_is_declared_within_a_transaction_needs_no_other_writer(
    caller: Caller, url_of: UrlOf, make_app: AppMaker
) -> None:
    """A second process declares what the store knows: it must not wait for its own caller."""
    url = url_of(caller.dialect)
    first = make_app(url)
    await _routed(first, Outbox("wallet"))
    await first.log.append("iu", "paid", "eu", {"n": 1})
    await first.close()
    app = make_app(url)
    router = app.router("iu", domain="iu", start="beginning")
    router.route(deliver=Outbox("wallet"), name="all", enabled=True, dry_run=False)
    await app.open()
    async with caller.open(url, False) as (connection, _):
        assert (await router.run_once(within=connection)).counts == {"sent": 1}
    assert len(await app.store().attempts("iu")) == 1
