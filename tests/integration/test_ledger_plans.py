"""No statement of a ledger's batch depends on statistics, or on what else the tables hold.

10,000 accounts have 40,000 links; there are as many side rows, keys and attempts. The planner knows
nothing of that, or believes that the tables are empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from offpath.model.ledger.needs import AttemptNeed, LotsNeed, Needs, RaisedNeed
from offpath.model.ledger.records import SideKey
from offpath.store.postgres import PostgresStore
from offpath.store.postgres.ledger_needs import BatchNeeds
from offpath.store.postgres.steps import to_json
from offpath.store.programs import ledger_upkeep
from offpath.store.sql import Query
from tests.conformance.ledger_builders import checkpoint, op
from tests.integration.planned_statements import BATCH, SQL, D
from tests.integration.test_plans import (
    Explain,
    explained,
    explained_generic,
    touched,
)
from tests.servers import Databases

MOST_READ = 3_000
"""Rows that one scan may touch for a batch of 100, out of 40,000."""

_TABLES = (
    *("account", "posting", "link", "side", "key", "attempt", "leaf", "checkpoint"),
    *("retired", "trim"),
)
_BIG = {f"ledger_{name}" for name in _TABLES} - {"ledger_checkpoint", "ledger_trim"}
_FILL = """
    set session_replication_role = replica;
    insert into offpath.ledger_account (id, balance, raised, number, head)
    select 'usr_' || n || ':spendable', 40, 40, 4, md5('4') || md5('4')
    from generate_series(1, 10000) as n;
    insert into offpath.ledger_posting (id, meta, at)
    select 'txn_' || n, '{}', n from generate_series(1, 40000) as n;
    insert into offpath.ledger_link (
        account, number, posting, amount, entries, balance, raised, prev, hash, at
    )
    select
        'usr_' || 1 + n % 10000 || ':spendable', k, 'txn_' || n + 1, -10, '{-10}', 10 * k, 10 * k,
        '', md5(k::text) || md5(k::text), n
    from generate_series(0, 39999) as n cross join lateral (select 1 + n / 10000 as k) as one;
    insert into offpath.ledger_side (
        version, due_at, attempts, amount, created_at, touched_at, kind, id, owner, state,
        unique_key, body
    )
    select
        1, n, 0, 5, n, n, k.kind, 'row_' || n, 'usr_' || n % 1000, k.state,
        case when k.kind = 'subscription' then 'sub_' || n end, '{}'
    from generate_series(1, 40000) as n
    cross join lateral (
        select
            (array['payout', 'subscription', 'promo', 'sale'])[1 + n % 4] as kind,
            (array['SUBMITTED', 'ACTIVE', 'OPEN', 'SOLD'])[1 + n % 4] as state
    ) as k;
    insert into offpath.ledger_key (key, fingerprint, receipt, at)
    select 'key_' || n, '', '{}', n from generate_series(1, 40000) as n;
    insert into offpath.ledger_attempt (subject, key, amount, at, total)
    select 'out:usr_' || n % 1000, 'key_' || n, 1, n, n from generate_series(1, 40000) as n;
    insert into offpath.ledger_leaf (account, number, head, sum)
    select id, number, head, -balance from offpath.ledger_account;
    insert into offpath.ledger_trim (
        number, posting, until, at, checkpoint, file, archive, kept, kid, signature
    )
    values (1, 20000, 1, 1, 'c0', 'a.gz', 'ab', 'cd', 'k', 's');
    insert into offpath.ledger_retired (id, trim)
    select 'txn_' || n, 1 from generate_series(1, 100) as n
    union all
    select 'gone_' || n, 1 from generate_series(1, 40000) as n;
    reset session_replication_role
