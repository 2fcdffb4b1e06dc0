"""Processors' files: other columns, separators, encodings, words and amounts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from offpath.economy import FileFeed, ProviderFailed, RecordFormat, Window
from offpath.economy.ledger.reconciliation import RecordKind
from offpath.errors import InvalidArgument

DAY = Window(since=datetime(2026, 11, 1, tzinfo=UTC), until=datetime(2026, 11, 2, tzinfo=UTC))

STRIPE = RecordFormat(
    columns={"kind": "Type", "key": "Source", "amount": "Gross", "at": "Created (UTC)"},
    kinds={"charge": "buy", "payout": "payout", "adjustment": "dispute", "fee": "-"},
    time_format="%Y-%m-%d %H:%M",
    zone="UTC",
)
GERMAN = RecordFormat(
    columns={"key": "Zahlung", "amount": "Betrag", "at": "Datum"},
    kind="buy",
    delimiter=";",
    encoding="cp1252",
    decimal=",",
    time_format="%d.%m.%Y %H:%M:%S",
    zone="Europe/Berlin",
)


def written(folder: Path, text: str, name: str = "settled.csv", encoding: str = "utf-8") -> Path:
    file = folder / name
    file.write_text(text, encoding)
    return file


def test_words_and_columns_of_a_processor(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "id,Type,Source,Gross,Created (UTC)\n"
        "1,charge,ch_1,12.34,2026-11-01 10:00\n"
        "2,fee,fee_1,-0.30,2026-11-01 10:00\n"
        '3,adjustment,dp_1,"-1,012.34",2026-11-01 11:00\n',
    )
    found = list(STRIPE.read(file))
    assert [(one.kind, one.key, str(one.amount), one.at.hour) for one in found] == [
        (RecordKind.BUY, "ch_1", "USD:12.34", 10),
        (RecordKind.DISPUTE, "dp_1", "USD:1012.34", 11),
    ]
    assert found[0].ref == "ch_1"


def test_other_separators_encodings_and_zones(tmp_path: Path) -> None:
    text = "Zahlung;Betrag;Datum;Käufer\npay-1;1.012,34;01.11.2026 00:30:00;Müller\n"
    (found,) = GERMAN.read(written(tmp_path, text, encoding="cp1252"))
    assert (found.kind, str(found.amount)) == (RecordKind.BUY, "USD:1012.34")
    assert found.at.astimezone(UTC) == datetime(2026, 10, 31, 23, 30, tzinfo=UTC)


def test_minor_units(tmp_path: Path) -> None:
    file = written(tmp_path, "kind,key,amount,ref,at\nbuy,a,1234,r,2026-11-01T00:00Z\n")
    (found,) = RecordFormat(minor_units=True).read(file)
    assert str(found.amount) == "USD:12.34"


@pytest.mark.parametrize(
    ("form", "text", "told"),
    [
        (STRIPE, "Type,Source,Gross\n", "has no column Created"),
        (STRIPE, "Type,Source,Gross,Created (UTC)\nrefund,a,1,2026-11-01 10:00\n", "line 2: kind"),
        (GERMAN, "Zahlung;Betrag;Datum\na;x;01.11.2026 00:00:00\n", "line 2"),
        (GERMAN, "Zahlung;Betrag;Datum\na;1;2026-11-01\n", "line 2"),
        (
            RecordFormat(minor_units=True),
            "kind,key,amount,ref,at\nbuy,a,1.5,r,2026-11-01T00:00Z\n",
            "line 2",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(
    tmp_path: Path, form: RecordFormat, text: str, told: str
) -> None:
    with pytest.raises(InvalidArgument, match=told):
        list(form.read(written(tmp_path, text)))


@pytest.mark.parametrize(
    "terms",
    [
        {"columns": {"price": "Preis"}},
        {"kinds": {"charge": "purchase"}},
        {"delimiter": "::"},
        {"encoding": "utf-99"},
        {"decimal": "'"},
        {"zone": "Mars/Base"},
    ],
)
def test_a_form_that_cannot_be_meant_is_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        RecordFormat(**terms)


def test_a_feed_reads_the_file_of_its_window(tmp_path: Path) -> None:
    feed = FileFeed(f"{tmp_path}/{{since:%Y-%m-%d}}.csv", form=STRIPE)
    with pytest.raises(ProviderFailed) as waiting:
        feed.pull(DAY)
    assert waiting.value.retryable
    written(
        tmp_path, "Type,Source,Gross,Created (UTC)\ncharge,a,1,2026-11-01 10:00\n", "2026-11-01.csv"
    )
    pulled = feed.pull(DAY)
    assert ([one.key for one in pulled.processor], pulled.ledger) == (["a"], None)
    written(tmp_path, "Type\n", "2026-11-01.csv")
    with pytest.raises(ProviderFailed) as broken:
        list(feed.pull(DAY).processor)
    assert not broken.value.retryable


def test_a_path_that_names_something_else_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="since"):
        FileFeed("/settled/{day}.csv")
