"""``offpath backends``: which backend has what, and how durable the one in force is."""

from __future__ import annotations

import json
from pathlib import Path

from offpath.store.offered import DEATHS, FEATURES, OFFERED
from tests.cli.conftest import Run


def test_it_lists_each_feature_by_backend_and_says_how_durable_the_store_is(
    run: Run, tmp_path: Path
) -> None:
    done = run("backends", "--url", f"sqlite:///{tmp_path}/work.db")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0].split() == ["feature", *OFFERED]
    limits = next(line for line in lines if line.startswith("limits"))
    assert limits.split() == ["limits", "yes", "yes", "yes", "no"]
    assert lines[-1] == "sqlite: what is acknowledged is on the disk: it outlives a power cut"


def test_its_document_has_the_same(run: Run, tmp_path: Path) -> None:
    done = run("backends", "--json", "--url", f"sqlite:///{tmp_path}/work.db")
    told = json.loads(done.output)
    assert (told["backend"], told["durability"]) == ("sqlite", "fsync")
    features = {each["feature"]: each for each in told["features"]}
    assert list(features) == [*FEATURES.values(), DEATHS]
    assert features[DEATHS] == {
        "feature": DEATHS, "memory": "no", "sqlite": "yes", "postgres": "yes", "redis": "yes",
    }  # fmt: skip
