"""Signing secrets of endpoints as they lie in the database: sealed under a key that does not.

The form is Fernet (https://github.com/fernet/spec/blob/master/Spec.md): AES-128-CBC with
HMAC-SHA256, by the library ``cryptography``. Whoever reads the database, or a backup of it, then
signs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from offpath.errors import ConfigurationError, MissingExtra

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

SETTING: Final = "OFFPATH_SECRET_KEY"
_SEALED: Final = "sealed1:"


class SecretKeyMissing(ConfigurationError):
    """A stored secret cannot be opened: its key is not among those of this process."""

    code = "secret_key_missing"


class Keyring:
    """The keys of ``OFFPATH_SECRET_KEY``: the first seals, each of them opens.

    Without a key, secrets are stored as they are.
    """

    def __init__(self, setting: str | None = None) -> None:
        """Take keys as the setting has them, separated by commas, the newest first.

        Raises ``ConfigurationError`` for what is not a key, and ``MissingExtra`` without the extra
        ``webhooks``.
        """
        keys = [key.strip() for key in (setting or "").split(",") if key.strip()]
        self._fernet = _fernet(keys) if keys else None

    def __repr__(self) -> str:
        """Show whether there are keys; never a key."""
        return f"<Keyring {'with' if self._fernet else 'without'} keys>"

    @property
    def seals(self) -> bool:
        """True if new secrets are sealed."""
        return self._fernet is not None

    def sealed(self, secrets: Sequence[str]) -> tuple[str, ...]:
        """The secrets as they are stored."""
        if self._fernet is None:
            return tuple(secrets)
        return tuple(_SEALED + self._fernet.encrypt(one.encode()).decode() for one in secrets)

    def opened(self, stored: Sequence[str]) -> tuple[str, ...]:
        """The secrets themselves. Raises :class:`SecretKeyMissing`."""
        return tuple(self._open(one) if is_sealed(one) else one for one in stored)

    def can_open(self, stored: Sequence[str]) -> bool:
        """True if all of these can be opened with the keys of this process."""
        try:
            self.opened(stored)
        except SecretKeyMissing:
            return False
        return True

    def _open(self, stored: str) -> str:
        if self._fernet is None:
            raise SecretKeyMissing(
                f"the endpoint's secret is sealed, and {SETTING} is not set in this process: set "
                f"it (or {SETTING}_FILE) to the key that sealed it"
            )
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(stored.removeprefix(_SEALED)).decode()
        except InvalidToken:
            raise SecretKeyMissing(
                f"no key of {SETTING} opens the endpoint's secret: add the key that sealed it "
                "behind the new one, separated by a comma, or rotate the secret"
            ) from None


def is_sealed(stored: str) -> bool:
    """True if a stored secret is sealed."""
    return stored.startswith(_SEALED)


def new_key() -> str:
    """A new key for ``OFFPATH_SECRET_KEY``. Raises ``MissingExtra``."""
    _require()
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def _fernet(keys: Sequence[str]) -> MultiFernet:
    _require()
    from cryptography.fernet import Fernet, MultiFernet

    try:
        return MultiFernet([Fernet(key) for key in keys])
    except ValueError:
        raise ConfigurationError(
            f"{SETTING} holds something that is not a key: 32 bytes in URL-safe base64; "
            "`offpath endpoints new-key` prints one"
        ) from None


def _require() -> None:
    try:
        import cryptography.fernet  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise MissingExtra(f"{SETTING} needs cryptography", "webhooks") from error
