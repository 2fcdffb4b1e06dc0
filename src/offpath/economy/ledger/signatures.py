"""Signatures of checkpoints: Ed25519, with keys that may be rotated."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol

from offpath.errors import MissingExtra
from offpath.model.ledger.faults import ChainBroken, EconomyConfigInvalid
from offpath.model.ledger.records import Checkpoint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

VERSION: Final = 4
"""The version that new checkpoints have."""
NUMBERED: Final = 4
"""The version from which on the number of the last posting is signed."""
_KID = 16
_LEAST = 32
_V1, _V2 = 1, 2


class Signer(Protocol):
    """Signs checkpoints. One that keeps its key elsewhere (a KMS) may do so asynchronously."""

    @property
    def kid(self) -> str:
        """Names the key that signs now."""
        ...

    def sign(self, content: bytes) -> Any:  # noqa: ANN401 - str, or an awaitable of one
        """The signature in hex, or an awaitable of it."""
        ...

    def verify(self, content: bytes, signature: str) -> bool:
        """True if one of our keys, the current or an earlier one, made it.

        Raises ValueError for a signature that is not hex.
        """
        ...


class Ed25519Signer:
    """Keys made of secrets: the seed is SHA-256 of the secret's bytes, the ``kid`` the first 16 hex
    digits of the public key. ``prior`` secrets verify what they once signed, and sign no more.

    Raises ``EconomyConfigInvalid`` for a secret of fewer than 32 bytes, which can be guessed; prior
    ones may be shorter, as they could be once.
    """

    def __init__(self, secret: str, prior: Sequence[str] = ()) -> None:
        self._private = _private(secret, _LEAST)
        keys = [self._private, *(_private(one, 1) for one in prior)]
        self._public = [key.public_key() for key in keys]

    def __repr__(self) -> str:
        """Show the key's name, never the key."""
        return f"<Ed25519Signer kid={self.kid}>"

    @property
    def kid(self) -> str:
        """The first 16 hex digits of the public key."""
        return self.public_key[:_KID]

    @property
    def public_key(self) -> str:
        """The public key in hex: what somebody else needs to verify."""
        return _hex(self._public[0])

    def sign(self, content: bytes) -> str:
        """The signature in hex."""
        return self._private.sign(content).hex()

    def verify(self, content: bytes, signature: str) -> bool:
        """True if the current or an earlier key made it."""
        return verifies(self._public, content, signature)


class PublicKeys:
    """Verifies only: for whoever has the public keys (hex), and not the secrets."""

    def __init__(self, *keys: str) -> None:
        self._public = [_public(key) for key in keys]

    def verify(self, content: bytes, signature: str) -> bool:
        """True if one of the keys made it."""
        return verifies(self._public, content, signature)


async def signature_of(signer: Signer, content: bytes) -> str:
    """The signature of some bytes in hex, also of a signer that is asked asynchronously."""
    signature = signer.sign(content)
    return str(await signature if inspect.isawaitable(signature) else signature)


def signed_bytes(checkpoint: Checkpoint) -> bytes:
    """The bytes that a checkpoint's signature is over.

    Version 1: the root. Version 2: the root and the sum in eight bytes. Versions 3 and 4: canonical
    JSON of everything but the signature, so that no field can be changed.
    """
    root = bytes.fromhex(checkpoint.root)
    if checkpoint.v == _V1:
        return root
    if checkpoint.v == _V2:
        return root + (checkpoint.sum or 0).to_bytes(8, signed=True)
    return _canonical(checkpoint)


def _canonical(checkpoint: Checkpoint) -> bytes:
    from offpath.model.ledger.posting import canonical

    numbered = {} if checkpoint.v < NUMBERED else {"posting": checkpoint.posting}
    return canonical(
        {
            **numbered,
            "v": checkpoint.v,
            "id": checkpoint.id,
            "root": checkpoint.root,
            "sum": None if checkpoint.sum is None else str(checkpoint.sum),
            "count": checkpoint.count,
            "at": checkpoint.at,
            "kid": checkpoint.kid,
            "prev": checkpoint.prev,
        }
    ).encode()


def verifies(keys: Sequence[Ed25519PublicKey], content: bytes, signature: str) -> bool:
    """True if one of the keys made the signature. Raises ValueError when it is not hex."""
    from cryptography.exceptions import InvalidSignature

    given = bytes.fromhex(signature)
    for key in keys:
        try:
            key.verify(given, content)
        except InvalidSignature:
            continue
        return True
    return False


def _private(secret: str, least: int) -> Ed25519PrivateKey:
    try:
        seed = bytes.fromhex(secret)
    except ValueError:
        seed = b""
    if len(seed) < least:
        # Never with the secret in the text.
        raise EconomyConfigInvalid(
            f"a signing secret is at least {_LEAST} bytes in hex: make one with "
            "`openssl rand -hex 32`"
        )
    key: Ed25519PrivateKey = _ed25519().Ed25519PrivateKey.from_private_bytes(sha256(seed).digest())
    return key


def _public(key: str) -> Ed25519PublicKey:
    try:
        public: Ed25519PublicKey = _ed25519().Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
    except ValueError:
        raise EconomyConfigInvalid(f"a public key is 32 hex bytes, not {key[:80]!r}") from None
    return public


def _hex(key: Ed25519PublicKey) -> str:
    return key.public_bytes_raw().hex()


def _ed25519() -> Any:  # noqa: ANN401 - a module
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingExtra("signing checkpoints needs cryptography", "economy") from error
    return ed25519


class SealVerifier(Protocol):
    """The part of a signer that a verification needs: no secret."""

    def verify(self, content: bytes, signature: str) -> bool:
        """True if one of the known keys made the signature. Raises ValueError: it is not hex."""
        ...


def verify_checkpoint(checkpoint: Checkpoint, keys: SealVerifier) -> bool:
    """True if one of the keys signed it. Raises ``ChainBroken`` when it is malformed."""
    try:
        return keys.verify(signed_bytes(checkpoint), checkpoint.signature)
    except (ValueError, OverflowError) as error:
        raise ChainBroken(
            f"checkpoint {checkpoint.id} was altered, it is malformed: {error}"
        ) from error


def is_ours(checkpoint: Checkpoint, keys: SealVerifier) -> bool:
    """The same, where one that is malformed is not ours."""
    try:
        return verify_checkpoint(checkpoint, keys)
    except ChainBroken:
        return False
