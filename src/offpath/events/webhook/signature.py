"""Standard Webhooks 1.0.0: the signature that a receiver can check.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

What is signed is ``id.timestamp.body``, the exact bytes of the body. ``v1`` is HMAC-SHA256 under a
shared secret (``whsec_`` and base64 of 24 to 64 bytes); ``v1a`` is Ed25519, whose private key
(``whsk_``) stays here while receivers have the public one (``whpk_``).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from offpath.errors import InvalidArgument, MissingExtra, OffpathError
from offpath.model import checks
from offpath.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
TOLERANCE: Final = 300.0
"""Seconds that a timestamp may be off, either way."""
_SECRET, _PRIVATE, _PUBLIC = "whsec_", "whsk_", "whpk_"
_LEAST, _MOST, _ED25519 = 24, 64, 32
_MOST_SIGNATURES = 20
"""Signatures of one header that are looked at; a sender has one per secret."""

Signer = Callable[[bytes], str]
"""Signs ``id.timestamp.body``: the version, a comma and the signature in base64."""
Checker = Callable[[str, bytes, bytes], bool]
"""A check of a signature of this version, given its bytes, against the signed content."""


class BadSignature(OffpathError):
    """A webhook is not what it claims to be: answer 401, and keep nothing of it.

    ``reason``: ``missing``, ``malformed``, ``too_old``, ``too_new`` or ``no_match``.
    """

    code = "bad_signature"

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def new_secret() -> str:
    """A new shared secret: ``whsec_`` and 32 random bytes."""
    return _SECRET + base64.b64encode(secrets.token_bytes(32)).decode()


def new_key_pair() -> tuple[str, str]:
    """A new Ed25519 pair: ours (``whsk_``) and the receivers' (``whpk_``).

    Raises ``MissingExtra`` without the extra ``webhooks``.
    """
    private = _ed25519().generate()
    from cryptography.hazmat.primitives import serialization

    raw = private.private_bytes(
        serialization.Encoding.Raw,
        serialization.PrivateFormat.Raw,
        serialization.NoEncryption(),
    )
    return _PRIVATE + base64.b64encode(raw).decode(), _public_text(private)


def checked_secret(secret: object) -> str:
    """A signing secret. Raises ``InvalidArgument`` without showing it."""
    signer(secret)
    return str(secret)


def signer(secret: object) -> Signer:
    """The signer under this secret. Raises ``InvalidArgument`` without showing it."""
    if isinstance(secret, str) and secret.startswith(_PRIVATE):
        private = _ed25519().from_private_bytes(_decoded(secret, _PRIVATE))
        return lambda content: f"v1a,{base64.b64encode(private.sign(content)).decode()}"
    key = _decoded(secret, _SECRET)
    return lambda content: f"v1,{base64.b64encode(_digest(key, content)).decode()}"


def signed_headers(
    message_id: str, at: datetime, body: bytes, signers: Sequence[Signer]
) -> dict[str, str]:
    """The three headers for these exact bytes; one signature for each secret."""
    stamp = str(math.floor(at.timestamp()))
    content = _content(message_id, stamp, body)
    return {
        ID: message_id,
        TIMESTAMP: stamp,
        SIGNATURE: " ".join(sign(content) for sign in signers),
    }


class Verifier:
    """A receiver's check, with one secret or several (while they are rotated).

    ``Verifier("whsec_...").verify(body, headers)`` returns the message's id, by which a receiver
    drops repeats. Comparison takes constant time.
    """

    def __init__(
        self,
        *keys: str,
        tolerance: float | timedelta = TOLERANCE,
        clock: Clock | None = None,
    ) -> None:
        """Take shared secrets (``whsec_``) and public keys (``whpk_``).

        ``tolerance``: seconds that a timestamp may be off. Raises ``InvalidArgument``, and
        ``MissingExtra`` for a ``whpk_`` key without the extra ``webhooks``.
        """
        if not keys:
            raise InvalidArgument("a verifier needs at least one secret (whsec_…) or key (whpk_…)")
        self._checkers = [_checker(key) for key in keys]
        self._tolerance = checks.seconds(tolerance, "tolerance")
        self._clock = clock or SystemClock()

    def __repr__(self) -> str:
        """Show how many keys there are; never a key."""
        return f"<Verifier of {len(self._checkers)} keys>"

    def verify(self, body: bytes | str, headers: Mapping[str, str]) -> str:
        """The id of a message that is genuine and fresh. Raises :class:`BadSignature`.

        ``body`` is the raw body as it came: parsed and encoded again it is another one.
        """
        given = {name.lower(): value for name, value in headers.items()}
        message_id, stamp = _needed(given, ID), _needed(given, TIMESTAMP)
        signatures = _needed(given, SIGNATURE).split()[:_MOST_SIGNATURES]
        self._check_time(stamp)
        raw = body.encode() if isinstance(body, str) else bytes(body)
        content = _content(message_id, stamp, raw)
        # all are compared, so that the time taken does not tell which one fits
        fits = [self._fits(one, content) for one in signatures]
        if not any(fits):
            raise BadSignature("no signature fits this body and these secrets", reason="no_match")
        return message_id

    def _fits(self, signature: str, content: bytes) -> bool:
        version, _, text = signature.partition(",")
        try:
            given = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return False
        return any([check(version, given, content) for check in self._checkers])  # noqa: C419

    def _check_time(self, stamp: str) -> None:
        if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):  # noqa: PLR2004
            raise BadSignature(f"{TIMESTAMP} is not a time in whole seconds", reason="malformed")
        age = self._clock.now().timestamp() - int(stamp)
        if age > self._tolerance:
            raise BadSignature(f"it was signed {age:.0f} s ago: too old", reason="too_old")
        if age < -self._tolerance:
            raise BadSignature(f"it was signed {-age:.0f} s ahead of now", reason="too_new")


def _checker(key: object) -> Checker:
    if isinstance(key, str) and key.startswith(_PUBLIC):
        return _ed25519_checker(_decoded(key, _PUBLIC))
    secret = _decoded(key, _SECRET)

    def check(version: str, given: bytes, content: bytes) -> bool:
        return hmac.compare_digest(_digest(secret, content), given) and version == "v1"

    return check


def _ed25519_checker(raw: bytes) -> Checker:
    _ed25519()  # tells what to install where it is missing
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = Ed25519PublicKey.from_public_bytes(raw)

    def check(version: str, given: bytes, content: bytes) -> bool:
        if version != "v1a":
            return False
        try:
            public.verify(given, content)
        except InvalidSignature:
            return False
        return True

    return check


def _ed25519() -> type[Ed25519PrivateKey]:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise MissingExtra("Ed25519 signatures need cryptography", "webhooks") from error
    return Ed25519PrivateKey


def _public_text(private: Ed25519PrivateKey) -> str:
    return _PUBLIC + base64.b64encode(private.public_key().public_bytes_raw()).decode()


def _decoded(text: object, prefix: str) -> bytes:
    """The bytes behind a secret's prefix. Its text is never in an error."""
    wanted = f"a webhook secret is {prefix!r} and base64"
    if not isinstance(text, str) or not text.startswith(prefix):
        raise InvalidArgument(f"{wanted}: offpath.events.new_secret() makes one")
    try:
        raw = base64.b64decode(text.removeprefix(prefix) + "==", validate=False)
    except (binascii.Error, ValueError):
        raise InvalidArgument(f"{wanted}, but what follows is not base64") from None
    least, most = (_LEAST, _MOST) if prefix == _SECRET else (_ED25519, _ED25519)
    if not least <= len(raw) <= most:
        raise InvalidArgument(f"{wanted} of {least} to {most} bytes, not {len(raw)}")
    return raw


def _needed(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name, "")
    if not value:
        raise BadSignature(f"the header {name} is missing", reason="missing")
    return value


def _content(message_id: str, stamp: str, body: bytes) -> bytes:
    return f"{message_id}.{stamp}.".encode() + body


def _digest(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, sha256)
