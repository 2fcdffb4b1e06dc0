"""Forty tasks, written for Celery once: run by Celery with Redis, and by the shim.

What each scenario gives is asserted once, for all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.architecture.page import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXPECTED: Final[dict[str, Any]] = {
    "delays": 5,
    "arguments": [[1, 5], [1, 2], 3, None, [[1, 2], {"x": 3}], {"a": [1, None]}],
    "typed_values": [
        "datetime.datetime(2026, 1, 2, 3, 0, tzinfo=datetime.timezone.utc)",
        "datetime.date(2026, 1, 2)",
        "Decimal('1.50')",
        "UUID('00000000-0000-0000-0000-000000000007')",
        "b'raw'",
        "[1, [2]]",
    ],
    "wrong_arguments": "TypeError",
    "called_directly": [3, ["own_name", 3, 180], "shared 3", None],
    "names": ["special.name", "add", "special"],
    "of_a_shared_task": "shared 1",
    "by_name": ["special", "special"],
    "an_id": [True, True, True],
    "states": [
        ["SUCCESS", True, True, False, 2],
        ["FAILURE", True, False, True, "no"],
        "PENDING",
        True,
    ],
    "while_it_runs": ["STARTED", False, 1.5, "SUCCESS"],
    "too_short_a_wait": ["TimeoutError", 4],
    "errors": ["ValueError: no", "AppError: of my own"],
    "an_error_that_is_not_raised": "ValueError('no')",
    "retries": 2,
    "retries_with_an_error": ["ValueError: the last word", ["run 0", "run 1", "run 2"]],
    "retries_without_an_error": "MaxRetriesExceededError",
    "retries_by_their_number": ["AppError: enough", ["run 0", "run 1"]],
    "a_retry_at_a_time": ["later", True],
    "automatic_retries": [
        2,
        "OSError: never",
        ["run 0", "run 1", "run 2"],
        "KeyError: 'at once'",
        ["run"],
        "FileNotFoundError: at once",
        ["run"],
        "after a backoff",
    ],
    "a_retry_shows_its_state": [True, "SUCCESS"],
    "a_countdown": [False, 2, True],
    "an_eta": [2, True],
    "expired": ["TaskRevokedError", "REVOKED", "in time", ["in time"]],
    "queues_and_options": ["mailed", "important", "settings", "limited", 2, 2],
    "headers_of_a_call": "acme",
    "a_family": [True, None],
    "waiting_in_a_task": "RuntimeError",
    "a_time_limit": ["TimeLimitExceeded", "FAILURE"],
    "cancelled": "REVOKED",
    "linked": [["linked 3"], ["linked 3", "linked 3", "one"]],
    "not_linked_to_a_failure": [],
    "errbacks": [["failed"], ["ValueError no"]],
    "no_errback_of_a_success": [],
    "chains": [31, 30, 3, 4, 21],
    "a_chain_that_breaks": ["ValueError: 3", []],
    "groups": [[0, 2, 4, 6, 8], 5, True, 5, 8],
    "a_group_with_a_failure": [2, "ValueError('no')", True, False],
    "chords": [90, [3, 1, 2], 6, 60, 17],
    "a_chord_with_a_failure": ["FAILURE", []],
    "a_group_after_a_task": [6, 9],
    "maps": [[2, 4], [1, 2], [[0, 2], [4, 6], [8]]],
    "signatures": [5, 3, 2, 2],
    "signals": [
        ["prerun", "success", "postrun"],
        ["failure", "postrun", "postrun", "prerun", "prerun", "retry"],
    ],
    "forgotten": "PENDING",
}


def python(module: str, *arguments: str, log: Path, **variables: str) -> subprocess.Popen[str]:
    with log.open("w") as output:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments], cwd=ROOT, env={**os.environ, **variables},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, text=True,
            start_new_session=True,
        )  # fmt: skip


def gone_through(folder: Path, worker: list[str], **variables: str) -> dict[str, Any]:
    """What each scenario gives to a caller in a process of its own, beside a worker."""
    variables["FORTY_JOURNAL"] = str(folder / "journal")
    log = folder / "worker.log"
    serving = python(*worker, log=log, **variables)
    caller = python(f"{FORTY}_calls", log=folder / "caller.log", **variables)
    try:
        output, _ = caller.communicate(timeout=200)
    finally:
        caller.kill()
        serving.terminate()
        serving.communicate(timeout=60)
    assert output, (folder / "caller.log").read_text() + log.read_text()[-4000:]
    found: dict[str, Any] = json.loads(output)
    return found


FORTY: Final = "tests.contrib.celery.forty"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_under_celery(redis: str, tmp_path: Path) -> None:
    worker = ["celery", "-A", FORTY, "worker", "-c", "4", "-Q", "celery,mail"]
    assert gone_through(tmp_path, worker, FORTY="celery", FORTY_URL=redis) == EXPECTED


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_under_the_shim(url: str, tmp_path: Path) -> None:
    worker = ["offpath", "worker", f"{FORTY}:app.offpath"]
    assert gone_through(tmp_path, worker, FORTY="offpath", FORTY_URL=url) == EXPECTED


def test_there_are_forty_of_them() -> None:
    source = (ROOT / "tests/contrib/celery/forty.py").read_text()
    assert source.count("@app.task") + source.count("@shared_task") == 40
