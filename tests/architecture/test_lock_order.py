"""Each lock of a Postgres statement has its place in the order, and one kind is locked by its ids.

``tests/conformance/test_lock_table.py`` looks at the order of statements in real transactions.
"""

from __future__ import annotations

import re

import pytest

from tests.architecture import locks

ONE_ROW = {
    "hold_job": "the row of one id",
    "hold_worker": "the row of one id",
    "lock_schedule": "the row of one name",
    "open_limit": "the row of one key",
    "stat_body": "the row of one span",
}
"""Statements that wait for one row, and so need no order among rows."""


def waiting(sql: str) -> list[str]:
    """The SELECTs of a statement that wait for row locks, each with the text before its lock."""
    return [
        sql[: found.start()]
        for found in re.finditer(r"for (?:no key )?update(?: of \w+)?(?! skip)\b(?! of)", sql)
        if not sql[found.end() :].lstrip().startswith("skip")
    ]


def test_every_locked_table_has_a_place_in_the_order_or_a_reason() -> None:
    touched = {one.table for _, found in locks.catalogue().values() for one in found}
    placed = locks.OF_TABLE.keys() | locks.WHEN_ADDED.keys() | locks.BESIDE.keys()
    assert touched - placed == set()


def test_rows_of_one_kind_are_locked_in_the_order_of_their_ids() -> None:
    unordered = {
        name
        for name, (sql, _) in locks.catalogue().items()
        for before in waiting(sql.lower())
        if not re.search(r"order by [\w.]+(?:, [\w.]+)*\s*$", before)
    }
    assert unordered == ONE_ROW.keys()


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select from offpath.job j where j.id = 1 order by j.id for update", "job waits"),
        ("update offpath.job set a = 1", "job waits"),
        (
            (
                "update offpath.job j set a = 1 from (select k.id from offpath.job k where"
                " offpath.f(k.id) for update skip locked) as h where h.id = j.id"
            ),
            "job free",
        ),
        ("insert into offpath.job (id) select 'for update'", "job adds"),
        (
            "insert into offpath.worker (id) values (1) on conflict (id) do update set a = 1",
            "worker adds, worker waits",
        ),
        ("select pg_advisory_xact_lock(1)", "advisory waits"),
        (
            (
                "select 1 from offpath.f(1) as f join offpath.job_group g on true order by g.id"
                " for update of g"
            ),
            "job_group waits",
        ),
    ],
)
def test_locks_are_read_from_a_statement(sql: str, found: str) -> None:
    assert ", ".join(f"{one.table} {one.how}" for one in locks.touches(sql)) == found


def test_statements_are_parted_into_their_transactions() -> None:
    sent = ["a", "begin", "b", "c", "commit", "begin", "d", "begin", "e", "commit"]
    assert list(locks.transactions(sent)) == [["a"], ["b", "c"], ["d"], ["e"]]


@pytest.mark.parametrize(
    ("transaction", "faults"),
    [
        (["hold_job", "lock_gates", "lock_groups"], []),
        (["lock_groups", "lock_gates"], ["lock_gates (gate) behind lock_groups (group)"]),
        (["lock_accounts", "hold_jobs"], ["hold_jobs (subject) behind lock_accounts (ledger)"]),
        (["lock_limits", "pick_held", "admit_jobs"], []),
        (["lock_limits", "admit_jobs"], ["admit_jobs (subject) behind lock_limits (limit)"]),
    ],
)
def test_a_lock_behind_a_higher_kind_is_a_fault(transaction: list[str], faults: list[str]) -> None:
    assert locks.disorder(transaction) == faults