"""


@pytest.fixture(scope="module", params=["never analysed", "analysed while empty"])
def filled(
    request: pytest.FixtureRequest, postgres_databases: Databases
) -> Iterator[psycopg.Connection[Any]]:
    """Filled tables of which the planner knows nothing, or the wrong thing."""
    url = postgres_databases.create()
    with ThreadPoolExecutor(1) as thread:  # the test's event loop may be current in this one
        thread.submit(asyncio.run, PostgresStore(url).migrate()).result()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for table in _TABLES:
            off = f"alter table offpath.ledger_{table} set (autovacuum_enabled = false)"
            connection.execute(off.encode())
        if request.param == "analysed while empty":
            connection.execute("analyze")
        connection.execute(_FILL.encode())
        yield connection
    postgres_databases.drop(url)


# -- the statements ------------------------------------------------------------------------------


def _user(n: int) -> str:
    return f"usr_{n * 7 + 1}:spendable"


def _open() -> tuple[Query, ...]:
    """Everything that an operation can ask for, a hundred times."""
    needs = [
        Needs(
            accounts=frozenset({_user(n)}),
            sides=frozenset({SideKey("sale", f"row_{n * 4 + 3}")}),
            holders=frozenset({SideKey("subscription", f"sub_{n * 4 + 1}")}),
            newest=frozenset({SideKey("payout", f"usr_{n * 4}")}),
            postings=frozenset({f"txn_{n}"}),
            lots=frozenset({LotsNeed(_user(n), 10**15)}),
            raised=frozenset({RaisedNeed(_user(n), 10**15)}),
            attempts=frozenset({AttemptNeed(f"out:usr_{n}", 10**15, f"key_{n}")}),
        )
        for n in range(BATCH)
    ]
    ops = [
        op(lambda _: None, f"key_{n}", **{k: getattr(one, k) for k in one.__struct_fields__})
        for n, one in enumerate(needs)
    ]
    return BatchNeeds(ops).queries(None, SQL)


def _write() -> tuple[Query, ...]:
    """A balanced posting for each two accounts, and what goes with it."""
    links, accounts, postings = [], [], []
    for n in range(BATCH):
        posting = f"new_{n}"
        postings.append({"id": posting, "meta": "{}"})
        for account, change in ((_user(2 * n), 1), (_user(2 * n + 1), -1)):
            now = {"balance": 40 + change, "raised": 40 + max(change, 0), "number": 5}
            head = {"prev": _head(4), "hash": f"{n:064}"}
            links.append(
                {"account": account, "posting": posting, **now, **head}
                | {"amount": -change, "entries": [-change], "source": None}
            )
            accounts.append({"id": account, **now, "head": f"{n:064}", "was": 4})
    keys = [{"key": f"new_{n}", "fingerprint": "", "receipt": "{}", "at": 1} for n in range(BATCH)]
    tries = [
        {"subject": f"s_{n}", "key": "k", "amount": 1, "at": 1, "total": 1} for n in range(BATCH)
    ]
    query = SQL["write_ledger"](
        at=1,
        postings=to_json(postings),
        links=to_json(links),
        accounts=to_json(accounts),
        keys=to_json(keys),
        attempts=to_json(tries),
        sides="[]",
        moved=len(accounts),
    )
    return (query,)


def _head(number: int) -> str:
    import hashlib

    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest() * 2


def _change_sides() -> tuple[Query, ...]:
    rows = [
        {"kind": "subscription", "id": f"row_{n * 4 + 1}", "owner": "o", "state": "ACTIVE"}
        | {"was": 1, "version": 2, "attempts": 0, "touched_at": 1, "body": "{}"}
        for n in range(BATCH)
    ]
    sides = to_json(rows)
    return (
        SQL["give_up_unique_keys"](sides=sides),
        SQL["change_sides"](sides=sides, count=BATCH),
        SQL["drop_accounts"](accounts=to_json([_user(n) for n in range(BATCH)])),
    )


def _keep() -> tuple[Query, ...]:
    """Leases, a seal and pruning."""
    leases = (
        next(ledger_upkeep.lease_sides(D, kind, limit=BATCH, hold=60.0)).queries
        for kind in ("payout", "subscription", "promo")
    )
    steps = ledger_upkeep.save_checkpoint(D, checkpoint("c1"), ())
    found = next(ledger_upkeep.old(D, 90_000, 90_000, BATCH)).queries
    attempts = [(f"out:usr_{n % 1000}", n, n) for n in range(1, BATCH)]
    keys = [f"key_{n}" for n in range(1, BATCH)]
    gone = ledger_upkeep.Old(to_json(attempts), to_json(keys), 90_000)
    pruned = (*found, *next(ledger_upkeep.prune(D, gone)).queries)
    leaves = [{"account": _user(n), "number": 5, "head": _head(5), "sum": 1} for n in range(BATCH)]
    return (
        *(query for lease in leases for query in lease),
        *next(steps).queries,
        *pruned,
        SQL["put_leaves"](batch=to_json(leaves)),
        SQL["hold_sides"](kind="payout", ids=to_json(["row_0"]), until=1),
        *next(ledger_upkeep.keep_postings(D, 1, [f"txn_{n}" for n in range(BATCH)])).queries,
        SQL["next_trim"](limit=BATCH),
        SQL["retire_postings"](number=1, after=0, through=BATCH),
        SQL["trim_links"](after=0, through=BATCH, boundary=20_000),
        SQL["drop_trimmed"](after=0, through=BATCH),
    )


def _read() -> tuple[Query, ...]:
    """Pages of every list."""
    users = to_json([_user(n) for n in range(BATCH)])
    rows = to_json([f"row_{n * 4}" for n in range(BATCH)])
    page: dict[str, Any] = {"after": "", "limit": BATCH}
    states = to_json(["SUBMITTED"])
    return (
        SQL["ledger_accounts_by_id"](ids=users, prefix="", **page),
        SQL["ledger_accounts_by_prefix"](prefix="usr_77", beyond="usr_78", **page),
        SQL["ledger_links_on"](account=_user(1), after=0, limit=BATCH),
        SQL["ledger_links_back"](account=_user(1), before=10, limit=BATCH),
        SQL["ledger_walk"](account=_user(1), number=2, limit=BATCH),
        SQL["ledger_postings_by_id"](
            ids=to_json([f"txn_{n}" for n in range(BATCH)]), after=0, limit=BATCH
        ),
        SQL["ledger_postings_on"](after=20_000, limit=BATCH),
        SQL["ledger_sides_by_id"](kind="payout", ids=rows, owner=None, states=None, **page),
        SQL["ledger_sides_of_owner"](kind="payout", owner="usr_4", states=states, **page),
        SQL["ledger_sides_of_kind"](kind="payout", states=states, **page),
        SQL["ledger_key"](key="key_9"),
        SQL["ledger_checkpoints"](before="", limit=BATCH),
        SQL["ledger_leaves"](**page),
        SQL["ledger_leaves_of"](ids=users, **page),
        SQL["ledger_standings"](until=10**9, **page),
        SQL["ledger_standings_of"](until=10**9, ids=users, **page),
        SQL["ledger_retired_of"](ids=to_json([f"gone_{n}" for n in range(BATCH)]), **page),
        SQL["ledger_kept"](trim=1, **page),
    )


_TRANSITIONS = {
    make.__name__.strip("_"): make for make in (_open, _write, _change_sides, _keep, _read)
}


@pytest.mark.parametrize("explain", [explained, explained_generic])
@pytest.mark.parametrize("transition", _TRANSITIONS)
def test_a_statement_reads_about_what_it_returns(
    filled: psycopg.Connection[Any], transition: str, explain: Explain
) -> None:
    for query in _TRANSITIONS[transition]():
        nodes = (explain if query.params else explained)(filled, query)
        for scan in (node for node in nodes if node.get("Relation Name") in _BIG):
            if scan["Node Type"] == "ModifyTable":
                continue
            assert scan["Node Type"] != "Seq Scan" or not scan["Actual Loops"], query.name
            assert touched(scan) <= MOST_READ, (query.name, scan.get("Index Name"), scan)
        compared = sum(
            node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in nodes
        )
        assert compared <= MOST_READ, query.name


def test_what_is_checked_finds_its_rows(filled: psycopg.Connection[Any]) -> None:
    """Else a plan could be cheap because nothing is there to be found."""
    for query in (*_open(), *_write(), *_change_sides()[:2]):
        with filled.transaction(force_rollback=True):
            filled.execute(SQL["pin"].pyformat.encode())
            cursor = filled.execute(query.statement.pyformat.encode(), query.params)
            answer = str(cursor.fetchone()) if cursor.description else ""
        if query.name == "read_ledger":
            for part in ("newest", "postings", "keys", "lots", "raised", "attempts", "attempted"):
                assert f'"{part}" : []' not in answer, part
        if query.name in {"lock_accounts", "lock_sides"}:
            assert answer.count("usr_") >= BATCH


def test_the_checks_of_a_write_read_about_what_it_wrote(filled: psycopg.Connection[Any]) -> None:
    """The triggers' statements are not in its plan, but the server counts what they touch."""
    (query,) = _write()
    for pinned in (True, False):
        with filled.transaction(force_rollback=True):
            if pinned:
                filled.execute(SQL["pin"].pyformat.encode())
            before = _scanned(filled)
            filled.execute(query.statement.pyformat.encode(), query.params)
            assert _scanned(filled) == before, "a table was read from end to end"


def _scanned(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """The rows of each table that scans have lately given to this connection: what it did before
    this transaction is counted too until the server takes it over, now and then.
    """
    counted = "select c, pg_stat_get_xact_tuples_returned(c::regclass) from unnest(%s::text[]) as c"
    rows = connection.execute(counted, ([f"offpath.{table}" for table in sorted(_BIG)],))
    return dict(rows.fetchall())
