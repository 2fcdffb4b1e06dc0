"""Barriers of a page, as axe-core finds them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from playwright.async_api import Page

from tests.conftest import missing_server

AXE = "axe-core@4.14.1"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def axe_script(folder: Path) -> str:
    """The script of axe-core, from npm or where ``OFFPATH_TEST_AXE`` says."""
    if given := os.environ.get("OFFPATH_TEST_AXE"):
        return Path(given).read_text("utf-8")
    try:
        subprocess.run(["npm", "pack", AXE], cwd=folder, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        missing_server(f"no {AXE}: npm pack failed ({error})")
    subprocess.run(["tar", "xzf", *map(str, folder.glob("*.tgz"))], cwd=folder, check=True)
    return (folder / "package" / "axe.min.js").read_text("utf-8")


async def barriers(page: Page, axe: str) -> list[tuple[str, list[str]]]:
    """The rules that a page breaks, each with the elements that break it."""
    # evaluated, since the policy lets no script in that is not ours
    await page.evaluate(axe)
    options = json.dumps({"runOnly": RULES})
    found = await page.evaluate(f"axe.run(document, {options}).then((r) => r.violations)")
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
