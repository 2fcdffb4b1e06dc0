"""The command in an error installs the extra of what is installed, wherever that came from."""

from __future__ import annotations

import json
from importlib.metadata import Distribution, PackageNotFoundError
from typing import Any

import pytest

from offpath.errors import ConfigurationError, MissingExtra

INDEX: dict[str, Any] = {}
CLONE = {"url": "file:///home/ann/off%20path", "dir_info": {"editable": True}}
FOLDER = {"url": "file:///home/ann/offpath", "dir_info": {}}
BRANCH = {
    "url": "https://example.org/offpath.git",
    "vcs_info": {"vcs": "git", "commit_id": "a1b2", "requested_revision": "main"},
}
ARCHIVE = {"url": "https://example.org/offpath-1.0.tar.gz", "archive_info": {}}


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (INDEX, "pip install 'offpath[web]'"),
        (CLONE, "pip install -e '/home/ann/off path[web]'"),
        (FOLDER, "pip install '/home/ann/offpath[web]'"),
        (BRANCH, "pip install 'offpath[web] @ git+https://example.org/offpath.git@a1b2'"),
        (ARCHIVE, "pip install 'offpath[web] @ https://example.org/offpath-1.0.tar.gz'"),
    ],
)
def test_the_command_names_where_it_was_installed_from(
    monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any], command: str
) -> None:
    def noted(_self: Distribution, name: str) -> str | None:
        assert name == "direct_url.json"
        return json.dumps(origin) if origin else None

    monkeypatch.setattr("importlib.metadata.PathDistribution.read_text", noted)
    error = MissingExtra("the service needs starlette", "web")
    assert str(error) == f"the service needs starlette: {command}"
    assert isinstance(error, ConfigurationError)


def test_without_an_installation_an_index_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> None:
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.distribution", absent)
    assert str(MissingExtra("it needs x", "web")) == "it needs x: pip install 'offpath[web]'"
    assert str(MissingExtra("it needs x: pip install x")) == "it needs x: pip install x"
