"""Ids: made by the caller, so that a job can be named before it is stored and a call repeated."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from uuid import UUID

import uuid_utils

from offpath.errors import InvalidArgument

IdGenerator = Callable[[], str]
"""Makes a new id at each call: a UUID in its canonical 36 characters."""


def new_id() -> str:
    """A new UUIDv7: ids of one process sort in the order in which they were made."""
    return str(uuid_utils.uuid7())


def derive_id(parent: str, position: int | str) -> str:
    """The id of a parent's child at ``position``: the same inputs always give the same id.

    A parent that runs again names its children as before, so enqueuing them again changes nothing.
    The child sorts beside its parent: the time of a UUIDv7 parent is kept.
    """
    origin = UUID(parse_id(parent, "parent"))
    digest = sha256(f"{origin}/{type(position).__name__}/{position}".encode()).digest()
    number = int.from_bytes(origin.bytes[:6] + digest[:10])
    return str(UUID(int=_stamped(number)))


def _stamped(number: int) -> int:
    """``number`` with the version (8: made by a rule of our own) and variant bits of RFC 9562."""
    number = number & ~(0xF << 76) | (0x8 << 76)
    return number & ~(0x3 << 62) | (0x2 << 62)


def parse_id(value: str | UUID, name: str) -> str:
    """``value`` in canonical form; raises InvalidArgument when it is no UUID."""
    try:
        return str(UUID(str(value)))
    except ValueError:
        shown = f"{str(value)[:60]!r}"
        raise InvalidArgument(f"{name} must be a UUID of 36 characters, not {shown}") from None
