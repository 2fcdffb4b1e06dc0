"""``offpath ledger``, ``offpath economy`` and ``offpath reconcile``, as a shell sees them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from offpath.cli.files import whole_file
from offpath.economy.ledger.signatures import Ed25519Signer
from offpath.errors import StoreUnavailable
from tests.attacks.test_amounts import WIRE
from tests.cli.conftest import Run

SERVICE = """
import offpath
from offpath.economy import Economy

app = offpath.App()
economy = Economy(app, payout_min_earned_minor=0)
"""
ADA = {"kind": "operator", "id": "ada"}
TOP_UP = {
    "kind": "topUp",
    "key": "whk:pay-1",
    "actor": ADA,
    "user": "ann",
    "amount": "CREDIT:100.00",
    "source": "card",
}
SPEND = {
    "kind": "spend",
    "key": "s-1",
    "actor": {"kind": "user", "id": "ann"},
    "buyer": "ann",
    "orderId": "A-1",
    "sku": "song",
    "price": "CREDIT:40.00",
    "recipients": [{"seller": "sue", "bps": 10_000}],
}
PAYOUT = {
    "kind": "requestPayout",
    "key": "p-1",
    "actor": {"kind": "user", "id": "sue"},
    "user": "sue",
    "amount": "CREDIT:20.00",
}
SUBSCRIBE = {
    "kind": "subscribe",
    "key": "sub-1",
    "actor": {"kind": "user", "id": "ann"},
    "user": "ann",
    "seller": "sue",
    "sku": "club",
    "price": "CREDIT:100.00",
    "period": 86400,
}
DECLINED = {**SPEND, "key": "s-2", "orderId": "A-2", "price": "CREDIT:400.00"}


class Money:
    """Runs the commands in a folder with an app that has an economy."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._run = run
        self.folder = folder
        self.url = f"sqlite:///{folder}/money.db"

    def text(self, *args: str, code: int = 0) -> str:
        done = self._run(*args)
        assert done.exit_code == code, done.output
        return done.output

    def json(self, *args: str, code: int = 0) -> Any:
        done = self._run(*args, "--json")
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    def submit(self, *operations: dict[str, Any], code: int = 0) -> list[dict[str, Any]]:
        file = self.folder / "operations.jsonl"
        file.write_text("\n".join(json.dumps(one) for one in operations))
        items: list[dict[str, Any]] = self.json("economy", "submit", str(file), code=code)["items"]
        return items


