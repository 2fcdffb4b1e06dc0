"""Rows of a ledger that a SQLite file refuses, whoever writes and whatever is set."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from offpath.errors import StoreRejected
from offpath.model.ledger.posting import GENESIS
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite.session import SQL, Session
from tests.conformance.ledger_builders import ANN, STORED_VALUE, TRUST_CASH, plain, put, side

NUMBER, AMOUNT, BALANCE = 2, 3, 4
"""Places in a draft."""
HASH = "ab" * 32

DRAFT = """
    insert into offpath_ledger_draft (id, account, number, amount, balance, hash, entries)
    values (?, ?, ?, ?, ?, ?, ?)
"""
POSTING = "insert into offpath_ledger_posting (id, at, meta) values ('raw', 1, '{}')"
ACCOUNT = """
    insert into offpath_ledger_account (id, kind, currency, side, guarded) values (?, ?, ?, ?, ?)
"""

Draft = list[Any]


@pytest.fixture
async def posted(store: SqliteStore) -> None:
    """Two postings: Ann has 5.00, and 4.00 of promo."""
    await store.post([plain(500), plain(400, "ann:promo", given="platform:promo_float")])
    await store.post([put(side("sale", "s", "SOLD", unique_key="k"))])


@pytest.fixture
def raw(path: Path, posted: None) -> Iterator[sqlite3.Connection]:
    """Somebody's own connection, without any of our settings."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def links(connection: sqlite3.Connection) -> list[Any]:
    """Everything that money hangs on; an empty account is nothing."""
    read = (
        "select * from offpath_ledger_link",
        "select * from offpath_ledger_account where number > 0",
        "select * from offpath_ledger_posting",
    )
    return [connection.execute(each).fetchall() for each in read]


def refused(connection: sqlite3.Connection, why: str, *statements: tuple[Any, ...] | str) -> None:
    """The last statement is refused for this reason, and who commits the others moves nothing."""
    before = links(connection)
    connection.execute("begin immediate")
    *first, last = [(one,) if isinstance(one, str) else one for one in statements]
    for one in first:
        connection.execute(*one)
    with pytest.raises(sqlite3.IntegrityError, match=why):
        connection.execute(*last)
    connection.execute("commit")
    assert links(connection) == before


def drafts(*changes: tuple[int, int, Any]) -> list[Draft]:
    """The links of a good third posting over 1.00, with some fields of them put another way."""
    head = 3 * 65_536
    made: list[Draft] = [
        [head, ANN, 2, -100, 600, HASH, None],
        [head + 1, STORED_VALUE, 2, 100, 600, HASH, None],
    ]
    for link, field, value in changes:
        made[link][field] = value
    return made


def drafted(made: list[Draft]) -> list[tuple[str, Draft]]:
    return [(DRAFT, each) for each in made]


def test_what_follows_is_sealed_by_hand_as_well(raw: sqlite3.Connection) -> None:
    for one in drafted(drafts((0, 6, "[-40,-60]"))):
        raw.execute(*one)
    raw.execute(POSTING)
    account = "select balance, raised, number, head from offpath_ledger_account where id = ?"
    assert raw.execute(account, (ANN,)).fetchone() == (600, 600, 2, HASH)
    assert raw.execute(account, (STORED_VALUE,)).fetchone() == (600, 600, 2, HASH)
    assert raw.execute("select count(*) from offpath_ledger_draft").fetchone() == (0,)


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("sum to zero", [(0, AMOUNT, -50), (0, BALANCE, 550)]),
        ("follows the last one", [(0, NUMBER, 1)]),
        ("follows the last one", [(0, NUMBER, 3)]),
        ("follows the last one", [(0, BALANCE, 700)]),
        ("follows the last one", [(0, 1, "bob:spendable")]),
        ("follows the last one", [(0, 6, "[-40,-61]")]),
        ("follows the last one", [(0, 5, "short")]),
        ("one link for each", [(0, 1, STORED_VALUE), (0, AMOUNT, 100), (1, AMOUNT, -100)]),
        (
            "never below zero",
            [(0, AMOUNT, 501), (0, BALANCE, -1), (1, AMOUNT, -501), (1, BALANCE, -1)],
        ),
    ],
    ids=[
        "unbalanced",
        "forked",
        "discontinuous",
        "drifted",
        "no account",
        "entries",
        "no hash",
        "twice",
        "below zero",
    ],
)
@pytest.mark.parametrize("how", ["", "or ignore", "or replace"])
def test_a_posting_that_does_not_follow_is_refused(
    raw: sqlite3.Connection, why: str, change: list[tuple[int, int, Any]], how: str
) -> None:
    seal = POSTING.replace("insert", f"insert {how}")
    refused(raw, why, *drafted(drafts(*change)), seal)


