"""Raw writes into a ledger's tables, as somebody with a password for the database makes them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from offpath.model.ledger.chart import chart
from offpath.model.ledger.records import AccountRecord
from tests.conformance.ledger_builders import ANN, BOB, STORED_VALUE, TRUST_CASH

HASH = "ab" * 32


class RawLink(Struct, frozen=True, kw_only=True):
    """A link as it is to be written, and its account after it."""

    account: str
    number: int
    amount: int
    balance: int
    raised: int
    prev: str
    hash: str = HASH
    posting: str = "raw"
    drafted: bool = True
    """True if a database that makes links itself can be told to make this one."""


def following(account: AccountRecord, amount: int) -> RawLink:
    """An honest link behind an account's last one, but for its hash, which no database computes."""
    change = chart(account.id).change(amount)
    return RawLink(
        account=account.id,
        number=account.number + 1,
        amount=amount,
        balance=account.balance + change,
        raised=account.raised + max(change, 0),
        prev=account.head,
    )


def posting(backend: str, links: Sequence[RawLink]) -> list[str]:
    """Statements that write a posting with these links, as the backend's store does it."""
    return _on_sqlite(links) if backend == "sqlite" else _on_postgres(links)


def _on_sqlite(links: Sequence[RawLink]) -> list[str]:
    """Links are drafted, then sealed; those that cannot be drafted are written as they are."""
    drafts = [
        f"(next.id + {place}, '{one.account}', {one.number}, {one.amount}, {one.balance}, "
        f"'{one.hash}')"
        for place, one in enumerate(links)
    ]
    following = "(select coalesce(max(seq) + 1, 1) * 65536 as id from offpath_ledger_posting) next"
    into = "insert into offpath_ledger_draft (id, account, number, amount, balance, hash) select "
    sealing = (
        "insert into offpath_ledger_posting (seq, id, at, source, meta) "
        f"select next.id / 65536, '{links[0].posting}', 0, null, '{{}}' from {following}"
    )
    undrafted = [
        "insert into offpath_ledger_link (id, account, number, amount, balance, raised, prev, hash)"
        f" values (9999, '{one.account}', {one.number}, {one.amount}, {one.balance}, {one.raised}, "
        f"'{one.prev}', '{one.hash}')"
        for one in links
        if not one.drafted
    ]
    return [*(f"{into}{draft[1:-1]} from {following}" for draft in drafts), *undrafted, sealing]


def _on_postgres(links: Sequence[RawLink]) -> list[str]:
    """Links and the accounts that they move are written by one statement."""
    rows = ",".join(
        f"({one.number}, {one.amount}, {one.balance}, {one.raised}, 0, '{one.account}', "
        f"'{one.posting}', array[{one.amount}], '{one.prev}', '{one.hash}')"
        for one in links
    )
    moved = ",".join(
        f"('{one.account}', {one.balance}, {one.raised}, '{one.hash}', {one.number})"
        for one in links
    )
    statement = (
        "with posted as (insert into offpath.ledger_posting (at, id, meta) "
        f"values (0, '{links[0].posting}', '{{}}')), "
        "linked as (insert into offpath.ledger_link (number, amount, balance, raised, at, account, "
        f"posting, entries, prev, hash) values {rows}) "
        "update offpath.ledger_account a set balance = v.balance, raised = v.raised, "
        f"head = v.head, number = v.number from (values {moved}) "
        "v (id, balance, raised, head, number) where a.id = v.id"
    )
    return [statement]


def broken_postings(found: dict[str, AccountRecord]) -> dict[str, list[RawLink]]:
    """Postings that no ledger may have, by what is wrong with them."""
    ann, stored = following(found[ANN], -5), following(found[STORED_VALUE], 5)
    cash, bob = following(found[TRUST_CASH], 5), following(found[BOB], -5)
    poor = following(found[ANN], found[ANN].balance + 1)
    rich = following(found[STORED_VALUE], -found[ANN].balance - 1)
    return {
        "unbalanced": [ann],
        "off by one": [ann, following(found[STORED_VALUE], 6)],
        "two currencies": [cash, bob],
        "a wallet below zero": [poor, rich],
        "a fork": [replace(ann, number=ann.number - 1, prev="0" * 64), stored],
        "a fork at the beginning": [replace(ann, number=1, prev="0" * 64), stored],
        "a gap": [replace(ann, number=ann.number + 1), stored],
        "another head before it": [replace(ann, prev="cd" * 32, drafted=False), stored],
        "another balance": [replace(ann, balance=ann.balance + 1), stored],
        "another sum of what raised it": [
            replace(ann, raised=ann.raised + 1, drafted=False),
            stored,
        ],
        "a posting that exists": [replace(one, posting="first") for one in (ann, stored)],
        "an account that is none": [replace(bob, account="bob:wallet"), stored],
    }


_TABLE = {"sqlite": "offpath_ledger_", "postgres": "offpath.ledger_"}
WRITES = {
    "a drifted balance": f"update <account> set balance = balance + 1 where id = '{ANN}'",
    "a head turned back": f"update <account> set number = number - 1 where id = '{ANN}'",
    "another head": f"update <account> set head = '{HASH}' where id = '{ANN}'",
    "an account renamed": f"update <account> set id = 'eve:spendable' where id = '{ANN}'",
    "an account removed": f"delete from <account> where id = '{ANN}'",
    "an account that begins rich": (
        "insert into <account> (id, balance, raised, number) values ('eve:earned', 5, 5, 1)"
    ),
    "metadata changed": "update <posting> set meta = '{\"kind\":\"other\"}' where id = 'first'",
    "a posting removed": "delete from <posting> where id = 'first'",
    "a link changed": "update <link> set amount = amount + 1",
    "a link removed": f"delete from <link> where account = '{ANN}'",
    "a key twice": (
        "insert into <key> (key, fingerprint, receipt, at) "
        "select key, 'x', '{}', 0 from <key> limit 1"
    ),
    "a kind of row that there is not": "update <side> set kind = 'gift', version = version + 1",
    "a unique key twice": (
        "update <side> set unique_key = 'k', version = version + 1 where id = 't'"
    ),
    "a state that there is not": "update <side> set state = 'NEW', version = version + 1",
    "a checkpoint changed": "update <checkpoint> set root = 'x'",
    "a checkpoint removed": "delete from <checkpoint>",
    "a second first checkpoint": (
        "insert into <checkpoint> (id, root, signature, count, at, v) "
        "values ('c9', 'x', 'y', 1, 0, 3)"
    ),
}
"""Statements that no ledger may take, by what is wrong with them."""


def write(backend: str, name: str) -> str:
    """The statement for this backend."""
    statement = WRITES[name]
    for table in ("account", "posting", "link", "key", "side", "checkpoint"):
        statement = statement.replace(f"<{table}>", _TABLE[backend] + table)
    return statement