@pytest.fixture
def money(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Money:
    made = Money(run, tmp_path)
    (tmp_path / "shop.py").write_text(SERVICE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OFFPATH_URL", made.url)
    monkeypatch.setenv("OFFPATH_APP", "shop:app")
    monkeypatch.setenv("OFFPATH_SIGNING_SECRET", "5e" * 32)
    monkeypatch.delitem(__import__("sys").modules, "shop", raising=False)
    return made


def test_operations_of_a_file_happen_once(money: Money) -> None:
    first = money.submit(TOP_UP, SPEND, DECLINED)
    assert [one["status"] for one in first] == ["committed", "committed", "rejected"]
    assert first[2]["id"] == "INSUFFICIENT_FUNDS"
    again = money.submit(TOP_UP, SPEND)
    assert [one["status"] for one in again] == ["duplicate", "duplicate"]
    assert again[0]["id"] == first[0]["id"]


def test_a_fault_is_told_and_ends_with_1(money: Money) -> None:
    stolen = {**SPEND, "actor": {"kind": "user", "id": "bob"}}
    assert [one["id"] for one in money.submit(TOP_UP, stolen, code=1)] != []
    assert "AUTH.UNAUTHORIZED" in money.text(
        "economy", "submit", str(money.folder / "operations.jsonl"), code=1
    )


def test_a_table_says_why_an_operation_was_declined_or_faulty(money: Money) -> None:
    free = {**SUBSCRIBE, "key": "sub-2", "price": "CREDIT:1.00"}
    money.submit(TOP_UP, DECLINED, free, code=1)
    told = money.text("economy", "submit", str(money.folder / "operations.jsonl"), code=1)
    assert "need CREDIT:400.00, have CREDIT:100.00" in " ".join(told.split())
    assert "the price of a subscription is from" in told


def test_a_table_says_times_as_times(money: Money) -> None:
    money.submit(TOP_UP, SPEND, PAYOUT, {**PAYOUT, "key": "p-2", "amount": "CREDIT:2.00"})
    told = money.text("economy", "submit", str(money.folder / "operations.jsonl"))
    assert re.search(r"retryAt 20\d\d-\d\d-\d\dT", " ".join(told.split()))


def test_a_line_that_is_no_operation_stops_the_file_before_it_begins(money: Money) -> None:
    file = money.folder / "operations.jsonl"
    file.write_text(json.dumps(TOP_UP) + "\n" + json.dumps({**SPEND, "price": 4}))
    told = money.text("economy", "submit", str(file), code=2)
    assert "line 2: " in told
    assert "MONEY.INVALID_AMOUNT" in told
    file.write_text(json.dumps(TOP_UP) + "\n{")
    assert "line 2" in money.text("economy", "submit", str(file), code=2)
    file.write_text("[" * 100_000)
    assert "line 1 is not JSON" in money.text("economy", "submit", str(file), code=2)
    assert not (money.folder / "money.db").exists()


def test_balances_and_statements(money: Money) -> None:
    money.submit(TOP_UP, SPEND)
    found = money.json("ledger", "balance", "ann:spendable", "sue:earned")["items"]
    assert [one["balance"] for one in found] == ["CREDIT:60.00", "CREDIT:33.00"]
    assert len(money.json("ledger", "balance", "--prefix", "ann:")["items"]) == 1
    lines = money.json("ledger", "statement", "ann:spendable")["items"]
    assert [(one["kind"], one["change"]) for one in lines] == [
        ("spend", "CREDIT:-40.00"),
        ("topUp", "CREDIT:100.00"),
    ]
    page = money.json("ledger", "statement", "ann:spendable", "--limit", "1")
    rest = money.json("ledger", "statement", "ann:spendable", "--before", str(page["next"]))
    assert [one["number"] for one in rest["items"]] == [1]
    assert "CREDIT:60.00" in money.text("ledger", "statement", "ann:spendable")
    money.text("ledger", "balance", "bob:spendable", code=3)
    assert "is not an account" in money.text("ledger", "balance", "ann", code=2)


def test_payouts_and_subscriptions(money: Money) -> None:
    money.submit({**TOP_UP, "amount": "CREDIT:500.00"}, SPEND, PAYOUT, SUBSCRIBE)
    (payout,) = money.json("economy", "payouts", "--user", "sue")["items"]
    assert (payout["state"], payout["amount"], payout["quote"]) == (
        "RESERVED",
        "CREDIT:20.00",
        "USD:0.10",
    )
    assert money.json("economy", "payouts", "--state", "SETTLED")["items"] == []
    assert len(money.json("economy", "payouts", "--state", "reserved")["items"]) == 1
    assert "--state is one of" in money.text("economy", "payouts", "--state", "x", code=2)
    (subscription,) = money.json("economy", "subscriptions")["items"]
    assert (subscription["state"], subscription["period"]) == ("ACTIVE", 1)
    assert "RESERVED" in money.text("economy", "payouts")


def test_sweeps_are_paused_for_the_fleet(money: Money) -> None:
    money.submit(TOP_UP)
    assert money.json("economy", "resume")["changed"] is False
    assert money.json("economy", "pause")["paused"] is True
    assert money.json("economy", "resume")["changed"] is True
    assert "until 2030" in money.text("economy", "pause", "--until", "2030-01-01T00:00:00+00:00")
    assert "zone" in money.text("economy", "pause", "--until", "2030-01-01T00:00:00", code=2)


def test_the_books_are_proved_sealed_and_verified(money: Money) -> None:
    money.submit(TOP_UP, SPEND)
    assert "no checkpoint" in money.text("ledger", "verify")
    assert money.json("ledger", "prove")["holds"] is True
    assert "every" not in money.text("ledger", "prove", "--light")
    sealed = money.json("ledger", "checkpoint")["sealed"]
    assert money.json("ledger", "checkpoint")["sealed"] is None
    assert money.json("ledger", "verify")["verified"] == sealed["id"]
    money.submit({**SPEND, "key": "s-3", "orderId": "A-3"})
    key = Ed25519Signer("5e" * 32).public_key
    assert money.json("ledger", "verify", "--public-key", key)["mismatch"] is False
    other = Ed25519Signer("aa" * 32).public_key
    assert money.json("ledger", "verify", "--public-key", other, code=1)["problems"] == [
        "signature"
    ]
    assert "missing USD" in money.text("ledger", "prove", "--par", "9/3", code=1)
    assert "VALUE/SCALE" in money.text("ledger", "prove", "--par", "a half", code=2)


def test_a_checkpoint_that_was_kept_elsewhere_is_an_anchor(money: Money) -> None:
    money.submit(TOP_UP)
    older = (money.folder / "money.db").read_bytes()
    kept, first = money.folder / "kept.json", money.json("ledger", "checkpoint")
    assert first["sealed"] == first["last"]
    again = money.json("ledger", "checkpoint")
    assert (again["sealed"], again["last"]) == (None, first["last"])
    kept.write_text(json.dumps(again))
    anchor = ("--anchor", str(kept))
    assert money.json("ledger", "verify", "--full", *anchor)["mismatch"] is False
    kept.write_text(json.dumps(first["last"]))
    assert money.json("ledger", "verify", *anchor)["mismatch"] is False
    (money.folder / "money.db").write_bytes(older)
    assert "rolled-back" in money.text("ledger", "verify", *anchor, code=1)
    assert "does not follow" in money.text("ledger", "checkpoint", *anchor, code=1)
    kept.write_text('{"last": null}')
    assert "is not a checkpoint" in money.text("ledger", "verify", *anchor, code=2)


def test_without_a_secret_it_says_which_variable(
    money: Money, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OFFPATH_SIGNING_SECRET")
    assert "OFFPATH_SIGNING_SECRET" in money.text("ledger", "checkpoint", code=2)
    assert "--public-key" in money.text("ledger", "verify", code=2)


def test_a_file_of_the_ledger_is_verified_without_its_database(money: Money) -> None:
    money.submit(TOP_UP, SPEND)
    money.json("ledger", "checkpoint")
    money.submit({**SPEND, "key": "s-3", "orderId": "A-3"})
    file = money.folder / "ledger.jsonl"
    money.text("ledger", "export", str(file))
    found = money.json("ledger", "verify", "--offline", str(file))
    assert (found["holds"], found["problems"], found["breaks"]) == (True, [], [])

    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(whole[:-1]))
    assert "cut" in money.json("ledger", "verify", "--offline", str(file), code=1)["problems"]
    file.write_bytes(b"".join(whole).replace(b'\\"spend\\"', b'\\"gift\\"', 1))
    broken = money.json("ledger", "verify", "--offline", str(file), code=1)["breaks"]
    assert broken[0]["reason"] == "tampered-hash"
    file.write_text("hello")
    assert "line 1" in money.text("ledger", "verify", "--offline", str(file), code=2)


def test_an_export_that_fails_leaves_the_file_as_it_was(
    money: Money, monkeypatch: pytest.MonkeyPatch
) -> None:
    money.submit(TOP_UP)
    file = money.folder / "ledger.jsonl"
    money.text("ledger", "export", str(file))
    before = file.read_bytes()
    money.text("ledger", "export", str(file), "--url", "sqlite:///elsewhere.db", code=1)
    assert file.read_bytes() == before

    async def cut(store: object) -> AsyncIterator[bytes]:
        yield b"half"
        raise StoreUnavailable("it is away")

    monkeypatch.setattr("offpath.economy.ledger.export.export", cut)
    money.text("ledger", "export", str(file), code=4)
    assert file.read_bytes() == before
    assert [one.name for one in money.folder.glob("ledger*")] == [file.name]
    assert "no/where" in money.text("ledger", "export", "no/where", code=1)


def test_an_export_keeps_who_may_read_a_file_and_where_a_link_leads(money: Money) -> None:
    money.submit(TOP_UP)
    file, link = money.folder / "ledger.jsonl", money.folder / "last.jsonl"
    file.touch(0o600)
    link.symlink_to(file.name)
    money.text("ledger", "export", str(link))
    assert link.is_symlink()
    assert (file.stat().st_mode & 0o777, file.read_bytes() != b"") == (0o600, True)


def test_two_exports_to_one_file_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    with whole_file(file) as first, whole_file(file) as second:
        first.write(b"first, and longer")
        second.write(b"second")
    assert file.read_bytes() == b"first, and longer"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_nobody_signed_does_not_hold(money: Money) -> None:
    money.submit(TOP_UP)
    file = money.folder / "ledger.jsonl"
    money.text("ledger", "export", str(file))
    assert "unsigned" in money.text("ledger", "verify", "--offline", str(file), code=1)


def test_a_tampered_database_is_caught(money: Money) -> None:
    money.submit(TOP_UP, SPEND)
    money.json("ledger", "checkpoint")
    with sqlite3.connect(money.folder / "money.db") as database:
        for (name,) in database.execute(
            "select name from sqlite_schema where type = 'trigger' and name like '%ledger%'"
        ).fetchall():
            database.execute(f'drop trigger "{name}"')
        database.execute("delete from offpath_ledger_link where account = 'sue:earned'")
    database.close()
    found = money.json("ledger", "verify", code=1)
    assert found["breaks"][0]["account"] == "sue:earned"
    assert "sue:earned" in money.text("ledger", "prove", code=1)


def test_a_processors_file_is_reconciled(money: Money) -> None:
    money.submit(TOP_UP)
    file = money.folder / "settled.csv"
    window = ("--since", "2020-01-01T00:00:00+00:00", "--until", "2100-01-01T00:00:00+00:00")
    heading = "kind,key,amount,ref,at\n"
    gross = "USD:0.84"
    file.write_text(f"{heading}buy,pay-1,{gross},ch_1,2026-01-01T00:00:00+00:00\n")
    assert money.json("reconcile", str(file), *window)["reconciled"] is True
    file.write_text(f"{heading}buy,pay-1,USD:0.85,ch_1,2026-01-01T00:00:00+00:00\n")
    drifted = money.json("reconcile", str(file), *window, code=1)
    assert drifted["amount_drifts"] == 1
    [one] = drifted["discrepancies"]
    assert (one["processor"]["amount"], one["ledger"]["amount"]) == ("USD:0.85", gross)
    lines = money.folder / "settled.jsonl"
    record = {"kind": "payout", "key": "x", "amount": "USD:1.00", "ref": "r"}
    lines.write_text(json.dumps({**record, "at": "2026-01-01T00:00:00+00:00"}))
    found = money.json("reconcile", str(lines), *window, code=1)
    assert (found["processor_orphans"], found["ledger_orphans"]) == (1, 1)
    assert {one["processor"] is None for one in found["discrepancies"]} == {True, False}
    assert "processor_orphan" in money.text("reconcile", str(lines), *window, code=1)
    lines.write_text(json.dumps(record))
    assert "line 1 has no at" in money.text("reconcile", str(lines), *window, code=2)
    assert "begins before it ends" in money.text(
        "reconcile", str(file), *window[:2], "--until", window[1], code=2
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"kind,key,amount,ref,at\nbuy,\xff,1,2,3\n", "is not written in UTF-8"),
        (b"kind,key,amount,ref,at\nbuy,pay-1,4.17\n", "line 2 has no ref, at"),
        (b"kind,key,amount,ref,at\nrefund,a,1,r,2026-01-01T00:00:00Z\n", "kind is buy or payout"),
        (
            b"kind,key,amount,ref,at\nbuy,a,x,r,2026-01-01T00:00:00Z\n",
            "line 2: 'USD:x' is not an amount",
        ),
        (b"kind,key,amount,ref,at\nbuy,a,1,r,2026-01-01T00:00:00\n", "has no time zone"),
        (b"", "has no column"),
    ],
)
def test_a_processors_file_that_cannot_be_read_says_where(
    money: Money, content: bytes, told: str
) -> None:
    file = money.folder / "settled.csv"
    file.write_bytes(content)
    window = ("--since", "2020-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z")
    assert told in money.text("reconcile", str(file), *window, code=2)


