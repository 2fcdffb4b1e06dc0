"""A table of the user's own, read by its order: no event is lost at a page's edge."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

import offpath
from offpath.errors import CapabilityMissing, InvalidArgument
from offpath.events import RoutedEvent, Router
from offpath.events.source import PositionTied
from offpath.model.table import TablePage
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import START

pytestmark = pytest.mark.needs("log")

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "router.md"
NAME = {"sqlite": "shop event", "postgres": 'public."shop event"'}
TABLE = {
    "sqlite": """
        create table "shop event" (
            id text not null primary key, created_at text not null, "kind:of" text not null,
            body text not null, buyer text, said_at text
        )
    """,
    "postgres": """
        create table public."shop event" (
            id text not null primary key, created_at timestamptz not null,
            "kind:of" text not null, body jsonb not null, buyer text, said_at timestamptz
        );
        grant select on public."shop event" to public
    """,
}
COLUMNS = {"type": "kind:of", "payload": "body", "key": "buyer"}


class Shop:
    """The user's table."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def insert(self, name: str, at: datetime = START) -> str:
        """The statement that writes an event."""
        table = '"shop event"' if self.backend.name == "sqlite" else NAME["postgres"]
        values = f"'{name}', '{at.isoformat()}', 'paid', '{{\"name\": \"{name}\"}}', 'b'"
        return f"insert into {table} values ({values}, null)"

    def add(self, name: str, at: datetime = START) -> None:
        """One event, committed."""
        self.backend.execute(self.insert(name, at))

    def drop(self) -> None:
        """Remove it."""
        self.backend.run_script('drop table "shop event"')


class Sees(Protocol):
    """Runs a router until nothing is left; the names of the events that it passed."""

    async def __call__(self, router: Router, *, limit: int = 10) -> list[str]: ...


@pytest.fixture
def shop(backend: Backend, store: Store) -> Iterator[Shop]:
    if not store.capabilities.within:
        pytest.skip("there are no tables of a user's own")
    backend.run_script(TABLE[backend.name])
    made = Shop(backend)
    yield made
    made.drop()


@pytest.fixture
def app(store: Store, clock: ManualClock) -> offpath.App:
    return offpath.App(store=store, clock=clock, auto_start=False)


def own(app: offpath.App, **changes: Any) -> Router:
    asked: dict[str, Any] = {
        "domain": "shop",
        "start": "beginning",
        "table": "shop event",
        "order": ("created_at", "id"),
        "columns": COLUMNS,
        "safety_lag": 5.0,
    }
    return app.router("own", **{**asked, **changes})


@pytest.fixture
def sees(app: offpath.App) -> Sees:
    async def run(router: Router, *, limit: int = 10) -> list[str]:
        await app.routers.open_gate()
        await router.open_gate()
        passed: list[str] = []
        while (done := await router.run_once(limit=limit)).passed:
            for names in done.tally.buckets.values():
                passed.extend(names)
        return passed

    return run


