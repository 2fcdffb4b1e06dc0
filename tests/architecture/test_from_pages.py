"""Pages for who comes from another engine: what stands beside its names exists here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from offpath import App, Context, Plan
from offpath.jobs.define.definition import TaskSettings
from offpath.jobs.define.task import BindOptions
from offpath.jobs.values.offers import WorkerOverrides
from offpath.jobs.worker.app_worker import AppWorker
from tests.architecture.page import ROOT
from tests.architecture.test_seeds import exists

PAGES = [ROOT / "docs" / "integrations" / f"{name}.md" for name in ("ayepi-work", "0gkit-jobs")]
_ROW = re.compile(r"^\| (?P<theirs>[^|]+) \| (?P<here>[^|]+) \|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_PARAMETER = re.compile(r"(\w+)=")
_TAKING = (App, App.batch_task, Context.result, Plan.next, AppWorker.stop)
_TAKEN = (TaskSettings, BindOptions, WorkerOverrides)
"""The parameters of ``app.task``, ``task.options`` and ``app.worker``."""


def _here(text: str) -> Iterator[str]:
    """The code of our side of the page's tables, but for the exceptions."""
    for row in _ROW.finditer(text.partition("## Exceptions")[0]):
        yield from _CODE.findall(row["here"])


def _parameters() -> frozenset[str]:
    taking = {name for one in _TAKING for name in inspect.signature(one).parameters}
    return frozenset(taking.union(*(one.__annotations__ for one in _TAKEN)))


def unknown(text: str) -> list[str]:
    """Names and parameters of a page that are none of ours."""
    known, found = _parameters(), list(_here(text))
    names = [one for one in found if not exists(one)]
    given = {name for one in found for name in _PARAMETER.findall(one)}
    return names + sorted(given - known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_beside_theirs_is_one_of_ours(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(list(_here(text))) > 10
    assert unknown(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_front_page_of_the_documentation_leads_there(page: Path) -> None:
    assert f"(integrations/{page.name})" in (ROOT / "docs" / "README.md").read_text("utf-8")


def test_a_name_that_is_none_is_seen() -> None:
    row = "| `theirs` | `ctx.claim`, `app.no_such`, `no_such=1`, `offpath.NoSuch` |\n"
    assert unknown(row) == ["app.no_such", "offpath.NoSuch", "no_such"]