def test_a_file_of_a_spreadsheet_is_read(money: Money) -> None:
    file = money.folder / "settled.csv"
    heading = b"\xef\xbb\xbfkind,key,amount,ref,at\r\n"
    file.write_bytes(heading + b"buy,a,1,r,2026-01-01T00:00:00Z\r\n")
    window = ("--since", "2020-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z")
    assert money.json("reconcile", str(file), *window, code=1)["processor_orphans"] == 1


def test_an_app_without_an_economy_says_so(money: Money) -> None:
    (money.folder / "plain.py").write_text("import offpath\napp = offpath.App()\n")
    assert "no economy" in money.text("economy", "payouts", "--app", "plain:app", code=2)


def test_an_economy_in_memory_is_refused_where_it_would_be_lost(
    money: Money, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OFFPATH_URL")
    file = money.folder / "operations.jsonl"
    file.write_text(json.dumps(TOP_UP))
    assert "in memory" in money.text("economy", "submit", str(file), code=2)


NO_UTF_8 = b'{"kind": "topUp", "key": "\xff"}\n'


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("economy", "submit"), "operations.jsonl"),
        (("reconcile",), "settled.jsonl"),
        (("reconcile",), "settled.csv"),
        (("ledger", "verify", "--offline"), "ledger.jsonl"),
        (("ledger", "verify", "--anchor"), "anchor.json"),
    ],
)
def test_a_file_that_is_no_utf_8_is_told_so(
    money: Money, command: tuple[str, ...], name: str
) -> None:
    money.submit(TOP_UP)
    money.text("ledger", "checkpoint")
    file = money.folder / name
    file.write_bytes(b"kind,key,amount,ref,at\n\xff,,,,\n" if name.endswith("csv") else NO_UTF_8)
    window = ("--since", "2026-01-01T00:00Z", "--until", "2026-01-02T00:00Z")
    told = money.text(*command, str(file), *(window if command == ("reconcile",) else ()), code=2)
    assert "error: " in told
    assert "unexpected" not in told.lower()


