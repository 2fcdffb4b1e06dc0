"""SQLite's own part of a ledger: plans, costs, the file that is opened again, its findings."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.needs import AttemptNeed, LotsNeed, RaisedNeed
from offpath.model.ledger.posting import hash_of
from offpath.model.ledger.records import Leaf, SideKey
from offpath.model.new import Box, NewMessage
from offpath.runtime.clock import ManualClock
from offpath.store.hints import Hint
from offpath.store.protocol import Level
from offpath.store.sqlite import SqliteStore, migrate
from offpath.store.sqlite.session import SQL
from tests.conformance.ledger_builders import (
    ANN,
    STORED_VALUE,
    checkpoint,
    done,
    heads,
    move,
    op,
    plain,
    put,
    side,
)

DAY = 86_400_000
HOT = (
    "ledger_accounts_of",
    "ledger_sides_of",
    "ledger_holders_of",
    "ledger_newest_of",
    "ledger_paid_of",
    "ledger_postings_by_id",
    "ledger_keys_of",
    "ledger_lots_of",
    "ledger_lots_of_wallets",
    "ledger_raised_of",
    "ledger_attempts_of",
    "ledger_subjects_of",
    "ledger_attempted_of",
    "ledger_draft_add",
    "ledger_posting_add",
    "give_up_unique_keys",
    "change_sides",
    "ledger_accounts_by_id",
    "ledger_links_on",
    "ledger_links_back",
    "ledger_walk",
    "ledger_postings_on",
    "ledger_sides_by_id",
    "ledger_sides_of_owner",
    "ledger_sides_of_kind",
    "ledger_leaves_of",
    "ledger_leaves",
    "ledger_moved",
    "due_sides",
    "hold_sides",
    "ledger_checkpoints",
    "ledger_standings",
    "ledger_standings_of",
    "ledger_retired_of",
    "ledger_kept",
    "keep_postings",
    "retire_postings",
    "trim_links",
    "drop_trimmed",
    "prune_keys",
    "prune_attempts",
)
"""Statements that cost what they find, however much there is."""

_WALK = re.compile(
    r"^SCAN (?!wanted|one|json_each|step|place|moved|last VIRTUAL|last$|CONSTANT|\(subquery)"
)


@pytest.fixture
def empty() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(migrate.script())
        yield connection


@pytest.mark.parametrize("name", HOT)
def test_no_hot_statement_walks_a_table(empty: sqlite3.Connection, name: str) -> None:
    statement = SQL[name]
    values = dict.fromkeys(statement.parameters, 1)
    lines = [row[3] for row in empty.execute(f"explain query plan {statement.named}", values)]
    assert lines
    assert [line for line in lines if _WALK.search(line)] == []


def test_the_quotes_that_are_owed_are_all_that_is_read_of_them(empty: sqlite3.Connection) -> None:
    plan = empty.execute(f"explain query plan {SQL['ledger_totals'].named}").fetchall()
    assert [row[3] for row in plan if "offpath_ledger_side" in row[3]] == [
        "SCAN offpath_ledger_side USING INDEX offpath_ledger_side_quote"
    ]


STUBBORN = (
    "ledger_accounts_of",
    "ledger_sides_of",
    "ledger_holders_of",
    "ledger_keys_of",
    "ledger_attempts_of",
    "ledger_subjects_of",
    "ledger_attempted_of",
    "give_up_unique_keys",
    "change_sides",
    "due_sides",
    "hold_sides",
)
"""Statements that enter by their index also when statistics advise against it."""


@pytest.mark.parametrize("stat", ["1 1 1 1", "1000000 1000000 1000000 1000000"])
def test_wrong_statistics_do_not_change_that(path: Path, stat: str) -> None:
    """They say that the tables are all but empty, or that every row is like every other."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(migrate.script())
        connection.execute("analyze")
        connection.execute(
            "insert into sqlite_stat1 select tbl_name, name, ? from sqlite_schema "
            "where type = 'index' and tbl_name like 'offpath_ledger%'",
            (stat,),
        )
    with closing(sqlite3.connect(path)) as fresh:
        for name in STUBBORN:
            statement = SQL[name]
            values = dict.fromkeys(statement.parameters, 1)
            plan = fresh.execute(f"explain query plan {statement.named}", values)
            assert [row[3] for row in plan if _WALK.search(row[3])] == [], name


