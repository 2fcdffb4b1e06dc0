"""A SQLite file refuses the rows that no worker can read, whoever writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import offpath
from offpath.model.effects import Effects
from offpath.model.job import DeadReason
from offpath.store.protocol import Store
from offpath.store.sqlite import migrate
from tests.conformance.backends import Backend
from tests.conformance.log_builders import event

TIME = "253402300800000000", "-62135596800000001", str(2**63 - 1), str(-(2**63))
SECONDS = "253402300800", "-62135596801", str(2**63 - 1), str(-(2**63))
COUNT = str(2**62), str(2**63 - 1)
POSITION = str(2**62), str(2**63 - 1)
FLAG = "-1", "3", str(2**63 - 1)
WIDE = str(2**63 - 1), str(-(2**63))
LIST = "'{'", "'5'", "'{\"a\": 1}'", "'foreign'"
OBJECT = "'{'", "'5'", "'[1, null]'", "'foreign'", "''"

REFUSED: dict[str, dict[str, tuple[str, ...]]] = {
    "offpath_job": {
        "run_at": TIME,
        "enqueued_at": TIME,
        "started_at": TIME,
        "finished_at": TIME,
        "expires_at": TIME,
        "deadline": TIME,
        "unique_until": TIME,
        "changed_at": TIME,
        "redriven_at": TIME,
        "wait_since": TIME,
        "blocked_until": TIME,
        "turn_at": TIME,
        "deadline_in": ("-1", *WIDE),
        "gated_delay": WIDE,
        "seq": POSITION,
        "attempt": ("0", "-1", *COUNT),
        "deliveries": ("-1", *COUNT),
        "losses": ("-1", *COUNT),
        "redrives": ("-1", *COUNT),
        "cancel_requested": FLAG,
        "priority": (*WIDE, "2147483648"),
        "turn": WIDE,
        "announce": ("-1", str(2**62)),
        "gate_left": FLAG,
        "watched": FLAG,
        "has_undo": FLAG,
        "state": ("'foreign'", "''"),
        "task": (f"'{'x' * 2**20}'",),
        "queue": (f"'{'x' * 2**20}'",),
        "unique_key": (f"'{'x' * 2**20}'",),
        "tags": (*LIST, "'[1, null]'", "'[[\"a\"]]'"),
        "dependents": ("'{'", "'5'", "'foreign'"),
    },
    "offpath_failure": {"seq": POSITION, "failure": OBJECT},
    "offpath_group": {
        "open": ("-1", *COUNT),
        "failed": ("-1", *COUNT),
        "done": FLAG,
        "closing": FLAG,
        "to_close": FLAG,
        "final": FLAG,
        "policy": ("'foreign'",),
    },
    "offpath_worker": {
        "started_at": TIME,
        "seen_at": TIME,
        "expires_at": TIME,
        "gone_at": TIME,
        "answered_at": TIME,
        "presence": FLAG,
        "info": OBJECT,
    },
    "offpath_claim": {"expires_at": TIME},
    "offpath_message": {
        "position": POSITION,
        "due_at": TIME,
        "free_due_at": TIME,
        "created_at": TIME,
        "finished_at": TIME,
        "expires_at": TIME,
        "attempt": ("0", "-1", *COUNT),
        "deliveries": ("-1", *COUNT),
        "leads": FLAG,
        "box": ("'foreign'",),
        "state": ("'foreign'",),
        "failure": OBJECT,
    },
    "offpath_log": {"position": POSITION, "slot": ("-1", *COUNT), "at": TIME},
    "offpath_router": {"partitions": ("0", "-1", *COUNT), "created_at": TIME},
    "offpath_gate": {"open": FLAG},
    "offpath_route": {"place": ("-1", *WIDE), "enabled": FLAG, "dry_run": FLAG},
    "offpath_cursor": {
        "partition": ("-1",),
        "start": ("-1", *COUNT),
        "position": ("-1", *COUNT),
        "passed": ("-1", *COUNT),
        "lease_until": TIME,
        "ran_at": TIME,
    },
    "offpath_attempt": {
        "number": ("0", "-1", *COUNT),
        "position": ("-1", *WIDE),
        "at": TIME,
        "status": ("'foreign'",),
    },
    "offpath_letter": {
        "position": ("-1", *WIDE),
        "number": ("0", "-1", *COUNT),
        "document": OBJECT,
        "created_at": TIME,
        "resolved_at": TIME,
    },
    "offpath_endpoint": {
        "secrets": LIST,
        "topics": LIST,
        "streams": LIST,
        "headers": OBJECT,
        "trace": FLAG,
        "state": ("'foreign'",),
        "failures": ("-1", *COUNT),
        "failing_since": TIME,
        "blocked_until": TIME,
        "created_at": TIME,
    },
    "offpath_schedule": {
        "definition": OBJECT,
        "paused": FLAG,
        "next_at": TIME,
        "created_at": TIME,
        "updated_at": TIME,
        "last_at": TIME,
        "version": ("0", "-1", *COUNT),
    },
    "offpath_occurrence": {"at": TIME, "made_at": TIME, "outcome": ("'foreign'",)},
    "offpath_job_gate": {
        "need": ("-1", *COUNT),
        "total": COUNT,
        "succeeded": ("-1", *COUNT),
        "failed": ("-1", *COUNT),
        "state": ("'foreign'",),
        "counting": ("'foreign'",),
        "deadline": TIME,
    },
    "offpath_gate_watch": {
        "place": ("-1", *WIDE),
        "early": FLAG,
        "led": FLAG,
        "outcome": ("'foreign'",),
    },
    "offpath_step": {"position": POSITION, "kind": ("'foreign'",), "at": TIME},
    "offpath_signal": {
        "position": POSITION,
        "sent_at": TIME,
        "expires_at": TIME,
        "taken_at": TIME,
    },
    "offpath_limit": {
        "max_running": ("-1", *COUNT),
        "admitted": ("-1", *COUNT),
        "shared": ("-1", *COUNT),
        "parts": FLAG,
        "paused": FLAG,
        "turn": WIDE,
        "rate": OBJECT,
        "rate_state": ("'{'", "'foreign'"),
        "closed_until": TIME,
        "forget_at": TIME,
    },
    "offpath_limit_part": {"cost": ("-1", "0", *COUNT)},
    "offpath_queue_pause": {"until": TIME},
    "offpath_declaration": {"first_seen": TIME, "last_seen": TIME},
    "offpath_action": {
        "at": TIME,
        "held_until": TIME,
        "finished_at": TIME,
        "changed": ("-1", *COUNT),
        "unchanged": ("-1", *COUNT),
        "resumed": FLAG,
        "reasons": OBJECT,
    },
    "offpath_run": {"at": SECONDS, "body": OBJECT},
    "offpath_stat": {
        "at": SECONDS,
        "step": ("0", "11", "-10", *COUNT),
        "body": OBJECT,
        "sums": OBJECT,
    },
    "offpath_finding": {
        "since": TIME,
        "seen_at": TIME,
        "accepted_at": TIME,
        "ended_at": TIME,
    },
}
"""By table and column what is refused, beside the values of another type."""

FREE = {
    "offpath_job": {"alone"},
    "offpath_failure": {"job"},
}
"""Numbers with which nobody calculates."""


@pytest.fixture(params=("sqlite",))
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backend whose file anybody may write."""
    return str(request.param)


