"""The parts of a release: a bill of materials by the lock file, an attestation or why not."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import release
from tests.architecture.page import ROOT


def locked() -> dict[str, str]:
    lock = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
    return {one["name"]: one["version"] for one in lock["package"]}


@pytest.mark.timeout(300)
def test_the_bill_lists_what_is_installed_and_nothing_of_the_workshop(tmp_path: Path) -> None:
    file = tmp_path / "offpath.cdx.json"
    release.bill_of_materials(file)
    bill = json.loads(file.read_text("utf-8"))
    found = {one["name"].lower(): one for one in bill["components"]}
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "offpath"
    for name in ("msgspec", "click", "psycopg", "aiohttp", "cryptography", "redis"):
        assert found[name]["version"] == locked()[name]
        assert found[name]["licenses"]
    assert {"pytest", "mypy", "ruff", "cyclonedx-bom"} & set(found) == set()


def test_where_no_attestation_can_be_made_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_URL", raising=False)
    release.attest([])
    assert "not attested: this host gives no identity token" in capsys.readouterr().out


def test_each_extra_is_used_in_an_environment_of_its_own() -> None:
    assert sorted(release.SMOKE) == sorted(release.extras())
    for code in (*release.SMOKE.values(), release.JOB):
        compile(code, "smoke", "exec")
