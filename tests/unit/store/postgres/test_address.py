"""URLs: our own parameters are ours alone, and a password is never shown."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from offpath.errors import InvalidArgument
from offpath.store.postgres.address import parse_address


def test_own_parameters_do_not_reach_the_driver() -> None:
    address = parse_address(
        "postgresql://u:secret@h:6432/db?sslmode=disable&offpath_direct=1"
        "&offpath_notify_url=postgresql%3A%2F%2Fu%3Asecret%40h%3A5432%2Fdb"
    )
    given = conninfo_to_dict(address.conninfo)
    assert (given["host"], given["port"], given["sslmode"]) == ("h", "6432", "disable")
    assert conninfo_to_dict(address.notify)["port"] == "5432"
    assert address.direct
    assert "offpath_" not in address.conninfo


def test_the_listening_connection_goes_the_same_way_unless_told_otherwise() -> None:
    address = parse_address("postgresql://h/db")
    assert address.notify == address.conninfo
    assert address.direct is None
    elsewhere = parse_address("postgresql://h/db", notify_url="postgresql://direct/db")
    assert conninfo_to_dict(elsewhere.notify)["host"] == "direct"


@pytest.mark.parametrize(
    "url",
    ["postgresql://h/db", "postgres://h/db", "postgresql+psycopg://h/db", "host=h dbname=db"],
)
def test_spellings_of_one_database(url: str) -> None:
    given = conninfo_to_dict(parse_address(url).conninfo)
    assert (given["host"], given["dbname"]) == ("h", "db")


def test_a_socket_and_what_the_user_sets_are_kept() -> None:
    address = parse_address("postgresql:///db?host=/run/postgresql&connect_timeout=9")
    given = conninfo_to_dict(address.conninfo)
    assert (given["host"], given["connect_timeout"]) == ("/run/postgresql", "9")
    assert given["tcp_user_timeout"] == "11000"


@pytest.mark.parametrize("url", ["postgresql://u:secret@h/db", "host=h user=u password=secret"])
def test_the_password_is_not_shown(url: str) -> None:
    address = parse_address(url)
    assert "secret" in address.conninfo
    assert "secret" not in address.shown + repr(address)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://u:secret@h/db", "not a Postgres URL"),
        ("postgresql://u:secret@h/db?nonsense=1", "not a Postgres URL"),
        ("postgresql://u:secret@h/db?offpath_diret=1", "unknown parameter offpath_diret"),
        ("postgresql://u:secret@h/db?offpath_direct=maybe", "must be 1 or 0"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_password(url: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says) as caught:
        parse_address(url)
    assert "secret" not in str(caught.value)