def test_an_account_of_the_platform_may_be_below_zero(raw: sqlite3.Connection) -> None:
    head = 3 * 65_536
    made = [
        [head, STORED_VALUE, 2, -501, -1, HASH, None],
        [head + 1, "platform:promo_float", 2, 501, 901, HASH, None],
    ]
    for one in drafted(made):
        raw.execute(*one)
    raw.execute(POSTING)


def test_two_currencies_do_not_make_up_for_each_other(raw: sqlite3.Connection) -> None:
    cash = (ACCOUNT, (TRUST_CASH, "trust_cash", "USD", 1, 0))
    made = drafts((1, 1, TRUST_CASH), (1, NUMBER, 1), (1, BALANCE, 100))
    refused(raw, "each currency", cash, *drafted(made), POSTING)


def test_sums_beyond_64_bits_do_not_come_around_to_zero(raw: sqlite3.Connection) -> None:
    head, half = 3 * 65_536, 2**62
    names = ("receivable", "opening_equity", "promo_float", "revenue")
    made = [
        [head, "platform:opening_equity", 1, half, half, HASH, None],
        [head + 1, "platform:receivable", 1, half, half, HASH, None],
        [head + 2, STORED_VALUE, 2, half, half + 500, HASH, None],
        [head + 3, "platform:promo_float", 2, half, half + 400, HASH, None],
    ]
    new = [(ACCOUNT, (f"platform:{name}", name, "CREDIT", 1, 0)) for name in names[:2]]
    refused(raw, "each currency", *new, *drafted(made), POSTING)


def test_nothing_of_a_posting_can_be_written_alone(raw: sqlite3.Connection) -> None:
    refused(raw, "has links", POSTING)
    link = """
        insert {how} into offpath_ledger_link
            (id, account, number, amount, balance, raised, prev, hash)
        select id + ?, account, number + ?, amount, balance, raised, prev, hash
        from offpath_ledger_link where account = 'ann:spendable'
    """
    for how in ("", "or replace"):
        text = link.format(how=how)
        refused(raw, "with its posting only", (text, (2 * 65_536, 1)))  # no posting yet
        refused(raw, "with its posting only", (text, (5, 1)))  # one more of a posting
        refused(raw, "with its posting only", (text, (0, 0)))  # in place of it
        refused(raw, "with its posting only", *drafted(drafts()), (text, (2 * 65_536, 1)))
        raw.execute("delete from offpath_ledger_draft")
    refused(raw, "is sealed", (DRAFT, [65_536, ANN, 2, 1, 1, HASH, None]))
    moved = "update offpath_ledger_draft set id = 65536"
    refused(raw, "does not change", *drafted(drafts()), moved)


def test_postings_are_numbered_without_a_gap_and_their_ids_are_used_once(
    raw: sqlite3.Connection,
) -> None:
    known = raw.execute("select id from offpath_ledger_posting").fetchone()[0]
    again = (
        "insert or replace into offpath_ledger_posting (seq, id, at, meta) values (?, ?, 1, '{}')"
    )
    refused(raw, "has this posting", (again, (None, known)))
    refused(raw, "has this posting", (again, (1, "other")))
    refused(raw, "without a gap", (again, (7, "other")))


@pytest.mark.parametrize(
    "change",
    [
        "update offpath_ledger_posting set meta = '{}'",
        "update offpath_ledger_posting set at = at + 1",
        "update or replace offpath_ledger_link set number = 1",
        "update offpath_ledger_link set amount = amount + 1",
        "delete from offpath_ledger_posting",
        "delete from offpath_ledger_link",
        "delete from offpath_ledger_account",
    ],
)
def test_what_was_posted_is_neither_changed_nor_removed(
    raw: sqlite3.Connection, change: str
) -> None:
    refused(raw, "does not change|is not removed", change)


@pytest.mark.parametrize(
    "change",
    [
        "balance = balance + 1",
        "raised = raised + 1",
        "number = number + 1",
        f"head = '{HASH}'",
        f"balance = 0, raised = 0, number = 0, head = '{GENESIS}'",
    ],
)
def test_an_account_is_as_its_last_link_says(raw: sqlite3.Connection, change: str) -> None:
    refused(raw, "as its last link says", f"update offpath_ledger_account set {change}")


@pytest.mark.parametrize(
    "change", ["currency = 'USD'", "side = -side", "guarded = 0", "kind = 'earned'", "id = 'x'"]
)
def test_what_an_account_is_does_not_change(raw: sqlite3.Connection, change: str) -> None:
    refused(
        raw,
        "does not change",
        f"update offpath_ledger_account set {change} where id = 'ann:spendable'",
    )