def test_a_csv_that_is_none_is_told_so(money: Money) -> None:
    file = money.folder / "settled.csv"
    file.write_text("kind,key,amount,ref,at\nbuy," + "x" * 200_000 + ",,,\n")
    window = ("--since", "2026-01-01T00:00Z", "--until", "2026-01-02T00:00Z")
    assert "is not CSV" in money.text("reconcile", str(file), *window, code=2)


def test_a_mismatch_stands_until_it_is_accepted(money: Money) -> None:
    """D2: verify names it, nothing is sealed, and accepting it says why."""
    money.submit(TOP_UP)
    money.json("ledger", "checkpoint")
    with sqlite3.connect(money.folder / "money.db") as connection:
        connection.execute("update offpath_ledger_leaf set sum = sum + 1")
    found = money.json("ledger", "verify", code=1)
    assert (found["mismatch"], found["problems"]) == (True, ["leaves"])
    with sqlite3.connect(money.folder / "money.db") as connection:
        connection.execute("update offpath_ledger_leaf set sum = sum - 1")
    again = money.json("ledger", "verify", code=1)
    assert (again["mismatch"], again["finding"]) == (False, found["finding"])
    said = money.text("ledger", "checkpoint", code=1)
    assert f"offpath ledger accept {found['finding']}" in said
    assert "no finding" in money.text("ledger", "accept", "nobody", "--reason", "x", code=3)
    assert "--reason" in money.text("ledger", "accept", found["finding"], "--reason", " ", code=2)
    accepted = money.json("ledger", "accept", found["finding"][:23], "--reason", "a leaf, restored")
    assert (accepted["name"], accepted["reason"]) == ("ledger.mismatch", "a leaf, restored")
    assert money.json("ledger", "checkpoint")["sealed"] is not None
    assert money.json("ledger", "verify", "--full")["finding"] is None


