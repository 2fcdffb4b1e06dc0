"""Authenticators for :func:`offpath.web.dashboard`, ready-made.

Each is a function from a request to a :class:`Viewer`, or None for nobody; one of your own is as
good. What else they have (a page to sign in, a page of yours to send people to) is on them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
from collections.abc import Iterable, Mapping
from typing import Final

from offpath.errors import InvalidArgument
from offpath.runtime.seats import asked as answer_of
from offpath.runtime.seats import checked_seat
from offpath.web.asked import Asked
from offpath.web.viewers import ADMIN, OPERATOR, VIEWER, Authenticate, Can, Viewer

__all__ = [
    "ADMIN",
    "OPERATOR",
    "VIEWER",
    "Asked",
    "Authenticate",
    "Basic",
    "Can",
    "Header",
    "Session",
    "Token",
    "Viewer",
    "basic",
    "hash_password",
    "header",
    "session",
    "token",
]

LONGEST: Final = 1_024
"""Characters of a credential: a longer one is refused before anything is computed of it."""
_LEAST: Final = 16
"""Characters of a token."""
_SCRYPT: Final = {"n": 2**14, "r": 8, "p": 1}
_REMEMBERED: Final = 100
"""Passwords that were right, so that a page of ten requests does not compute ten times."""


class Token:
    """One token or several, each with the name of its holder."""

    challenge = "Bearer"

    def __init__(self, names: Mapping[bytes, str], secret: bytes, can: frozenset[Can]) -> None:
        self._names = names
        self.secret = secret
        """The key that signs cookies: derived, so every process with the same tokens has it."""
        self.can = can

    def __call__(self, asked: Asked) -> Viewer | None:
        """The viewer with this bearer token."""
        scheme, _, given = asked.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self.viewer(given.strip())

    def viewer(self, given: str) -> Viewer | None:
        """The viewer who has this token. Compared in constant time; a huge one costs nothing."""
        if len(given) > LONGEST:
            return None
        digest, found = _digest(given), None
        for known, name in self._names.items():
            if hmac.compare_digest(digest, known):
                found = name
        return None if found is None else Viewer(found, self.can)

    def named(self, name: str) -> Viewer | None:
        """The viewer of a cookie, while its token is still one of these."""
        return Viewer(name, self.can) if name in self._names.values() else None


def token(tokens: str | Mapping[str, str], *, can: Iterable[Can] = OPERATOR) -> Token:
    """The viewer who sends ``Authorization: Bearer …``, or has given the token on the sign-in page.

    ``tokens`` is one, or a mapping from the name of its holder to each. Raises ``InvalidArgument``
    for one of fewer than 16 characters.
    """
    given = {"token": tokens} if isinstance(tokens, str) else dict(tokens)
    if not given:
        raise InvalidArgument("auth.token() needs a token, or a mapping from names to tokens")
    for name, one in given.items():
        if not _LEAST <= len(one) <= LONGEST:
            raise InvalidArgument(
                f"the token of {name!r} must have {_LEAST} to {LONGEST} characters: "
                "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
            )
    digests = {_digest(one): name for name, one in given.items()}
    secret = hashlib.sha256(b"offpath dashboard cookie" + b"".join(sorted(digests))).digest()
    return Token(digests, secret, _rights(can))


class Basic:
    """Names and passwords, as browsers ask for them."""

    challenge = 'Basic realm="offpath", charset="UTF-8"'

    def __init__(self, hashes: Mapping[str, str], can: frozenset[Can]) -> None:
        self._hashes = hashes
        self._can = can
        self._stranger = hash_password(os.urandom(8).hex())
        self._known: dict[bytes, str] = {}

    def __call__(self, asked: Asked) -> Viewer | None:
        """The viewer with this name and password."""
        pair = _basic_pair(asked.headers.get("authorization", ""))
        if pair is None:
            return None
        name, password = pair
        seen = _digest(f"{name}:{password}")
        if self._known.get(seen) == name:
            return Viewer(name, self._can)
        # An unknown name takes as long as a known one.
        right = _password_is(password, self._hashes.get(name, self._stranger))
        if not right or name not in self._hashes:
            return None
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[seen] = name
        return Viewer(name, self._can)


def basic(hashes: Mapping[str, str], *, can: Iterable[Can] = OPERATOR) -> Basic:
    """The viewer who gives a name and its password. ``hashes`` are by name, from
    :func:`hash_password`.

    Raises ``InvalidArgument`` for what is not such a hash.
    """
    if not hashes:
        raise InvalidArgument("auth.basic() needs a mapping from names to hashes of passwords")
    for name, one in hashes.items():
        if ":" in name or _parts(one) is None:
            raise InvalidArgument(
                f"the password of {name!r} must be a hash that auth.hash_password() made, "
                "and a name has no colon"
            )
    return Basic(dict(hashes), _rights(can))


def hash_password(password: str) -> str:
    """A password as it may stand in a settings file: scrypt, with a salt of its own."""
    salt = os.urandom(16)
    digest = hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT)
    return f"scrypt${_text(salt)}${_text(digest)}"


class Header:
    """A header that a proxy sets after it has signed people in."""

    challenge = None

    def __init__(self, name: str, proxies: tuple[_Network, ...], can: frozenset[Can]) -> None:
        self._name = name
        self._proxies = proxies
        self._can = can

    def __call__(self, asked: Asked) -> Viewer | None:
        """The viewer whom the proxy names; nobody when something else than it asks."""
        name = asked.headers.get(self._name, "").strip()
        if not name or len(name) > LONGEST or not self._from_proxy(asked.client):
            return None
        return Viewer(name, self._can)

    def _from_proxy(self, client: str | None) -> bool:
        try:
            address = ipaddress.ip_address(client or "")
        except ValueError:
            return False
        return any(address in network for network in self._proxies)


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def header(name: str, *, proxies: Iterable[str], can: Iterable[Can] = OPERATOR) -> Header:
    """The viewer whom a header names, set by a proxy that has signed people in:
    ``x-forwarded-user``.

    ``proxies`` are the addresses or networks from which it is believed; without any, whoever
    reaches the dashboard could name himself. Raises ``InvalidArgument``.
    """
    try:
        networks = tuple(ipaddress.ip_network(one, strict=False) for one in proxies)
    except ValueError as error:
        raise InvalidArgument(f"proxies: {error}; write 10.0.0.0/8 or 10.0.0.7") from error
    if not networks:
        raise InvalidArgument("auth.header() needs proxies=[…]: the only peers that are believed")
    return Header(name.lower(), networks, _rights(can))


class Session:
    """The app's own login."""

    challenge = None

    def __init__(self, find: Authenticate, login_url: str | None) -> None:
        self._find = find
        self.login_url = login_url
        """The page to which people are sent who are not signed in."""

    async def __call__(self, asked: Asked) -> Viewer | None:
        """The viewer whom the app knows."""
        found: Viewer | None = await answer_of(self._find, asked)
        return found


