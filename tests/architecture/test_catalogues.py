"""The pages that list what the code lists: every metric, every setting, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from offpath.config import FIELDS, PREFIX
from offpath.economy.ledger.settings import SETTINGS
from offpath.runtime.catalogue import CATALOGUE
from offpath.store.offered import table
from tests.architecture.sources import ROOT

_METRIC = re.compile(r"`(offpath_[a-z_]+)`")
_VARIABLE = re.compile(r"`(" + PREFIX + r"[A-Z_]+)`")


def _pages(pattern: str) -> list[Path]:
    return sorted((ROOT / "docs").rglob(pattern))


def _rows(pages: list[Path], name: re.Pattern[str]) -> dict[str, str]:
    """The table rows that begin with a name of the kind wanted, by that name."""
    lines = [line for page in pages for line in page.read_text("utf-8").splitlines()]
    rows = [line for line in lines if line.startswith("|")]
    return {found[1]: row for row in rows if (found := name.search(row))}


def test_the_page_of_metrics_lists_every_metric_and_no_other() -> None:
    assert set(_rows(_pages("*metrics*.md"), _METRIC)) == set(CATALOGUE)


def test_the_page_of_metrics_has_the_kind_and_the_labels_of_each() -> None:
    rows = _rows(_pages("*metrics*.md"), _METRIC)
    wrong = [
        name
        for name, metric in CATALOGUE.items()
        if name not in rows or not all(word in rows[name] for word in (metric.kind, *metric.labels))
    ]
    assert wrong == []


def test_the_page_of_settings_lists_every_variable_and_no_other() -> None:
    listed = set(_rows(_pages("*configuration*.md"), _VARIABLE))
    assert listed == {f"{PREFIX}{name.upper()}" for name in FIELDS}


def test_the_page_of_the_economy_lists_every_setting_and_no_other() -> None:
    text = (ROOT / "docs" / "guides" / "economy.md").read_text("utf-8")
    table = text.split("| setting |", 1)[1].split("\n\n", 1)[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", "".join(cells))) == sorted(SETTINGS)


def test_the_page_of_backends_has_the_table_of_features() -> None:
    headings, *rows = table()
    lines = [f"| {' | '.join(row)} |" for row in (headings, *rows)]
    lines.insert(1, "|" + "---|" * len(headings))
    page = (ROOT / "docs" / "guides" / "backends.md").read_text("utf-8")
    assert "\n".join(lines) in page
