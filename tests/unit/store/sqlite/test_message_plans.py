"""Statements about messages and the log enter their tables by an index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from offpath.model.effects import Effects
from offpath.model.message import Box, StreamRoom
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite.session import SQL
from tests.conformance.log_builders import event
from tests.conformance.message_builders import ask_messages, inbound, message

HOT = (
    "add_messages",
    "known_messages",
    "undo_announcements",
    "due_streams",
    "lease_messages",
    "lease_ordered",
    "done_messages",
    "settle_messages",
    "revive_messages",
    "delete_messages",
    "prune_messages",
    "some_messages",
    "message_backlog",
    "add_log",
    "read_log",
    "read_events",
    "read_domain_events",
    "trim_log",
    "trim_attempts",
    "attempts",
    "letters",
    "lease_cursor",
    "advance",
)

_WALK = re.compile(
    r"^SCAN (message|offpath_\w+|next|known|told|earlier|later|event|attempt|letter|named)\b"
)
_STEPS = 2_000
"""In tens of SQLite's own steps: far below one for each of the messages that wait."""


@pytest.fixture
async def filled(store: SqliteStore, path: Path) -> sqlite3.Connection:
    """100,000 messages behind a held first of their key, and a few of other keys."""
    batch = 10_000
    for _ in range(10):
        waiting = tuple(message("s", key="stuck") for _ in range(batch))
        await store.commit(Effects(messages=waiting))
    await ask_messages(store, StreamRoom(stream="s", limit=1, ordered=True))
    await store.commit(Effects(messages=tuple(message("s", key=f"k{n}") for n in range(20))))
    await store.commit(Effects(messages=(inbound("k"),), log=(event(),)))
    return sqlite3.connect(path, isolation_level=None)


def plan(connection: sqlite3.Connection, name: str) -> Iterator[str]:
    statement = SQL[name]
    values = dict.fromkeys(statement.parameters, 1)
    for row in connection.execute(f"explain query plan {statement.named}", values):
        yield row[3]


def steps(connection: sqlite3.Connection, name: str, **values: object) -> tuple[int, int]:
    """The number of rows that a statement gave, and of tens of steps."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(step, 10)
    rows = connection.execute(SQL[name].named, values).fetchall()
    connection.set_progress_handler(None, 0)
    return len(rows), count


async def test_no_statement_walks_a_table(store: SqliteStore, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        walks = {
            (name, line)
            for name in HOT
            for line in plan(connection, name)
            if _WALK.search(line)
            and "INDEX offpath_message_dead" not in line
            and line != "SCAN later"  # the rows that a limited subquery gave, not a table
        }
    assert walks == set()


async def test_the_lease_uses_the_partial_indexes(store: SqliteStore, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        free = "\n".join(plan(connection, "lease_messages"))
        ordered = "\n".join(plan(connection, "lease_ordered"))
        settled = "\n".join(plan(connection, "settle_messages"))
    due = "INDEX offpath_message_due (box=? AND stream=? AND leads=? AND due_at<?)"
    assert free.count(due) == 2
    assert ordered.count(due) == 1
    turn = r"INDEX offpath_message_turn \(box=\? AND stream=\? AND key=\? AND (position|rowid)>\?\)"
    assert re.search(turn, ordered), ordered
    assert "sqlite_autoindex_offpath_message_1 (id=?)" in settled


async def test_what_waits_behind_its_key_costs_a_lease_nothing(filled: sqlite3.Connection) -> None:
    now = 4_000_000_000_000_000
    with closing(filled):
        filled.execute(
            "update offpath_message set due_at = :late where holder is not null", {"late": 2 * now}
        )
        rows, count = steps(
            filled,
            "lease_ordered",
            box=Box.OUT.value,
            stream="s",
            holder="h",
            now=now,
            until=now + 1,
            limit=50,
        )
    assert rows == 20
    assert count < _STEPS


async def test_a_lease_costs_the_same_however_much_is_due(filled: sqlite3.Connection) -> None:
    now = 4_000_000_000_000_000
    with closing(filled):
        values = {"box": Box.OUT.value, "stream": "s", "holder": "h", "now": now}
        rows, count = steps(filled, "lease_messages", **values, until=now + 1, limit=20)
        assert (rows, count < _STEPS) == (20, True)
        rows, count = steps(filled, "due_streams", box=Box.OUT.value, streams='["s","t"]')
        assert (rows, count < 50) == (2, True)
        rows, count = steps(filled, "message_backlog", now=0, limit=5)
        # of what is due later 5,000 are looked at, whatever their number
        assert (rows, count < 10_000) == (2, True)