def test_no_file_has_an_amount_that_cannot_be(money: Money) -> None:
    """T2-27. A line that cannot be read stops its file; one that cannot be meant is a fault."""
    money.submit(TOP_UP)
    file = money.folder / "operations.jsonl"
    before = money.json("ledger", "balance", "--prefix", "")["items"]
    codes = set()
    for document in WIRE:
        file.write_text(json.dumps({**document, "actor": ADA}))
        done = money._run("economy", "submit", str(file))
        assert "OP.MALFORMED" in done.output or "MONEY." in done.output, (document, done.output)
        codes.add(done.exit_code)
    assert codes == {1, 2}
    assert money.json("ledger", "balance", "--prefix", "")["items"] == before
    assert money.json("ledger", "prove")["conserved"] is True


def test_debts_are_listed_paid_and_written_off(money: Money) -> None:
    dispute = {"kind": "clawback", "key": "c-1", "actor": ADA, "amount": "CREDIT:5.00"}
    off = {"kind": "writeOff", "key": "w-1", "actor": ADA, "user": "bob", "reason": "gone"}
    fund = {"kind": "fund", "key": "f-1", "actor": ADA, "amount": "USD:1.00", "reason": "promos"}
    disputes = [{**dispute, "user": "ann"}, {**dispute, "key": "c-2", "user": "bob"}]
    money.submit(*disputes, off, fund)
    found = money.json("economy", "debts")["items"]
    assert found == [{"id": "ann", "owed": "CREDIT:5.00"}]
    assert "ann" in money.text("economy", "debts")
    money.submit({**TOP_UP, "key": "t-2"})
    assert "nobody owes anything" in money.text("economy", "debts")


