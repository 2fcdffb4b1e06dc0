"""Sums beside stats: rows that an older version wrote have none, and are read whole."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

import psycopg

import offpath
from offpath.model.stats import SECONDS, StatRow, StatSpan, written
from tests.conformance.builders import START


async def test_a_row_without_sums_is_read_whole(url: str) -> None:
    body = written(StatSpan(jobs={"started": {"mail\nsend": 3}}))
    at = START.replace(microsecond=0)
    async with offpath.App(url, auto_start=False) as app:
        store = app.store()
        await store.put_stats((StatRow(step=SECONDS, at=at, source="a", body=body),))
        until = at + timedelta(seconds=SECONDS)
        assert [one.body for one in await store.stats(since=at, until=until, named=False)] != [body]
        _forget_sums(url)
        assert [one.body for one in await store.stats(since=at, until=until, named=False)] == [body]


def _forget_sums(url: str) -> None:
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
            file.execute("update offpath_stat set sums = null")
        file.close()
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("update offpath.stat set sums = null")
