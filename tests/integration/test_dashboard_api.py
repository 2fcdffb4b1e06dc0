"""The API of the dashboard against its own description: Schemathesis asks the running app."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.scene import fill, make_app
from tests.browser.serving import TOKEN, served

READS = ("--include-method", "GET")
WRITES = ("--include-method", "POST")
LEFT = (
    # an empty field of a form is one that was left out, and a name has rules that no pattern says
    "positive_data_acceptance,negative_data_rejection,"
    # a POST that says nothing of where it comes from is refused before anybody is asked for
    "missing_required_header"
)


EXAMPLES = "100" if "OFFPATH_TEST_CAMPAIGN" in os.environ else "3"
"""Random requests of each operation, behind those that cover its description."""


@pytest.mark.slow
@pytest.mark.timeout(3_000 if "OFFPATH_TEST_CAMPAIGN" in os.environ else 500)
@pytest.mark.parametrize("methods", [READS, WRITES], ids=["reads", "writes"])
def test_the_api_is_as_it_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[str, str]
) -> None:
    # whoever tries wrong credentials from the address of the others would stop them all
    monkeypatch.setattr("offpath.web.console.attempts.MOST", 1_000_000)
    monkeypatch.setattr("offpath.web.console.places.PATIENCE", 60.0)
    url = f"sqlite:///{tmp_path / 'scene.db'}"
    asyncio.run(fill(make_app(url)))
    with served(url) as site:
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run",
             f"{site.url}/api/v1/openapi.json", *methods,
             "--header", f"Authorization: Bearer {TOKEN}",
             "--phases", "coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", "1",
             "--exclude-checks", LEFT, "--no-color", "--continue-on-failure"],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert "Failures" not in done.stdout
