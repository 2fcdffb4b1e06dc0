"""The suite as a role that owns nothing, among shadows: ``OFFPATH_TEST_ROLE=worker``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import sql

from offpath.store.postgres import PostgresStore
from tests.attacks import shadows

VARIABLE: Final = "OFFPATH_TEST_ROLE"
"""Names the role that the stores of the suite use: ``worker``."""


@contextmanager
def member_of(role: str, place: str) -> Iterator[str]:
    """The URL of a member of that role, whose sessions find shadows before the server's names."""
    with ThreadPoolExecutor(1) as thread:  # a test's event loop may be current in this one
        thread.submit(asyncio.run, PostgresStore(place).grant_roles()).result()
    known = psycopg.conninfo.conninfo_to_dict(place)
    name = f"offpath_test_{role}_{os.getpid()}"
    login = sql.Identifier(name)
    with psycopg.connect(place, autocommit=True) as admin:
        with admin.transaction():
            shadows.cast(admin)
        admin.execute(sql.SQL("create role {} login password 'x'").format(login))
        admin.execute(sql.SQL("grant {} to {}").format(sql.Identifier(f"offpath_{role}"), login))
        # the suite trims ledgers, too, which is the owner's to do
        admin.execute(sql.SQL("grant insert, update on offpath.ledger_trim to {}").format(login))
        admin.execute(
            sql.SQL("alter role {} set search_path = {}").format(login, sql.SQL(shadows.PATH))
        )
        yield f"postgresql://{name}:x@{known.get('host', '')}:{known['port']}/{known['dbname']}"
        admin.execute(sql.SQL("revoke all on offpath.ledger_trim from {}").format(login))
        admin.execute(sql.SQL("drop role {}").format(login))
