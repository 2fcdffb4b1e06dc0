"""``offpath ledger prove --cycle``, as cron runs it."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run, document


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_slice_whose_turn_it_is_is_proved(run: Run, migrated: str) -> None:
    def prove(*words: str, code: int = 0) -> str:
        done = run("ledger", "prove", *words, "--url", migrated)
        assert done.exit_code == code, done.output
        return done.output

    found = json.loads(prove("--cycle", "1s", "--every", "1s", "--json"))
    assert (found["holds"], found["number"], found["of"], found["proof"]) == (True, 1, 1, None)
    told = prove("--cycle", "7d")
    assert "of 168, " in told
    assert "of the cycle that began" in told
    assert "nothing was posted before that" in told
    assert "is not a duration" in prove("--cycle", "week", code=2)
    assert "leave --light" in prove("--cycle", "7d", "--light", code=2)
    assert "of --cycle" in prove("--every", "1h", code=2)
    short = run("ledger", "prove", "--cycle", "1h", "--every", "2h", "--url", migrated, "--json")
    assert document(short)["error"]["code"] == "invalid_argument"
