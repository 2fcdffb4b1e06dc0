"""The conversation on a connection: values, statements kept ready, errors, early ends."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from offpath.store.postgres import wire
from offpath.store.postgres.pool import Connection
from offpath.store.sql import Query, Row, statement

from .conftest import Ask, until

_READY = "select count(*)::int from pg_prepared_statements where name like 'offpath%'"
_ASLEEP = (
    "select pid from pg_stat_activity where state = 'active'"
    " and datname = current_database() and starts_with(query, 'select pg_sleep')"
)


@pytest.fixture
async def connection(url: str) -> AsyncIterator[Connection]:
    made = await Connection.connect(url, autocommit=True, prepare_threshold=None)
    yield made
    await made.close()


def query(sql: str, **params: Any) -> Query:
    return statement("asked", sql)(**params)


async def rows(connection: Connection, *queries: Query) -> list[list[Row]]:
    return await connection.wire.ask(connection, queries, prepare=True)


async def one(connection: Connection, sql: str, **params: Any) -> Any:
    (((value,),),) = await rows(connection, query(sql, **params))
    return value


@pytest.mark.parametrize(
    ("sql", "value", "answer"),
    [
        (":v::text", "žluťoučký 🐎", "žluťoučký 🐎"),
        (":v::text", "", ""),
        (":v::text", None, None),
        (":v::bigint", -(2**62), -(2**62)),
        (":v::int + 1", 41, 42),
        (":v::double precision", 0.1, 0.1),
        (":v::double precision", float("inf"), float("inf")),
        (":v::boolean", True, True),
        ("not :v::boolean", False, True),
        ("(:v::text[])[2]", ["a", '"b", {c}'], '"b", {c}'),
    ],
)
async def test_a_value_arrives_as_it_is(
    connection: Connection, sql: str, value: object, answer: object
) -> None:
    for _ in range(3):  # unprepared, prepared in passing, prepared
        assert await one(connection, f"select {sql}", v=value) == answer


async def test_a_text_that_would_be_cut_is_refused_before_anything_is_sent(
    connection: Connection,
) -> None:
    await one(connection, "select 1")
    with pytest.raises(psycopg.DataError, match="NUL"):
        await rows(connection, query("select 1"), query("select :v::text", v="a\0b"))
    assert connection.pgconn.transaction_status == TransactionStatus.IDLE
    assert await one(connection, _READY) == 0  # the first of the two was not counted as ready
    assert await one(connection, "select 1") == 1


async def test_more_than_the_network_holds_goes_out_and_comes_in(connection: Connection) -> None:
    text = "x" * 20_000_000
    asked = [query("select :v::text || :n::text", v=text, n=n) for n in range(3)]
    answers = await rows(connection, *asked)
    assert [answer[0][0][-1] for answer in answers] == ["0", "1", "2"]
    assert {len(answer[0][0]) for answer in answers} == {len(text) + 1}


async def test_a_statement_that_comes_again_is_ready_and_the_oldest_makes_room(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "KEPT", 3)
    for n in range(5):
        for _ in range(2):
            assert await one(connection, f"select {n}") == n
        assert await one(connection, "select 0") == 0  # in use all the time, so it stays
    texts = "select statement from pg_prepared_statements where name like 'offpath%'"
    ((*ready,),) = await rows(connection, query(texts))
    assert {text for (text,) in ready} == {"select 0", "select 3", "select 4"}


async def test_room_for_a_statement_is_made_behind_the_beginning_of_its_transaction(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "KEPT", 1)
    begin = query("begin isolation level repeatable read read only")
    for asked in ([query("select 0")], [query("select 0")], *[[begin, query("select 1")]] * 3):
        await rows(connection, *asked)
        await connection.rollback()
    assert await one(connection, _READY) == 1


async def test_the_first_error_is_told_and_what_was_not_made_ready_is_made_anew(
    connection: Connection,
) -> None:
    for text in ("select 7", "select 8"):
        await one(connection, text)
    asked = (query("begin"), query("select 7"), query("select 1 / 0"), query("select 8"))
    for _ in range(2):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await rows(connection, *asked)
        assert connection.pgconn.transaction_status == TransactionStatus.INERROR
        await connection.rollback()
    assert await rows(connection, query("select 7"), query("select 8")) == [[(7,)], [(8,)]]


async def test_the_driver_and_the_wire_take_turns(connection: Connection) -> None:
    for n in range(3):
        assert await one(connection, "select :n::int", n=n) == n
        assert await (await connection.execute("select %s::int", [n])).fetchone() == (n,)


@pytest.mark.parametrize("several", [False, True])
async def test_a_caller_that_goes_leaves_no_answer_to_the_next(
    connection: Connection, ask: Ask, several: bool
) -> None:
    asked = [query("select pg_sleep(60)"), *([query("select 2")] * several)]
    waiting = asyncio.create_task(rows(connection, *asked))
    await until(lambda: bool(ask(_ASLEEP)))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ask(_ASLEEP) == []
    assert await one(connection, "select 3") == 3


async def test_a_caller_that_goes_twice_gives_the_connection_up(
    connection: Connection, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not hear that it should stop must not hold whoever is told to end."""

    async def unheard(**_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(connection, "cancel_safe", unheard)
    waiting = asyncio.create_task(rows(connection, query("select pg_sleep(60)")))
    await until(lambda: bool(ask(_ASLEEP)))
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert connection.closed


@pytest.mark.parametrize("several", [False, True])
async def test_the_last_word_of_a_server_that_ends_the_session_is_told(
    connection: Connection, ask: Ask, several: bool
) -> None:
    asked = [query("select pg_sleep(60)"), *([query("select 2")] * several)]
    waiting = asyncio.create_task(rows(connection, *asked))
    await until(lambda: bool(ask(_ASLEEP)))
    ask(f"select pg_terminate_backend(pid) from ({_ASLEEP}) as a")
    with pytest.raises(psycopg.errors.AdminShutdown):
        await waiting


async def test_a_session_that_ended_unasked_is_an_error_of_the_next_statement(
    connection: Connection, ask: Ask
) -> None:
    pid = await one(connection, "select pg_backend_pid()")
    ask(f"select pg_terminate_backend({pid})")
    await until(lambda: ask(f"select 1 from pg_stat_activity where pid = {pid}") == [])
    with pytest.raises(psycopg.OperationalError):
        await one(connection, "select 1")
    assert connection.closed


async def test_the_number_of_a_socket_that_the_network_closed_is_free_at_once(
    connection: Connection, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver closes it as it reads the end; the caller only hears of that a turn later."""
    loop = asyncio.get_running_loop()
    number = connection.fileno()
    heard = asyncio.Event()
    opened: list[socket.socket] = []
    end = wire.Conversation._end

    def others_connect(self: wire.Conversation, error: psycopg.Error | None) -> None:
        end(self, error)
        while number not in {one.fileno() for one in opened}:
            opened.extend(socket.socketpair())
        loop.add_reader(number, heard.set)

    monkeypatch.setattr(wire.Conversation, "_end", others_connect)
    waiting = asyncio.create_task(rows(connection, query("select pg_sleep(60)")))
    await until(lambda: bool(ask(_ASLEEP)))
    with socket.socket(fileno=os.dup(number)) as same:
        same.shutdown(socket.SHUT_RDWR)
    with pytest.raises(psycopg.OperationalError):
        await waiting
    mine = next(one for one in opened if one.fileno() == number)
    pair = opened[opened.index(mine) ^ 1]
    pair.send(b"for the other")
    async with asyncio.timeout(10):
        await heard.wait()
    loop.remove_reader(number)
    for one in opened:
        one.close()


async def test_a_closed_connection_leaves_its_number_to_the_next_one(url: str) -> None:
    for _ in range(3):
        made = await Connection.connect(url, autocommit=True, prepare_threshold=None)
        number = made.fileno()
        assert await one(made, "select 1") == 1
        await made.close()
        other = await Connection.connect(url, autocommit=True, prepare_threshold=None)
        assert other.fileno() == number
        assert await one(other, "select 2") == 2
        await other.close()