@pytest.fixture
def connection(backend: Backend, store: Store) -> Iterator[sqlite3.Connection]:
    """Somebody else's connection to the file of an open store."""
    with closing(sqlite3.connect(backend.place, isolation_level=None)) as connection:
        yield connection


def _columns(connection: sqlite3.Connection) -> dict[str, dict[str, str]]:
    rows = connection.execute(
        "select t.name, c.name, upper(c.type) from pragma_table_list as t,"
        " pragma_table_info(t.name) as c where t.type = 'table' and t.name like 'offpath_%'"
        " and t.name not like 'offpath_ledger_%' and t.name <> 'offpath_migration'"
    )
    columns: dict[str, dict[str, str]] = {}
    for table, column, kind in rows:
        columns.setdefault(table, {})[column] = kind
    return columns


def test_every_number_of_every_table_has_its_bounds(connection: sqlite3.Connection) -> None:
    columns = _columns(connection)
    assert len(columns) > 20
    for table, kinds in columns.items():
        numbers = {name for name, kind in kinds.items() if kind == "INTEGER"}
        assert numbers <= set(REFUSED.get(table, ())) | FREE.get(table, set()), table
        assert set(REFUSED.get(table, ())) <= set(kinds), table


def test_what_cannot_be_read_is_refused(connection: sqlite3.Connection) -> None:
    taken = []
    for table, columns in REFUSED.items():
        plain = _plain(connection, table)
        connection.execute(_insertion(table, plain))
        for column, values in columns.items():
            for value in (*values, "x'00'", *_other_type(connection, table, column)):
                for statement in (
                    _insertion(table, {**plain, column: value}),
                    f"update {table} set {column} = {value}",
                ):
                    try:
                        connection.execute(statement)
                    except sqlite3.IntegrityError:
                        continue
                    taken.append((table, column, value[:50]))
    assert taken == []


