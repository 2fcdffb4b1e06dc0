"""Addresses beside names: what the driver is told before it connects."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from offpath.runtime.resolver import Found, Resolver
from offpath.store.postgres import resolver
from offpath.store.postgres.resolver import with_addresses

ADDRESSES = {"db": ["192.0.2.1", "192.0.2.2"], "other": ["192.0.2.3"]}


def _lookup(host: str, port: int, family: int) -> Found:
    del family
    if host not in ADDRESSES:
        raise socket.gaierror("no such name")
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in ADDRESSES[host]]


@pytest.fixture(autouse=True)
def nothing_worked_yet() -> Iterator[None]:
    resolver._worked.clear()
    yield
    resolver._worked.clear()


async def _told(conninfo: str) -> dict[str, object]:
    return dict(conninfo_to_dict(await with_addresses(conninfo, Resolver(lookup=_lookup))))


async def test_each_address_of_a_name_is_tried_for_a_short_time() -> None:
    told = await _told("host=db port=5433 dbname=x connect_timeout=5 sslmode=verify-full")
    assert told == {
        "host": "db,db",
        "hostaddr": "192.0.2.1,192.0.2.2",
        "port": "5433,5433",
        "dbname": "x",
        "connect_timeout": "2",
        "sslmode": "verify-full",
    }


async def test_one_address_keeps_the_time_that_was_given() -> None:
    told = await _told("host=other connect_timeout=5")
    assert (told["hostaddr"], told["port"], told["connect_timeout"]) == ("192.0.2.3", "5432", "5")


async def test_the_address_that_worked_last_is_tried_first() -> None:
    resolver._worked["db"] = "192.0.2.2"
    assert (await _told("host=db"))["hostaddr"] == "192.0.2.2,192.0.2.1"


async def test_of_several_hosts_those_that_are_found_are_tried() -> None:
    told = await _told("host=gone,other,192.0.2.9 port=1,2,3")
    assert (told["host"], told["hostaddr"]) == ("other,192.0.2.9", "192.0.2.3,192.0.2.9")
    assert told["port"] == "2,3"


@pytest.mark.parametrize("plain", ["host=192.0.2.1", "host=/run/sock", "dbname=x", "host=::1"])
async def test_what_is_no_name_is_left_as_it_is(plain: str) -> None:
    assert await with_addresses(plain, Resolver(lookup=_lookup)) == plain


async def test_a_name_that_is_not_found_is_the_drivers_error() -> None:
    with pytest.raises(psycopg.OperationalError, match="the name gone was not found"):
        await _told("host=gone")
