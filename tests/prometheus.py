"""Prometheus's own tool, and what it is asked: whether an alert fires, and when.

The standard library only: the gate looks for the tool before anything is installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = "prometheus"
"""The Debian package that has the tool."""
RULES = Path(__file__).resolve().parents[1] / "deploy" / "alerts.yaml"


def promtool() -> str | None:
    """The path of the tool; None when it is not installed."""
    return shutil.which("promtool")


class Look(NamedTuple):
    """A moment of these series' courses, and whether the alert is to fire then."""

    series: dict[str, str]
    minute: int
    fires: bool


def told(tool: str, folder: Path, alert: str, looks: Sequence[Look]) -> str:
    """The fault in how an alert of the shipped rules fires; an empty text when there is none."""
    question: dict[str, Any] = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [_test(alert, look) for look in looks],
    }
    path = folder / f"{alert}.yaml"
    path.write_text(json.dumps(question), "utf-8")  # JSON is YAML
    answer = subprocess.run(
        [tool, "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    return answer.stdout + answer.stderr if answer.returncode else ""


def _test(alert: str, look: Look) -> dict[str, Any]:
    firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > bool 0'
    samples = [{"labels": "{}", "value": 1}] if look.fires else []
    return {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": values} for name, values in look.series.items()
        ],
        "promql_expr_test": [
            {"expr": firing, "eval_time": f"{look.minute}m", "exp_samples": samples}
        ],
    }
