"""Without the extra ``webhooks`` the command is named, and no delivery is tried for it."""

from __future__ import annotations

import sys

import pytest

from offpath.errors import MissingExtra
from offpath.events.webhook.guard import Guard
from offpath.events.webhook.poster import HttpPoster
from offpath.events.webhook.signature import Verifier, new_key_pair, signer
from offpath.runtime.clock import ManualClock

COMMAND = r"pip install .*\[webhooks\]'"


@pytest.fixture
def no_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)


def test_keys_of_ed25519_name_the_command(
    request: pytest.FixtureRequest,
) -> None:
    private, public = new_key_pair()
    request.getfixturevalue("no_cryptography")
    with pytest.raises(MissingExtra, match=COMMAND):
        new_key_pair()
    with pytest.raises(MissingExtra, match=COMMAND):
        Verifier(public)
    with pytest.raises(MissingExtra, match=COMMAND):
        signer(private)


def test_a_poster_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match=COMMAND):
        HttpPoster(Guard(), ManualClock())
