"""Recording rules and the Grafana board: each expression names what workers tell, and parses.

No Grafana is in the registries that the check uses, so the board is looked at as a document.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.page import ROOT
from tests.architecture.test_alerts import unknown
from tests.conftest import missing_server
from tests.prometheus import PACKAGE, promtool

RECORDING = ROOT / "deploy" / "prometheus" / "recording.yaml"
BOARD: dict[str, Any] = json.loads(
    (ROOT / "deploy" / "grafana" / "offpath.json").read_text("utf-8")
)
RULES: list[dict[str, str]] = [
    rule
    for group in yaml.safe_load(RECORDING.read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS: list[dict[str, Any]] = [one for one in BOARD["panels"] if one["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
SUMMED = re.compile(r"sum[^(]*\([^)]*\) \((offpath_[a-z_]+)|sum\((offpath_[a-z_]+)")
FLEET = {"offpath_jobs_ready", "offpath_jobs_ready_oldest_seconds", "offpath_jobs_held"}
"""Levels of the whole fleet, which one worker tells; another one may have told them before."""


def plain(expression: str) -> str:
    """An expression of the board with values in the places of its variables."""
    given = {"$__rate_interval": "5m", "$job": ".*", "$queue": ".*", "$task": ".*"}
    for name, value in given.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def of_catalogue(expression: str) -> list[str]:
    """What it names that no worker tells. Buckets have a label of their own, targets two."""
    wrong = unknown(expression)
    allowed = {"job", "instance"} | ({"le"} if "_bucket" in expression else set())
    return [one for one in wrong if one not in allowed]


@pytest.mark.parametrize("rule", RULES, ids=[one["record"] for one in RULES])
def test_a_recording_rule_names_what_workers_tell(rule: dict[str, str]) -> None:
    assert of_catalogue(rule["expr"]) == []
    by, metric, what = rule["record"].split(":")
    assert (f"({by.replace('_', ', ')})" in rule["expr"]) or (f"(le, {by})" in rule["expr"])
    assert metric in rule["expr"]
    assert what.endswith("5m")


@pytest.mark.parametrize(("title", "expression"), QUERIES)
def test_a_query_of_the_board_names_what_workers_tell(title: str, expression: str) -> None:
    assert of_catalogue(plain(expression)) == [], title
    assert 'job=~"$job"' in expression, "each query is of the jobs that were chosen"


@pytest.mark.parametrize(("title", "expression"), QUERIES)
def test_what_one_worker_tells_of_the_fleet_is_not_summed(title: str, expression: str) -> None:
    summed = {name for found in SUMMED.findall(expression) for name in found if name}
    assert summed & FLEET == set(), title


def test_the_board_is_whole() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    titles = [panel["title"] for panel in BOARD["panels"]]
    assert len(titles) == len(set(titles))
    datasource = {"type": "prometheus", "uid": "${datasource}"}
    for panel in PANELS:
        assert panel["datasource"] == datasource
        assert all(target["datasource"] == datasource for target in panel["targets"])
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))
    assert [one["name"] for one in BOARD["templating"]["list"]] == [
        *("datasource", "job", "queue", "task"),
    ]
    assert not _overlap([panel["gridPos"] for panel in BOARD["panels"]])


def _overlap(places: list[dict[str, int]]) -> bool:
    taken: set[tuple[int, int]] = set()
    for place in places:
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        if taken & cells:
            return True
        taken |= cells
    return False


@pytest.fixture(scope="module")
def tool() -> str:
    found = promtool()
    if found is None:
        missing_server(f"promtool is not installed: apt-get install {PACKAGE}")
    return found


def test_every_expression_parses(tool: str, tmp_path: Path) -> None:
    rules = [{"record": f"board:{n}", "expr": plain(one)} for n, (_, one) in enumerate(QUERIES)]
    board = tmp_path / "board.yaml"
    board.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}), "utf-8")
    for path in (board, RECORDING):
        done = subprocess.run(
            [tool, "check", "rules", str(path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_recorded_quantile_and_share_are_those_of_the_series(tool: str, tmp_path: Path) -> None:
    """Of 100 waits a minute 90 are at most 1 s and all at most 2 s; a tenth of attempts fail."""
    bucket = 'offpath_job_wait_seconds_bucket{task="mail",le="%s"}'
    labels = '{queue="default",task="mail"}'
    series = {
        bucket % "1.0": "0+90x60",
        bucket % "2.0": "0+100x60",
        bucket % "+Inf": "0+100x60",
        f"offpath_jobs_started_total{labels}": "0+100x60",
        f"offpath_jobs_failed_total{labels}": "0+10x60",
    }
    expected = {
        "task:offpath_job_wait_seconds:p95_5m": ('{task="mail"}', 1.5),
        "queue_task:offpath_jobs_failed:ratio5m": (labels, 0.1),
    }
    question = {
        "rule_files": [str(RECORDING)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": how} for name, how in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f"round({name}, 0.001)",
                        "eval_time": "30m",
                        "exp_samples": [{"labels": where, "value": value}],
                    }
                    for name, (where, value) in expected.items()
                ],
            }
        ],
    }
    path = tmp_path / "test.yaml"
    path.write_text(json.dumps(question), "utf-8")
    done = subprocess.run(
        [tool, "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
