"""Extras that are missing, and the command that installs them here."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from offpath.errors.refusals import ConfigurationError


class MissingExtra(ConfigurationError, ImportError):
    """An optional dependency is not installed; the message has the exact command."""

    code = "missing_extra"

    def __init__(self, needs: str, extra: str | None = None) -> None:
        super().__init__(needs if extra is None else f"{needs}: {command(extra)}")


def command(extra: str) -> str:
    """The command that installs an extra of this installation: an index may have another version,
    or none at all.
    """
    return f"pip install {_requirement(_origin(), extra)}"


def _requirement(origin: dict[str, Any], extra: str) -> str:
    url, vcs = str(origin.get("url", "")), origin.get("vcs_info", {})
    if not url:
        return f"'offpath[{extra}]'"
    if (folder := origin.get("dir_info")) is not None:
        editable = "-e " if folder.get("editable") else ""
        return f"{editable}'{unquote(urlsplit(url).path)}[{extra}]'"
    if vcs:
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"'offpath[{extra}] @ {url}'"


def _origin() -> dict[str, Any]:
    """The origin of the installation, as its installer noted it (PEP 610); empty: an index."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and for errors alone

    try:
        noted = distribution("offpath").read_text("direct_url.json")
        found: dict[str, Any] = json.loads(noted) if noted else {}
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return found