# -- costs -----------------------------------------------------------------------------------------


def asking() -> LedgerOp:
    """An operation that moves money and asks for everything that there is about it."""
    posting = move(5)
    return op(
        lambda book: (book.attempt("out:ann", "again", 5, book.now - DAY), book.post(posting)),
        accounts={ANN, STORED_VALUE},
        postings={posting.id},
        lots={LotsNeed(ANN, DAY)},
        raised={RaisedNeed(STORED_VALUE, DAY), RaisedNeed(STORED_VALUE, 0)},
        attempts={AttemptNeed("out:ann", DAY, "again")},
        newest={SideKey("payout", "ann")},
    )


async def cost(store: SqliteStore, *operations: LedgerOp) -> int:
    """About how many steps SQLite's machine takes for a batch, its triggers included."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 10
        return 0

    def watch(on: bool) -> None:
        assert store._writer is not None
        session = store._writer._session
        assert session is not None
        session._connection.set_progress_handler(count if on else None, 10)

    watch(True)
    await done(store, *operations)
    watch(False)
    return steps


async def test_a_posting_costs_the_same_however_many_there_were(store: SqliteStore) -> None:
    async def some(number: int) -> None:
        await done(store, *(plain(5) for _ in range(number)))
        payouts = (side("payout", f"{number}-{n}", "FAILED", amount=1) for n in range(number))
        await done(store, *(put(row) for row in payouts))

    await some(20)
    await done(store, asking())
    first = await cost(store, asking())
    await done(store, plain(-100))  # the balance does not reach back further than before
    await some(2_000)
    await done(store, plain(-10_000))
    assert await cost(store, asking()) < first * 1.5


async def test_what_a_wallet_has_matters_and_not_how_often_it_was_spent_from(
    store: SqliteStore,
) -> None:
    ask = op(lambda book: book.lots(ANN, 0), accounts={ANN}, lots={LotsNeed(ANN, 10 * DAY)})
    await done(store, plain(9_000), plain(-1), ask)
    first = await cost(store, ask)
    await done(store, *(plain(-1) for _ in range(1_000)))
    assert await cost(store, ask) < first * 1.5


async def test_both_ways_to_the_lots_of_a_wallet_are_one(
    store: SqliteStore, path: Path, clock: ManualClock
) -> None:
    draw = random.Random(5)
    times = []
    for _ in range(60):
        clock.advance(draw.choice((0, 0.5, 7)))
        times.append(int(clock.now().timestamp() * 1000))
        await store.post([plain(draw.choice((3, 5, 9, -4, -11)), source=draw.choice("abc"))])
    seen = set()
    with closing(sqlite3.connect(path)) as connection:
        for since in (0, *times):
            wanted = {"wanted": f'[["{ANN}", {since}]]'}
            ways = [
                connection.execute(SQL[name].named, wanted).fetchall()
                for name in ("ledger_lots_of", "ledger_lots_of_wallets")
            ]
            assert ways[0] == ways[1]
            seen.add(len(ways[0]))
    assert {0, 1, 2} <= seen


# -- the file --------------------------------------------------------------------------------------


async def test_the_chains_hold_after_the_file_was_opened_again(
    store: SqliteStore, path: Path, clock: ManualClock
) -> None:
    await done(store, plain(500, source="card"), plain(-120, note="a\tb \u2603"))
    before = await heads(store)
    await store.close()
    again = SqliteStore(path, clock=clock)
    await again.open()
    assert await heads(again) == before
    walked = await again.ledger_walk()
    assert [link.number for link, _ in walked] == [1, 2, 1, 2]
    assert [hash_of(link, meta) for link, meta in walked] == [link.hash for link, _ in walked]
    await done(again, plain(5))
    assert (await again.ledger_links(ANN, after=2))[0].prev == before[ANN][1]
    await again.close()


async def test_a_commit_of_a_posting_waits_for_the_disk(store: SqliteStore) -> None:
    levels: list[int] = []

    def look(name: str) -> None:
        assert store._writer is not None
        session = store._writer._session
        assert session is not None
        if name == "commit":
            levels.append(session._connection.execute("pragma synchronous").fetchone()[0])

    store._before_statement = look
    await done(store, plain(5))
    store._before_statement = None
    assert levels == [2]


async def test_a_snapshot_ends_with_its_block_and_after_the_store(store: SqliteStore) -> None:
    await done(store, plain(5))
    async with store.ledger_snapshot() as kept:
        await store.close()
        with pytest.raises(StoreUnavailable):
            await kept.ledger_counts()
    await store.open()
    async with store.ledger_snapshot() as kept:
        assert (await kept.ledger_counts()).links == 2
    with pytest.raises(StoreUnavailable, match="within its"):
        await kept.ledger_counts()


async def test_a_snapshot_that_has_ended_lets_the_log_be_shortened(
    store: SqliteStore, path: Path
) -> None:
    async with store.ledger_snapshot() as kept:
        await done(store, plain(5))
        assert (await kept.ledger_counts()).links == 0
    with closing(sqlite3.connect(path)) as other:
        [(busy, left, _)] = other.execute("pragma wal_checkpoint(truncate)").fetchall()
    assert (busy, left) == (0, 0)


# -- what is told ----------------------------------------------------------------------------------


async def test_who_waits_for_messages_is_told_of_those_of_an_operation(store: SqliteStore) -> None:
    heard: list[Hint] = []
    stop = store._hints.subscribe(heard.append)  # without a look at what others commit

    def hello(name: str) -> LedgerOp:
        made = NewMessage(id=name, box=Box.OUT, stream="s", payload="1")
        return op(lambda book: book.publish(made))

    await done(store, plain(5))
    assert Hint.MESSAGES not in heard
    await done(store, hello("a"))
    assert heard.count(Hint.MESSAGES) == 1
    await store.commit(Effects(operations=(hello("b"),)))
    assert heard.count(Hint.MESSAGES) == 2
    stop()


# -- findings --------------------------------------------------------------------------------------


async def test_a_sound_ledger_is_found_to_be_sound(store: SqliteStore) -> None:
    await done(store, plain(500), plain(2**62), plain(-3))
    [finding] = [one for one in await store.diagnose() if one.name == "ledger"]
    assert finding.level is Level.FINE


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ("update offpath_ledger_account set balance = 7 where id = 'ann:spendable'", "last link"),
        ("update offpath_ledger_account set number = 7 where id = 'ann:spendable'", "no link 7"),
        ("update offpath_ledger_link set amount = 7 where id = 65536", "sum to zero"),
        ("delete from offpath_ledger_posting", "no row"),
        ("delete from offpath_ledger_account", "no balance"),
    ],
)
async def test_what_went_past_the_triggers_is_found(
    store: SqliteStore, path: Path, spoilt: str, said: str
) -> None:
    await done(store, plain(500))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        triggers = other.execute("select name from sqlite_schema where type = 'trigger'").fetchall()
        for (name,) in triggers:
            if name.startswith("offpath_ledger"):
                other.execute(f"drop trigger {name}")
        other.execute(spoilt)
    [finding] = [one for one in await store.diagnose() if one.name == "ledger"]
    assert finding.level is Level.PROBLEM
    assert said in finding.message


async def test_a_leaf_whose_link_was_altered_has_moved(store: SqliteStore, path: Path) -> None:
    await done(store, plain(500))
    accounts = await store.ledger_accounts()
    sealed = [
        Leaf(account=one.id, number=one.number, head=one.head, sum=one.sum) for one in accounts
    ]
    assert await store.save_checkpoint(checkpoint("a"), sealed)
    assert await store.ledger_moved() == []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("drop trigger offpath_ledger_link_fixed")
        other.execute(f"update offpath_ledger_link set hash = '{'ab' * 32}' where id = 65536")
    assert await store.ledger_moved() == [ANN]