def _other_type(connection: sqlite3.Connection, table: str, column: str) -> tuple[str, ...]:
    return ("'x'", "1.5") if _columns(connection)[table][column] == "INTEGER" else ()


_PLAIN: dict[str, dict[str, str]] = {
    "offpath_action": {"state": "'running'", "reasons": "'{}'"},
    "offpath_job": {
        "task": "'r'",
        "input": "'{}'",
        "queue": "'default'",
        "id": "'00000000-0000-7000-8000-000000000000'",
        "state": "'ready'",
        "tags": '\'["a", "b"]\'',
        "options": "'{\"retry\": {}}'",
        "attempt": "1",
    },
    "offpath_message": {"box": "'out'", "state": "'pending'", "attempt": "1"},
    "offpath_attempt": {"status": "'sent'", "number": "1"},
    "offpath_letter": {"number": "1"},
    "offpath_router": {"partitions": "1"},
    "offpath_schedule": {"version": "1"},
    "offpath_occurrence": {"outcome": "'fired'"},
    "offpath_group": {"policy": "'settle_all'"},
    "offpath_job_gate": {"counting": "'settled'", "state": "'open'"},
    "offpath_endpoint": {
        "secrets": "'[]'",
        "topics": "'[]'",
        "streams": "'[]'",
        "state": "'enabled'",
    },
    "offpath_step": {"kind": "'step'"},
    "offpath_run": {"kind": "'sweep'"},
    "offpath_stat": {"step": "10"},
    "offpath_limit_part": {"cost": "1"},
}
"""Columns that a row must have beside zeros, names and empty objects."""


def _plain(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """The least that a row of this table holds."""
    needed = connection.execute(
        'select name, upper(type) from pragma_table_info(?) where "notnull"', [table]
    )
    row = {
        name: "0" if kind == "INTEGER" else "'{}'" if name in REFUSED[table] else "'r'"
        for name, kind in needed
    }
    return {**row, **_PLAIN.get(table, {})}


def _insertion(table: str, row: dict[str, str]) -> str:
    return f"insert into {table} ({', '.join(row)}) values ({', '.join(row.values())})"


async def test_an_event_is_appended_after_a_refused_position(
    connection: sqlite3.Connection, store: Store
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="log_position_readable"):
        connection.execute(
            "insert into offpath_log (position, id, domain, type, stream, slot, at, payload)"
            f" values ({2**63 - 1}, 'far', 'd', 'paid', 'eu', 0, 0, '{{}}')"
        )
    one = event()
    await store.commit(Effects(log=(one,)))
    found = await store.read_events(domain=one.domain, limit=100)
    assert [each.id for each in found] == [one.id]


NUMBER = next(step.number for step in migrate.KNOWN if step.name == "readable")


async def test_rows_that_were_there_before_the_rules_are_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value of each column that the rules refuse is in a file when these come."""
    path = tmp_path / "old.db"
    with monkeypatch.context() as patch, closing(sqlite3.connect(path)) as old:
        patch.setattr(migrate, "KNOWN", migrate.KNOWN[: NUMBER - 1])
        old.executescript(migrate.script())
        written = _spoilt(old)
        old.commit()
    assert written > 150
    app = offpath.App(f"sqlite:///{path}", auto_start=False)

    @app.task
    async def r() -> int:
        return 1

    async with app:
        healthy = await r.enqueue()
        bad = await app.jobs.count(state="queued") - 1
        assert bad > 50
        await app.worker(queues=["default", "r"]).run_until_idle()
        assert await healthy.result(timeout=5) == 1
        parked = await app.jobs.find(state="dead", limit=1000)
        assert {one.reason for one in parked.items} == {DeadReason.UNREADABLE}
        told = {one.name: one for one in await app.store().diagnose()}
        assert told["rows"].message == "no row that should not be possible"
        event = await app.log.append("r", "paid", "eu", {})
        found = await app.store().read_events(domain="r", limit=1000)
        assert found[-1].id == event


def _spoilt(old: sqlite3.Connection) -> int:
    """Write each value that the rules refuse as far as the file takes it; how many it took."""
    written = 0
    there = _columns(old)  # a table of a later step has its rules from the first
    for table, columns in REFUSED.items():
        if table not in there:
            continue
        plain = _plain(old, table)
        for column, values in columns.items():
            for value in values if column in there[table] else ():
                keys = {
                    name: f"'{table} {written}'" if kind == "TEXT" else str(written + 1)
                    for name, kind, key in old.execute(
                        "select name, upper(type), pk from pragma_table_info(?)", [table]
                    )
                    if key or name == "id"
                }
                try:
                    old.execute(_insertion(table, {**plain, **keys, column: value}))
                except sqlite3.IntegrityError:
                    continue
                written += 1
    return written
