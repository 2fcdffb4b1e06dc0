"""``offpath ledger trim`` and ``trims``, as an operator types them."""

from __future__ import annotations

from tests.cli.test_money import SPEND, TOP_UP, Money, money

__all__ = ["money"]


def test_what_is_archived_is_removed_and_listed(money: Money) -> None:
    file = str(money.folder / "1.gz")
    money.submit(TOP_UP)
    money.json("ledger", "checkpoint")
    money.json("ledger", "archive", file)
    money.submit(SPEND)
    assert money.json("ledger", "trims")["items"] == []
    assert "nothing was ever removed" in money.text("ledger", "trims")
    assert "is not old enough" in money.text("ledger", "trim", file, code=2)
    done = money.json("ledger", "trim", file, "--keep", "0.000001")
    assert (done["number"], done["state"], done["file"]) == (1, "finished", "1.gz")
    (listed,) = money.json("ledger", "trims")["items"]
    assert {**listed, "ok": True} == done
    assert "they are in 1.gz" not in money.text("ledger", "trims")
    again = money.json("ledger", "trim", file, "--keep", "1ms", code=1)
    assert again["error"]["code"] == "LEDGER.ARCHIVED"
    told = money.text("ledger", "trim", file, "--keep", "0.000001", code=1)
    assert "was removed before" in told
    assert "LEDGER.ARCHIVED" in told
    assert money.json("ledger", "prove")["holds"] is True
    assert money.json("ledger", "verify", "--full")["mismatch"] is False
    page = money.json("ledger", "statement", "ann:spendable")
    assert (page["archived"], [one["number"] for one in page["items"]]) == ("1.gz", [2, 1])
    assert "number 1 and those before it are in 1.gz" in money.text(
        "ledger", "statement", "ann:spendable"
    )
    first = money.json("ledger", "statement", "ann:spendable", "--limit", "1")
    assert (first["archived"], first["next"]) == (None, 2)
    kept = money.folder / "ledger.jsonl"
    money.text("ledger", "export", str(kept))
    found = money.json("ledger", "verify", "--offline", str(kept))
    assert (found["problems"], found["breaks"]) == ([], [])


def test_a_trim_without_its_archive_says_what_may_be_done(money: Money) -> None:
    file = str(money.folder / "1.gz")
    assert "No such file" in money.text("ledger", "trim", file, code=2)
    assert "no trim of 1.gz is under way" in money.text("ledger", "trim", file, "--lost", code=2)