@pytest.mark.parametrize(
    "account",
    [
        ("bob:spendable", "spendable", "USD", -1, 1),
        ("bob:spendable", "spendable", "CREDIT", 1, 1),
        ("bob:spendable", "spendable", "CREDIT", -1, 0),
        ("bob:spendable", "earned", "CREDIT", -1, 1),
        ("bob:savings", "savings", "CREDIT", -1, 1),
        ("platform:spendable", "spendable", "CREDIT", -1, 1),
        ("platform:savings", "savings", "CREDIT", 1, 0),
        ("platform:trust_cash", "trust_cash", "CREDIT", 1, 0),
        ("platform:revenue", "revenue", "USD", -1, 0),
        ("platform:payout_reserve", "payout_reserve", "CREDIT", -1, 0),
    ],
)
def test_an_account_is_one_of_the_chart(
    raw: sqlite3.Connection, account: tuple[str, str, str, int, int]
) -> None:
    refused(raw, "knows no such account", (ACCOUNT, account))


def test_an_account_begins_empty(raw: sqlite3.Connection) -> None:
    full = ACCOUNT.replace("guarded)", "guarded, balance)").replace("?, ?)", "?, ?, 5)")
    refused(raw, "begins empty", (full, ("bob:spendable", "spendable", "CREDIT", -1, 1)))
    again = ACCOUNT.replace("insert", "insert or replace")
    refused(raw, "has this account", (again, (ANN, "spendable", "CREDIT", -1, 1)))


SIDE = """
    insert into offpath_ledger_side
        (kind, id, owner, state, version, unique_key, created_at, touched_at, body)
    values (?, ?, 'ann', ?, 1, ?, 1, 1, ?)
"""


@pytest.mark.parametrize(
    ("why", "row"),
    [
        ("known_state", ("sale", "new", "OWNED", None, "{}")),
        ("known_state", ("loan", "new", "OPEN", None, "{}")),
        ("json_valid", ("sale", "new", "SOLD", None, "{")),
        ("has this row", ("sale", "s", "SOLD", None, "{}")),
        ("has this row", ("sale", "new", "SOLD", "k", "{}")),
    ],
)
def test_a_row_beside_has_a_known_state_and_its_key_alone(
    raw: sqlite3.Connection, why: str, row: tuple[Any, ...]
) -> None:
    refused(raw, why, (SIDE, row))


def test_a_row_beside_is_not_written_with_an_old_version(raw: sqlite3.Connection) -> None:
    refused(raw, "raises the version", "update offpath_ledger_side set amount = 5")
    refused(raw, "raises the version", "update offpath_ledger_side set id = 'x', version = 5")
    raw.execute("update offpath_ledger_side set amount = 5, version = version + 1")


def test_a_key_is_used_once(raw: sqlite3.Connection) -> None:
    record = (
        "insert into offpath_ledger_key (key, fingerprint, receipt, at) values ('k', '', '{}', 1)"
    )
    refused(raw, "UNIQUE", record, record)


def test_a_checkpoint_follows_the_last_one_and_stays(raw: sqlite3.Connection) -> None:
    seal = """
        insert into offpath_ledger_checkpoint (id, root, signature, count, at, v, prev)
        values (?, '', '', 1, 1, 3, ?)
    """
    refused(raw, "follows the last one", (seal, ("a", "nobody")))
    raw.execute(seal, ("a", None))
    refused(raw, "follows the last one", (seal, ("b", None)))
    refused(raw, "follows the last one", (seal.replace("insert", "insert or replace"), ("a", "a")))
    raw.execute(seal, ("b", "a"))
    refused(raw, "does not change", "update offpath_ledger_checkpoint set root = 'x'")
    refused(raw, "is not removed", "delete from offpath_ledger_checkpoint where id = 'b'")


async def test_the_store_says_that_it_was_refused(store: SqliteStore, posted: None) -> None:
    def alone(session: Session) -> None:
        session.run(SQL["ledger_posting_add"](batch='[["raw",1,null,"{}"]]'))

    with pytest.raises(StoreRejected, match="a posting of the ledger has links"):
        await store._write(alone)
    assert (await store.ledger_counts()).postings == 2


async def test_drafts_that_somebody_left_behind_are_nobodys(
    store: SqliteStore, raw: sqlite3.Connection
) -> None:
    for one in drafted([*drafts(), [3 * 65_536 + 9, "ann:promo", 2, -5, 405, HASH, None]]):
        raw.execute(*one)
    [decided] = await store.post([plain(1)])
    assert decided.receipt is not None
    [posting] = await store.ledger_postings(ids=decided.receipt.postings)
    assert [link.account for link in posting.links] == [ANN, STORED_VALUE]
