"""The browser of the dashboard's tests.

The standard library only: the gate looks for it before anything is installed.
"""

from __future__ import annotations

import shutil

PACKAGE = "chromium"
"""The Debian package that has the browser."""


def chromium() -> str | None:
    """The place of the browser; None when it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")
