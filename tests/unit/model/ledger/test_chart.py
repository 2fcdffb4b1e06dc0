"""The chart of accounts: what an id says, and which ids say nothing."""

from __future__ import annotations

import pytest

from offpath.model.ledger import chart as accounts
from offpath.model.ledger.chart import Backing, chart
from offpath.model.ledger.faults import UnknownAccount
from offpath.model.ledger.money import Currency

CREDIT, USD = Currency.CREDIT, Currency.USD
HOUSE, EXCLUDED = Backing.HOUSE, Backing.EXCLUDED
TABLE = [
    # id, currency, grows on a debit, guarded, backing
    ("u:spendable", CREDIT, False, True, Backing.CUSTODIAL),
    ("u:s:escrow", CREDIT, False, True, Backing.CUSTODIAL),
    ("u:earned", CREDIT, False, True, Backing.EARNED),
    ("u:promo", CREDIT, False, True, EXCLUDED),
    ("platform:payout_reserve", CREDIT, False, True, EXCLUDED),
    ("platform:settlement_accrual", CREDIT, False, True, EXCLUDED),
    ("platform:trust_cash", USD, True, False, HOUSE),
    ("platform:usd_clearing", USD, True, False, HOUSE),
    ("platform:revenue_usd", USD, True, False, HOUSE),
    ("platform:stored_value", CREDIT, True, False, HOUSE),
    ("platform:receivable", CREDIT, True, False, HOUSE),
    ("platform:opening_equity", CREDIT, True, False, HOUSE),
    ("platform:promo_float", CREDIT, True, False, HOUSE),
    ("platform:revenue", CREDIT, False, False, HOUSE),
    ("platform:netting_clearing", CREDIT, False, False, EXCLUDED),
]


@pytest.mark.parametrize(("name", "currency", "debit_grows", "guarded", "backing"), TABLE)
def test_the_table(
    name: str, currency: Currency, debit_grows: bool, guarded: bool, backing: Backing
) -> None:
    found = chart(name)
    assert (found.currency, found.debit_grows, found.guarded, found.backing) == (
        currency,
        debit_grows,
        guarded,
        backing,
    )
    assert found.wallet is not name.startswith("platform:")
    assert found.owner == name.partition(":")[0]
    assert found.kind == name.rpartition(":")[2]
    assert found.change(5) == (5 if debit_grows else -5)
    assert found.entry(found.change(7)) == 7


def test_every_account_of_the_house_is_in_the_table() -> None:
    names = {f"platform:{name}" for name in accounts._HOUSE}
    assert names == {name for name, *_ in TABLE if name.startswith("platform:")}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "u",
        "u:",
        ":spendable",
        "u:wallet",
        "u:spendable:x",
        "u:x:spendable",
        "u:escrow",
        "u::escrow",
        ":s:escrow",
        "platform",
        "platform:",
        "platform:trust",
        "platform:Revenue",
        "platform:spendable",
        "platform:s:escrow",
        "platform:revenue#1",
        "u u:spendable",
        "u\n:spendable",
        "u\0:spendable",
        "\ud800:spendable",
        "u:spendable ",
        "x" * 300 + ":spendable",
    ],
)
def test_anything_else_is_no_account(name: str) -> None:
    with pytest.raises(UnknownAccount):
        chart(name)


def test_the_longest_id_is_one() -> None:
    name = "x" * (accounts.LONGEST_ID - len(":earned")) + ":earned"
    assert chart(name).owner == name[: -len(":earned")]


def test_wallets_by_their_users() -> None:
    assert accounts.spendable("é☃") == "é☃:spendable"
    assert [chart(make("u")).kind for make in (accounts.earned, accounts.promo)] == [
        "earned",
        "promo",
    ]
