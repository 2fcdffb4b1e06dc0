"""``offpath sweep``: list, run, exit codes, and what is told of rows that went wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from offpath.sweeps.catalogue import OWN
from tests.cli.conftest import Run

SWEEPS = """

class Carts:
    def __init__(self, rows, bad=()):
        self.rows, self.bad = rows, bad

    async def claim(self, ctx, now, limit):
        return self.rows[:limit]

    async def advance(self, ctx, row, now):
        if row in self.bad:
            raise ValueError("password=hunter2")
        return "reminded"


class Broken(Carts):
    async def claim(self, ctx, now, limit):
        raise ConnectionError("password=hunter2")


app.sweep("clean", every=30, limit=5)(Carts(["a", "b", "c"]))
app.sweep("nothing", shared=True)(Carts([]))
app.sweep("some")(Carts(["a", "b", "c"], bad=["b"]))
app.sweep("all_bad")(Carts(["a"], bad=["a"]))
app.sweep("broken")(Broken([]))
"""


@pytest.fixture
def service(here: Path, migrated: str) -> tuple[str, ...]:
    """The options that name a service with sweeps."""
    with (here / "service.py").open("a", encoding="utf-8") as file:
        file.write(SWEEPS)
    return ("--app", "service:app", "--url", migrated)


def document(run: Run, *args: str) -> tuple[int, dict[str, Any]]:
    done = run(*args, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    return done.exit_code, found


@pytest.mark.parametrize(
    ("name", "code", "verdict", "counts"),
    [
        ("clean", 0, "clean", {"reminded": 3}),
        ("nothing", 0, "empty", {}),
        ("some", 3, "degraded", {"reminded": 2, "failed": 1}),
        ("all_bad", 1, "failed", {"failed": 1}),
        ("broken", 1, "failed", {}),
    ],
)
def test_the_exit_code_says_how_it_went(
    run: Run,
    service: tuple[str, ...],
    name: str,
    code: int,
    verdict: str,
    counts: dict[str, int],
) -> None:
    exit_code, told = document(run, "sweep", "run", name, *service)
    assert (exit_code, told["name"], told["verdict"]) == (code, name, verdict)
    assert told["counts"] == counts
    assert told["ok"] is (code == 0)
    assert told["error"] == ("ConnectionError" if name == "broken" else None)


def test_rows_that_went_wrong_are_shown_without_their_secrets(
    run: Run, service: tuple[str, ...]
) -> None:
    done = run("sweep", "run", "some", *service)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines == [
        ["some:", "degraded", "(2", "reminded,", "1", "failed)"],
        ["row", "bucket", "reason"],
        ["b", "failed", "ValueError"],
    ]
    assert "hunter2" not in done.output


def test_the_limit_may_be_given(run: Run, service: tuple[str, ...]) -> None:
    _, told = document(run, "sweep", "run", "clean", "--limit", "2", *service)
    assert told["buckets"] == {"reminded": ["a", "b"]}


def test_a_second_run_leaves_what_another_leads_unless_forced(
    run: Run, service: tuple[str, ...]
) -> None:
    document(run, "sweep", "run", "clean", *service)
    done = run("sweep", "run", "clean", *service)
    assert (done.exit_code, done.stdout) == (0, "clean: empty (another worker leads it)\n")
    _, told = document(run, "sweep", "run", "clean", "--force", *service)
    assert told["counts"] == {"reminded": 3}


def test_an_unknown_sweep_is_wrong_usage(run: Run, service: tuple[str, ...]) -> None:
    exit_code, told = document(run, "sweep", "run", "nope", *service)
    assert (exit_code, told["error"]["code"]) == (2, "invalid_argument")
    assert "relay, prune, redrive, clean" in told["error"]["message"]


def test_the_list_has_the_order_of_the_run(run: Run, service: tuple[str, ...]) -> None:
    _, told = document(run, "sweep", "list", *service)
    names = [one["name"] for one in told["items"]]
    assert names == [
        *OWN,
        *("clean", "nothing", "some", "all_bad", "broken"),
    ]
    clean = told["items"][len(OWN)]
    assert (clean["every"], clean["limit"], clean["shared"], clean["own"]) == (30, 5, False, False)
    table = run("sweep", "list", *service).stdout.splitlines()
    assert table[len(OWN) + 1].split() == ["clean", "30", "5", "10", "one", "app"]


def test_without_an_app_the_engines_own_sweeps_are_there(run: Run, migrated: str) -> None:
    _, told = document(run, "sweep", "list", "--url", migrated)
    assert [one["name"] for one in told["items"]] == list(OWN)
    exit_code, told = document(run, "sweep", "run", "prune", "--url", migrated)
    assert (exit_code, told["verdict"]) == (0, "empty")
    exit_code, told = document(run, "sweep", "run", "redrive", "--url", migrated)
    assert (exit_code, told["skipped"]) == (0, "the app has no redrive policy: App(redrive=...)")
