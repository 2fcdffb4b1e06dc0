"""Ids: made by the caller, so that a job can be named before it is stored and a call repeated."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Final
from uuid import UUID

import uuid_utils

from offpath.errors import InvalidArgument
from offpath.model.given_ref import id_of

IdGenerator = Callable[[], str]
"""Makes a new id at each call: a UUID in its canonical 36 characters."""

_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""A digit with the variant bits of RFC 9562 in place of its highest two."""


def new_id() -> str:
    """A new UUIDv7: ids of one process sort in the order in which they were made."""
    return str(uuid_utils.uuid7())


def checked_ids(generator: IdGenerator) -> IdGenerator:
    """The generator as it is used: one of the user's own is checked at each call."""
    return generator if generator is new_id else lambda: parse_id(generator(), "a generated id")


def derive_id(parent: str, position: int | str) -> str:
    """The id of a parent's child at ``position``: the same inputs always give the same id.

    A parent that runs again names its children as before, so enqueuing them again changes nothing.
    The child sorts beside its parent: the time of a UUIDv7 parent is kept.
    """
    # a fan-out makes thousands of one parent: no UUID objects, and the parent is read once
    origin = _canonical_parent(parent)
    digest = sha256(f"{origin}/{type(position).__name__}/{position}".encode()).hexdigest()
    # the version is 8: made by a rule of our own
    stamped = f"8{digest[1:4]}-{_VARIANT[digest[4]]}{digest[5:8]}"
    return f"{origin[:13]}-{stamped}-{digest[8:20]}"


@lru_cache(maxsize=256)
def _canonical_parent(parent: str) -> str:
    return parse_id(parent, "parent")


def parse_id(value: str | UUID, name: str) -> str:
    """``value`` in canonical form, that of a ``ref:…`` too; raises InvalidArgument when it is not a
    UUID.
    """
    text = id_of(str(value))
    try:
        return str(UUID(text))
    except ValueError:
        shown = f"{str(value)[:60]!r}"
        raise InvalidArgument(f"{name} must be a UUID of 36 characters, not {shown}") from None
