"""Questions to Postgres alone: writes that its statement-wise checks see, and their order."""

from __future__ import annotations

import psycopg
import pytest

from offpath.model.ledger.posting import GENESIS
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import Level
from tests.conformance.ledger_builders import ANN, STORED_VALUE, done, plain
from tests.conformance.ledger_raw import RawLink, following, posting

from .conftest import Ask, Opened

HASH = "ab" * 32


async def _links(store: PostgresStore, amount: int = 5) -> str:
    found = {one.id: one for one in await store.ledger_accounts()}
    links = [following(found[ANN], -amount), following(found[STORED_VALUE], amount)]
    return posting("postgres", links)[0]


async def test_links_without_their_accounts_are_refused(opened: Opened, ask: Ask) -> None:
    store = await opened()
    await done(store, plain(500, id="first"))
    together = await _links(store)
    apart = together[: together.index("update offpath.ledger_account")] + "select 1"
    with pytest.raises(psycopg.errors.CheckViolation, match="does not move with its links"):
        ask(apart)
    ask(together)
    assert (await store.ledger_accounts(ids=[ANN]))[0].number == 2


async def test_links_of_no_posting_are_refused(opened: Opened, ask: Ask) -> None:
    store = await opened()
    await done(store, plain(500, id="first"))
    together = await _links(store)
    posted = together[together.index("posted as") : together.index("linked as")]
    with pytest.raises(psycopg.errors.CheckViolation, match="is not there"):
        ask(together.replace(posted, ""))


async def test_a_posting_gets_no_more_links(opened: Opened, ask: Ask) -> None:
    store = await opened()
    await done(store, plain(500, id="first"))
    together = await _links(store)
    posted = together[together.index("posted as") : together.index("linked as")]
    with pytest.raises(psycopg.errors.CheckViolation, match="has other links"):
        ask(together.replace(posted, "").replace("'raw'", "'first'"))


async def test_entries_sum_to_the_amount(opened: Opened, ask: Ask) -> None:
    store = await opened()
    await done(store, plain(500, id="first"))
    together = await _links(store)
    ask(together.replace("array[5]", "array[7, -2]"))
    wrong = (await _links(store)).replace("array[5]", "array[7, -3]").replace("'raw'", "'wrong'")
    with pytest.raises(psycopg.errors.CheckViolation, match="does not follow"):
        ask(wrong)


@pytest.mark.parametrize("prev", ["", GENESIS, HASH], ids=["empty", "genesis", "other"])
@pytest.mark.parametrize("number", [0, -1, 1, 2, 7])
async def test_a_chain_begins_with_its_first_link(
    opened: Opened, ask: Ask, number: int, prev: str
) -> None:
    store = await opened()
    await done(store, plain(500, id="first"))
    ask("insert into offpath.ledger_account (id) values ('eve:spendable')")
    found = {one.id: one for one in await store.ledger_accounts()}
    eve = RawLink(account="eve:spendable", number=number, amount=-5, balance=5, raised=5, prev=prev)
    (statement,) = posting("postgres", [eve, following(found[STORED_VALUE], 5)])
    if (number, prev) == (1, GENESIS):
        ask(statement)
        return
    with pytest.raises(psycopg.errors.IntegrityError):
        ask(statement)


def test_an_id_says_what_an_account_is(ask: Ask) -> None:
    ask("insert into offpath.ledger_account (id) values ('a:earned'), ('platform:trust_cash')")
    rows = ask("select id, kind, currency, guarded from offpath.ledger_account order by id")
    assert rows == [
        ("a:earned", "earned", "CREDIT", True),
        ("platform:trust_cash", "trust_cash", "USD", False),
    ]
    for column, value in (("currency", "USD"), ("kind", "promo"), ("guarded", False)):
        with pytest.raises(psycopg.errors.GeneratedAlways):
            ask(f"insert into offpath.ledger_account (id, {column}) values ('b:earned', %s)", value)
    for unknown in ("platform:savings", "platform:spendable", "a:revenue", "plain"):
        with pytest.raises(psycopg.errors.CheckViolation, match="ledger_account_kind"):
            ask("insert into offpath.ledger_account (id) values (%s)", unknown)


async def test_ids_are_ordered_by_their_code_points(opened: Opened) -> None:
    store = await opened()
    names = [f"{one}:spendable" for one in ("ä", "a", "Z", "\U0001f600", "￿", "_", "a-b", "aB")]
    await done(store, *(plain(5, name) for name in names))
    found = [one.id for one in await store.ledger_accounts()]
    assert found == sorted([*names, STORED_VALUE])
    pages = [await store.ledger_accounts(after=one, limit=1) for one in found[:-1]]
    assert [page[0].id for page in pages] == found[1:]
    some = await store.ledger_accounts(prefix="a")
    assert [one.id for one in some] == sorted(name for name in names if name.startswith("a"))
    last = await store.ledger_accounts(prefix="\U0001f600")
    assert [one.id for one in last] == ["\U0001f600:spendable"]


async def test_accounts_that_were_only_locked_do_not_stay(opened: Opened, ask: Ask) -> None:
    store = await opened()
    declined = plain(500, STORED_VALUE, given="nobody:spendable")
    (answer,) = await store.post([declined])
    assert answer.error is not None
    assert ask("select count(*) from offpath.ledger_account") == [(0,)]


async def test_who_believes_in_accounts_that_were_emptied_makes_them_again(
    opened: Opened, ask: Ask
) -> None:
    store = await opened()
    for _ in range(2):
        await done(store, plain(500, id="first"))
        await done(store, plain(5))
        ask(
            "set session_replication_role = replica; delete from offpath.ledger_account; "
            "delete from offpath.ledger_link; delete from offpath.ledger_posting; "
            "delete from offpath.ledger_key"
        )


async def test_what_was_altered_from_outside_is_found(opened: Opened, ask: Ask) -> None:
    store = await opened()
    await done(store, plain(500, id="first"), plain(5, "bob:spendable"))
    assert await _altered(store) == "no posting was altered from outside"
    off = "set session_replication_role = replica; "
    ask(off + "update offpath.ledger_account set balance = balance + 1 where id = 'bob:spendable'")
    assert "bob:spendable (is not as its last link has it)" in await _altered(store)
    ask(off + f"update offpath.ledger_link set amount = amount - 1 where account = '{ANN}'")
    assert "first (is off by -1 CREDIT)" in await _altered(store)
    ask(off + f"delete from offpath.ledger_account where id = '{ANN}'")
    assert f"{ANN} (has links and no balance)" in await _altered(store)
    ask(off + "insert into offpath.ledger_posting (id, meta, at) values ('bare', '{}', 0)")
    assert "bare (has no links)" in await _altered(store)


async def _altered(store: PostgresStore) -> str:
    (found,) = [one for one in await store.diagnose() if one.name == "ledger"]
    assert (found.level is Level.FINE) == (found.message == "no posting was altered from outside")
    return found.message
