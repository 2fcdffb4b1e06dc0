"""Workers and an economy as a role that owns nothing: all they need is what operations.md says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege, IntegrityConstraintViolation

import offpath
from offpath.economy import Actor, Economy, TopUp, credits

GRANTS: tuple[LiteralString, ...] = (
    "grant usage on schema offpath to {role}",
    "grant select, insert, update, delete on all tables in schema offpath to {role}",
    "grant usage, select, update on all sequences in schema offpath to {role}",
)


@pytest.fixture
def role(pg_url: str) -> Iterator[str]:
    """A role with those rights and no others, which may log in."""
    name = f"offpath_app_{uuid4().hex[:12]}"
    quoted = sql.Identifier(name)
    with psycopg.connect(pg_url, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {role} login password 'app'").format(role=quoted))
        for grant in GRANTS:
            admin.execute(sql.SQL(grant).format(role=quoted))
        yield name
        admin.execute(sql.SQL("drop owned by {role}").format(role=quoted))
        admin.execute(sql.SQL("drop role {role}").format(role=quoted))


@pytest.fixture
def url(pg_url: str, role: str) -> str:
    """The database, as that role."""
    return psycopg_url(pg_url, role)


def psycopg_url(url: str, role: str) -> str:
    known = psycopg.conninfo.conninfo_to_dict(url)
    host, port = known.get("host", "127.0.0.1"), known.get("port", "5432")
    return f"postgresql://{role}:app@{host}:{port}/{known['dbname']}"


async def test_a_role_that_owns_nothing_works_and_posts(url: str) -> None:
    app = offpath.App(url)
    economy = Economy(app)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app, app.worker():
        top_up = TopUp(
            key="t-1", actor=Actor.system("shop"), user="ann", amount=credits(5), source="card"
        )
        await economy.submit(top_up)
        assert await (await add.enqueue(1, 2)).result(timeout=30) == 3
        assert await economy.read.balance("ann:spendable") == credits(5)
        assert (await economy.prove()).holds


@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ("alter table offpath.ledger_link disable trigger all", InsufficientPrivilege),
        ("set session_replication_role = replica", InsufficientPrivilege),
        ("truncate offpath.ledger_link cascade", InsufficientPrivilege),
        ("delete from offpath.ledger_link", IntegrityConstraintViolation),
    ],
)
async def test_it_cannot_go_past_the_triggers(
    url: str, statement: LiteralString, refused: type[Exception]
) -> None:
    await test_a_role_that_owns_nothing_works_and_posts(url)
    connection: psycopg.Connection[Any]
    with psycopg.connect(url) as connection, pytest.raises(refused):
        connection.execute(statement)