def test_the_audit_is_listed_and_what_rests_is_released(money: Money) -> None:
    assert "nothing was found" in money.text("economy", "audit")
    money.text("limits", "pause", "economy.rest.fees")
    assert "fees go on" in money.text("economy", "release", "--reason", "the cash is back")
    assert money.json("economy", "release", "--reason", "again") == {"ok": True, "released": []}
    [one] = money.json("economy", "audit")["items"]
    assert (one["phase"], one["subject"]) == ("released", "fees")
    assert money.json("ledger", "prove")["holds"] is True
    recent = money.json("ledger", "prove", "--since", "2020-01-01T00:00Z")
    assert (recent["holds"], recent["postings"], recent["accounts"]) == (True, 1, 1)


def test_a_file_of_another_form_is_reconciled(money: Money) -> None:
    money.submit({**TOP_UP, "ref": "ch_1"})
    file = money.folder / "export.csv"
    file.write_text(
        "Type;key;Cents;at\ncharge;ch_1;84;2026-01-01T00:00Z\nfee;f;3;2026-01-01T00:00Z\n"
    )
    window = ("--since", "2020-01-01T00:00Z", "--until", "2100-01-01T00:00Z")
    form = ["--delimiter", ";", "--minor-units", "--kinds", "charge=buy", "--kinds", "fee=-"]
    form += ["--column", "kind=Type", "--column", "amount=Cents"]
    [kind] = money.json("reconcile", str(file), *window, *form)["kinds"]
    assert kind == {"kind": "buy", "processor_count": 1, "ledger_count": 1, "matched": 1}
    assert "NAME=NAME" in money.text("reconcile", str(file), *window, "--column", "Id", code=2)