def session(find: Authenticate, *, login_url: str | None = None) -> Session:
    """The viewer whom the app's own login knows: ``find(asked)`` gives a :class:`Viewer`, or None.

    With ``login_url`` pages send people there; JSON answers 401.
    """
    return Session(checked_seat(find, "auth.session"), login_url)


# -- small parts -----------------------------------------------------------------------------------


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _rights(can: Iterable[Can]) -> frozenset[Can]:
    try:
        return frozenset(Can(one) for one in can)
    except ValueError as error:
        raise InvalidArgument(f"can: {error}; the rights are {', '.join(Can)}") from error


def _basic_pair(text: str) -> tuple[str, str] | None:
    scheme, _, given = text.partition(" ")
    if scheme.lower() != "basic" or len(given) > 2 * LONGEST:
        return None
    try:
        name, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon else None


def _parts(text: str) -> tuple[bytes, bytes] | None:
    match text.split("$"):
        case ["scrypt", salt, digest]:
            try:
                return base64.b64decode(salt, validate=True), base64.b64decode(digest)
            except binascii.Error:
                return None
    return None


def _password_is(password: str, kept: str) -> bool:
    salt, digest = _parts(kept) or (b"", b"")
    given = hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, **_SCRYPT)
    return hmac.compare_digest(given, digest)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