async def test_events_of_one_moment_are_not_lost_at_the_edge_of_a_page(
    app: offpath.App, shop: Shop, sees: Sees, clock: ManualClock
) -> None:
    """25 events, most of one moment, ten on a page."""
    names = [f"e{number:02}" for number in range(25)]
    for number, name in enumerate(names):
        shop.add(name, START + timedelta(microseconds=number // 12))
    clock.advance(10)
    assert await sees(own(app)) == names
    assert await sees(app.routers.get("own")) == []


async def test_an_order_that_is_not_unique_is_refused_with_the_remedy(
    app: offpath.App, shop: Shop, sees: Sees, clock: ManualClock
) -> None:
    for number in range(12):
        shop.add(f"e{number:02}", START + timedelta(microseconds=min(number, 9)))
    clock.advance(10)
    router = own(app, order=("created_at",))
    with pytest.raises(PositionTied, match=r"order by a unique position, such as \(\"created_at\""):
        await sees(router)
    assert (await router.record()).cursors[0].passed == 0


async def test_a_clock_that_goes_back_less_than_the_lag_loses_nothing(
    app: offpath.App, shop: Shop, sees: Sees, clock: ManualClock
) -> None:
    router = own(app)
    shop.add("a", START)
    clock.advance(4)
    assert await sees(router) == []
    shop.add("b", START - timedelta(seconds=0.5))
    clock.advance(6)
    assert await sees(router) == ["b", "a"]


async def test_a_row_that_commits_within_the_lag_is_not_passed_by(
    app: offpath.App, shop: Shop, sees: Sees, clock: ManualClock
) -> None:
    if not shop.backend.many_writers:
        pytest.skip("one writer at a time: rows are committed in order")
    router = own(app)
    async with shop.backend.async_transaction() as late:
        await late.execute(shop.insert("late", START))
        shop.add("soon", START + timedelta(seconds=1))
        clock.advance(4)
        assert await sees(router) == []
        await late.commit()
    clock.advance(6)
    assert await sees(router) == ["late", "soon"]


async def test_its_columns_become_an_event(
    app: offpath.App, shop: Shop, sees: Sees, clock: ManualClock
) -> None:
    shop.add("a")
    clock.advance(10)
    got: list[RoutedEvent] = []

    async def keep(event: RoutedEvent) -> None:
        got.append(event)

    router = own(app)
    router.route(type="paid", stream="shop event", deliver=keep, enabled=True, dry_run=False)
    await sees(router)
    (event,) = got
    assert (event.id, event.domain, event.type, event.key) == ("a", "shop", "paid", "b")
    assert (event.payload, event.at) == ({"name": "a"}, START)


async def test_what_a_dry_run_logged_is_sent_once_it_is_live(
    app: offpath.App, shop: Shop, sees: Sees, clock: ManualClock
) -> None:
    for name in ("a", "b", "c"):
        shop.add(name)
    clock.advance(10)
    got: list[str] = []
    router = own(app)
    router.route(type="paid", name="call", deliver=lambda event: got.append(event.id), enabled=True)
    assert await sees(router) == ["a", "b", "c"]
    await router.switch("call", dry_run=False)
    assert (await router.redo()).counts == {"sent": 3}
    assert sorted(got) == ["a", "b", "c"]


async def test_it_begins_now_or_at_a_position(
    app: offpath.App, shop: Shop, sees: Sees, clock: ManualClock
) -> None:
    shop.add("a")
    shop.add("b")
    router = own(app, start="now")
    await router.record()
    shop.add("c")
    clock.advance(10)
    assert await sees(router) == ["c"]
    later = offpath.App(store=app.store(), clock=clock, auto_start=False)
    at = START if shop.backend.name == "postgres" else START.isoformat()
    second = later.router(
        "second",
        domain="shop",
        start=(at, "a"),
        table="shop event",
        order=("created_at", "id"),
        columns=COLUMNS,
    )
    assert await sees(second) == ["b", "c"]


async def test_another_process_goes_on_where_it_was(
    app: offpath.App, shop: Shop, sees: Sees, clock: ManualClock
) -> None:
    shop.add("a")
    clock.advance(10)
    assert await sees(own(app)) == ["a"]
    shop.add("b")
    clock.advance(10)
    again = offpath.App(store=app.store(), clock=clock, auto_start=False)
    assert await sees(own(again)) == ["b"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"table": "nowhere"}, "there is no table"),
        ({"columns": {}}, "no column 'type'"),
        ({"order": ("said_at", "id")}, "may be null"),
        ({"start": 7}, "position of another order"),
        ({"start": (1, 2, 3)}, "position of another order"),
    ],
)
async def test_what_cannot_be_read_is_refused_before_anything_is_written(
    app: offpath.App, shop: Shop, changes: dict[str, Any], told: str
) -> None:
    shop.add("a")
    with pytest.raises(InvalidArgument, match=told):
        await own(app, **changes).run_once()
    assert await app.routers.records() == []


async def test_a_name_is_never_sql(app: offpath.App, shop: Shop) -> None:
    shop.add("a")
    evil = 'id" from "shop event"; drop table "shop event"; --'
    with pytest.raises(InvalidArgument, match="no column"):
        await own(app, order=(evil,)).run_once()
    page = TablePage(table=("shop event",), columns=("id",), order=(evil,))
    with pytest.raises(offpath.OffpathError):
        await app.store().read_table(page)
    assert len(shop.backend.execute('select id from "shop event"')) == 1


async def test_memory_has_no_tables(app: offpath.App, store: Store) -> None:
    if store.capabilities.within:
        pytest.skip("there are tables of a user's own")
    with pytest.raises(CapabilityMissing, match="read="):
        await own(app).run_once()


def promoting(backend: str) -> str:
    """The statements of the guide that promote a table to the log."""
    blocks = GUIDE.read_text().split("```sql\n")[1:]
    (found,) = [one.split("```")[0] for one in blocks if f"-- {backend}" in one]
    return found.replace("shop_event", '"shop event"').replace("new.kind", 'new."kind:of"')


async def test_a_table_that_is_promoted_to_the_log_is_read_exactly(
    app: offpath.App, shop: Shop, sees: Sees, clock: ManualClock
) -> None:
    """With the log's horizon an open transaction holds later rows back, however late it ends."""
    shop.backend.run_script(promoting(shop.backend.name))
    router = app.router("log", domain="shop", start="beginning")
    if shop.backend.many_writers:
        async with shop.backend.async_transaction() as late:
            await late.execute(shop.insert("late", START - timedelta(days=1)))
            shop.add("soon")
            clock.advance(1_000)
            assert await sees(router) == []
            await late.commit()
        assert await sees(router) == ["late", "soon"]
    else:
        shop.add("late", START - timedelta(days=1))
        shop.add("soon")
        assert await sees(router) == ["late", "soon"]
    (found, _) = await app.store().read_events(domain="shop")
    assert (found.type, found.stream, found.key) == ("paid", "shop", "b")
    shop.backend.run_script(
        "drop trigger promote_event" if shop.backend.name == "sqlite" else "select 1"
    )
