"""``offpath ledger archive`` and ``verify-archive``, as an operator types them."""

from __future__ import annotations

import gzip

from offpath.economy import Ed25519Signer
from tests.cli.test_money import SPEND, TOP_UP, Money, money

__all__ = ["money"]


def test_archives_are_written_and_proved_beside_the_ledger(money: Money) -> None:
    one, two = (str(money.folder / name) for name in ("1.gz", "2.gz"))
    money.submit(TOP_UP)
    assert money.json("ledger", "archive", one, code=3)["error"]["code"] == "not_found"
    money.json("ledger", "checkpoint")
    written = money.json("ledger", "archive", one)
    assert (written["holds"], written["archives"][0]["postings"]) == (True, 2)
    money.submit(SPEND)
    money.json("ledger", "checkpoint")
    money.json("ledger", "archive", two, "--after", one)
    assert "is there already" in money.text("ledger", "archive", two, "--after", one, code=2)
    found = money.json("ledger", "verify-archive", one, two)
    assert (found["holds"], found["ledger"]["holds"]) == (True, True)
    told = money.text("ledger", "verify-archive", one, two)
    assert "holds" in told
    assert "the ledger, 0 postings behind: goes on from there" in told
    key = Ed25519Signer("aa" * 32).public_key
    other = money.json("ledger", "verify-archive", one, "--offline", "--public-key", key, code=1)
    assert (other["ledger"], other["archives"][0]["problems"]) == (None, ["signature"])
    assert "gap" in money.text("ledger", "verify-archive", two, one, code=1)
    assert "does NOT go on" not in money.text("ledger", "verify-archive", one)


def test_a_file_that_is_no_archive_is_told(money: Money) -> None:
    file = money.folder / "a.gz"
    file.write_text("hello")
    assert "cut" in money.text("ledger", "verify-archive", str(file), "--offline", code=1)
    with gzip.open(file, "wb") as packed:
        packed.write(b"hello\n")
    assert "line 1" in money.text("ledger", "verify-archive", str(file), code=2)
