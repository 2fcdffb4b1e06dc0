"""``offpath capture``: changes of a table become events of the log, in the same transaction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from click.testing import CliRunner

import offpath
from offpath.cli.capture import script_of
from offpath.cli.main import cli
from offpath.errors import InvalidArgument
from tests.servers import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offpath.events import RoutedEvent

TABLE = "create table orders (id integer primary key, status text, note text)"


@pytest.fixture
def url(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    return database_from_template("schema", migrate)


@pytest.fixture
def shop(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
        yield connection


def captured(*options: str) -> Any:
    done = CliRunner().invoke(cli, ["capture", "orders", "--topic", "order.changed", *options])
    assert done.exit_code == 0, done.output
    return done.output


def told(shop: psycopg.Connection) -> list[Any]:
    rows = shop.execute("select key, payload from offpath.log order by position").fetchall()
    return [(key, json.loads(payload)) for key, payload in rows]


def test_inserts_changes_of_its_columns_and_deletes_are_events(shop: psycopg.Connection) -> None:
    shop.execute(captured("--key", "id", "--columns", "id,status"))
    shop.execute("insert into orders values (7, 'new', 'secret')")
    shop.execute("update orders set note = 'other'")
    shop.execute("update orders set status = status")
    shop.execute("update orders set status = 'paid'")
    with pytest.raises(ZeroDivisionError), shop.transaction():
        shop.execute("update orders set status = 'lost'")
        raise ZeroDivisionError
    shop.execute("delete from orders")
    new, paid = {"id": 7, "status": "new"}, {"id": 7, "status": "paid"}
    assert told(shop) == [
        ("7", {"op": "insert", "key": "7", "before": None, "after": new}),
        ("7", {"op": "update", "key": "7", "before": new, "after": paid}),
        ("7", {"op": "delete", "key": "7", "before": paid, "after": None}),
    ]


def test_without_columns_all_are_told_of(shop: psycopg.Connection) -> None:
    shop.execute(captured("--key", "id"))
    shop.execute("insert into orders values (1, 'new', 'a')")
    shop.execute("update orders set note = 'b'")
    assert [one["op"] for _, one in told(shop)] == ["insert", "update"]
    assert told(shop)[1][1]["after"] == {"id": 1, "status": "new", "note": "b"}


def test_it_is_taken_away_again_and_taking_away_twice_does_no_harm(
    shop: psycopg.Connection,
) -> None:
    shop.execute(captured("--key", "id"))
    for _ in range(2):
        shop.execute(captured("--key", "id", "--remove"))
    shop.execute("insert into orders values (1, 'new', 'a')")
    assert told(shop) == []


def test_who_writes_the_table_needs_no_right_on_the_log(shop: psycopg.Connection) -> None:
    shop.execute(captured("--key", "id"))
    role = "offpath_capture_writer"
    shop.execute(f"create role {role}")
    try:
        shop.execute(f"grant insert on orders to {role}")
        shop.execute(f"set role {role}")
        shop.execute("insert into orders values (1, 'new', 'a')")
        shop.execute("reset role")
        assert len(told(shop)) == 1
    finally:
        shop.execute("reset role")
        shop.execute(f"drop owned by {role}")
        shop.execute(f"drop role {role}")


async def test_a_router_passes_them_on_in_their_order(url: str, shop: psycopg.Connection) -> None:
    got: list[tuple[str, str]] = []

    async def deliver(event: RoutedEvent) -> None:
        got.append((event.type, cast("Any", event.payload)["after"]["status"]))

    shop.execute(captured("--key", "id"))
    async with offpath.App(url, auto_start=False) as app:
        router = app.router("orders", domain="orders", start="beginning")
        router.route(deliver=deliver, name="all", enabled=True, dry_run=False)
        await app.routers.open_gate()
        await router.open_gate()
        shop.execute("insert into orders values (1, 'new', 'a')")
        shop.execute("update orders set status = 'paid'")
        await router.run_once()
    assert got == [("order.changed", "new"), ("order.changed", "paid")]


@pytest.mark.parametrize(
    "given",
    [
        {"table": 'orders"; drop table orders; --'},
        {"table": "a.b.c"},
        {"table": "orders", "key": "id'"},
        {"table": "orders", "columns": ["id", "a b"]},
        {"table": "orders", "schema": "off path"},
        {"table": "orders", "topic": ""},
    ],
)
def test_what_is_not_a_plain_name_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument):
        script_of(**{"topic": "order.changed", "key": "id", **given})


def test_a_quote_in_a_topic_is_a_quote(shop: psycopg.Connection) -> None:
    shop.execute(cast("Any", script_of("orders", topic="it's", key="id")))
    shop.execute("insert into orders values (1, 'new', 'a')")
    assert shop.execute("select type from offpath.log").fetchone() == ("it's",)
