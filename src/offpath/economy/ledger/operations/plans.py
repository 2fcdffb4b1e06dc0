"""From a request to an operation: what is looked up, and what a plan is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from offpath.economy.ledger.rules import NewId, Rules
from offpath.model.ledger.posting import PostingRecord
from offpath.model.ledger.records import SideKey, SideRow

_encode = msgspec.json.Encoder(order=None).encode
_APART: Final = ("key", "actor")
_LATER: Final = frozenset({"promo", "dollars", "fee", "ref", "zone", "grace", "overdue"})
"""Fields that requests got later. They count where they differ from their default, so that a
repeat of what was submitted before they were there is a repeat still."""


class Further(Struct, frozen=True, kw_only=True):
    """The facts that are looked up by what was found."""

    undoing: tuple[str, ...] = ()
    """Keys under which something is undone once: it is asked what undid it."""
    promos_of: str | None = None
    """A user of whose promo grants it is asked which are in these states."""
    promo_states: tuple[str, ...] = ("OPEN",)


Found = Callable[[SideRow | None, PostingRecord | None], Further]


class Lookup(Struct, frozen=True, kw_only=True):
    """The facts that must be read before an operation can say what it needs: they never change, and
    are proved again when it is decided.
    """

    side: SideKey | None = None
    posting: str | None = None
    payee: str | None = None
    """A user of whom the directory is asked whether they may be paid."""
    further: Found | None = None


Undone = Mapping[str, tuple[str, ...]]
"""By the key, the postings that undid it in turn: all but the last one were undone themselves."""


class Facts(Struct, frozen=True, kw_only=True):
    """The facts that were found."""

    side: SideRow | None = None
    posting: PostingRecord | None = None
    pair: PostingRecord | None = None
    """The other half of the posting, where credits and dollars move by two."""
    cleared: bool = True
    """The directory's answer; True without one."""
    undone_by: Undone = MappingProxyType({})
    grants: tuple[str, ...] = ()
    """Promo grants that are in the asked states."""
    looked: bool = False
    """True if the store was asked at all."""


NOTHING_TO_SEE: Final = Facts()
NOTHING_FURTHER: Final = Further()


class Planning(Struct, frozen=True, kw_only=True):
    """The parts that a plan is made with."""

    rules: Rules
    new_id: NewId
    seen: Facts = NOTHING_TO_SEE


class Family(Struct, frozen=True, kw_only=True):
    """The way from requests of one kind to operations."""

    kind: str
    """The name of the kind in events, metadata and metrics."""
    check: Callable[[Any, Rules], None]
    """Refuse what cannot be meant, and who may not. Raises ledger faults."""
    plan: Callable[[Any, Planning], Any]
    """Make the :class:`~offpath.model.ledger.decision.LedgerOp`."""
    look: Callable[[Any, Rules], Lookup | None] | None = None
    late: bool = False
    """True if it is planned without a look at first, and with one when its decision asks for it
    (``Unplanned``): what it looks for is seldom there."""


def fingerprint(request: Struct) -> str:
    """The fingerprint that tells a repeat from another operation under the same key.

    It covers the kind and every field but ``key`` and ``actor``: who repeats an operation may be
    another part of the system than who began it. Rules and rates are not part of it, so a repeat
    after a change of them is still a repeat.
    """
    tag, names, later = _told(type(request))
    told = [tag, *[getattr(request, name) for name in names]]
    for name, default in later:
        if (value := getattr(request, name)) != default:
            told.append({name: value})
    return sha256(_encode(told)).hexdigest()


@cache
def _told(
    kind: type[Struct],
) -> tuple[object, tuple[str, ...], tuple[tuple[str, object], ...]]:
    """The kind of a request, and the fields that tell it from others: those there always were, and
    the later ones with their defaults.
    """
    apart = {*_APART, *_LATER}
    names = tuple([name for name in kind.__struct_fields__ if name not in apart])
    later = tuple([(one.name, one.default) for one in fields(kind) if one.name in _LATER])
    return kind.__struct_config__.tag, names, later
