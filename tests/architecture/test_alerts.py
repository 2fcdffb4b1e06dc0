"""Alerts name metrics and runbooks that exist, and each command of a runbook can be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from offpath.runtime.catalogue import CATALOGUE, Metric, MetricKind
from tests.architecture.commands import parse
from tests.architecture.page import ROOT
from tests.architecture.test_docs import slug

_SERIES = re.compile(r"\b(offpath_[a-z_]+)\b(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)(?:=~|!~|!=|=)\"")
_BY = re.compile(r"by \(([^)]*)\)")
_SHOWN = re.compile(r"\$labels\.(\w+)")
_INLINE = re.compile(r"`(offpath (?!\.\.\.)[^`]+)`")
_TYPED = re.compile(r"^\$ (offpath .*)$", re.MULTILINE)
_TARGET = {"instance", "job"}
"""Labels that Prometheus adds to every series."""

RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
GROUPS: list[dict[str, Any]] = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text("utf-8"))[
    "groups"
]
ALERTS: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
by_alert = pytest.mark.parametrize("alert", ALERTS, ids=[one["alert"] for one in ALERTS])


def metric_of(series: str) -> Metric | None:
    """The metric that a series belongs to; a summary is a histogram for Prometheus."""
    if series in CATALOGUE:
        return CATALOGUE[series]
    name = re.sub(r"_(bucket|count|sum)$", "", series)
    found = CATALOGUE.get(name)
    return found if found is not None and found.kind is MetricKind.SUMMARY else None


def unknown(expression: str) -> list[str]:
    """Names in an expression that no worker tells: series, and labels that its series lack."""
    wrong, labels = [], set(_TARGET)
    for series, selector in _SERIES.findall(expression):
        metric = metric_of(series)
        if metric is None:
            wrong.append(series)
            continue
        labels |= set(metric.labels)
        wrong += [name for name in _LABEL.findall(selector) if name not in metric.labels]
    grouped = {name.strip() for names in _BY.findall(expression) for name in names.split(",")}
    return wrong + sorted(grouped - labels)


@by_alert
def test_an_alert_asks_for_what_workers_tell(alert: dict[str, Any]) -> None:
    assert _SERIES.findall(alert["expr"]) != []
    assert unknown(alert["expr"]) == []


def test_a_series_or_a_label_that_nobody_tells_is_seen() -> None:
    assert unknown("offpath_no_such_total > 0") == ["offpath_no_such_total"]
    assert unknown('offpath_loop_healthy{stream="x"} == 0') == ["stream"]
    assert unknown("sum by (stream) (offpath_loop_healthy) > 1") == ["stream"]
    assert unknown("rate(offpath_loop_iteration_seconds_sum[5m]) > 1") == []


@by_alert
def test_an_alert_says_how_urgent_it_is_what_is_wrong_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"page", "ticket"}
    told = {name for series, _ in _SERIES.findall(alert["expr"]) for name in _labels(series)}
    assert set(_SHOWN.findall(alert["annotations"]["summary"])) <= told | _TARGET
    path, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert anchor == alert["alert"].lower()
    assert anchor in [slug(heading) for heading in headings(ROOT / path)]


def _labels(series: str) -> tuple[str, ...]:
    metric = metric_of(series)
    return () if metric is None else metric.labels


def headings(page: Path) -> list[str]:
    found: list[str] = re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return found


def test_each_alert_is_there_once_and_each_runbook_has_its_alert() -> None:
    names = [one["alert"] for one in ALERTS]
    described = [one for page in RUNBOOKS for one in headings(page) if one.startswith("Offpath")]
    assert sorted(names) == sorted(described)
    assert len(set(names)) == len(names)


def test_a_runbook_says_what_it_means_where_to_look_and_what_to_do() -> None:
    parts = {
        heading: body
        for page in RUNBOOKS
        for heading, body in re.findall(
            r"^## (Offpath\w+)\n(.*?)(?=^## |\Z)", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
    }
    steps = ("**Means:**", "**Look:**", "**Do:**")
    assert len(parts) == len(ALERTS)
    assert [name for name, body in parts.items() if not all(one in body for one in steps)] == []


def typed() -> Iterator[tuple[str, str]]:
    """Every command of offpath in the runbooks, with its page."""
    for page in RUNBOOKS:
        text = page.read_text("utf-8")
        for command in dict.fromkeys([*_TYPED.findall(text), *_INLINE.findall(text)]):
            yield page.stem, command


@pytest.mark.parametrize(("page", "command"), list(typed()))
def test_each_command_of_a_runbook_can_be_typed(page: str, command: str) -> None:
    parse(shlex.split(command)[1:])
    assert page


def test_a_command_that_cannot_be_typed_is_seen() -> None:
    for wrong in ("outbox no-such", "outbox list --no-such", "no-such"):
        with pytest.raises(click.UsageError):
            parse(wrong.split())
    assert len(list(typed())) >= 30
