"""Postings and their hashes: one chain per account, and what a link of it is made of.

A posting extends the chain of each account that it touches by one link, however many entries it
has there. The link's hash is SHA-256 over four frames, each led by its length in four bytes, big
end first: the head before (32 bytes), the posting's id, the account's own entries as amount texts,
sorted and joined by a NUL, and the posting's metadata as canonical JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256 as _sha256
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from offpath.model.ledger import money
from offpath.model.ledger.chart import chart
from offpath.model.ledger.faults import (
    ChainBroken,
    MalformedOperation,
    Unbalanced,
)

GENESIS: Final = "0" * 64
"""The head of an account that no posting has touched."""
SAFE: Final = 2**53 - 1
"""Whole numbers in metadata must be exact in every language: beyond this they go as text."""
LONGEST_META: Final = 65_536
MOST_ACCOUNTS: Final = 65_536
"""Accounts that one posting may touch."""
LONGEST_ID: Final = 300
DEEPEST: Final = 16

_HEAD_LENGTH = (32).to_bytes(4)
Meta: TypeAlias = Mapping[str, Any]
_ENCODER = msgspec.json.Encoder(order="deterministic", enc_hook=dict)  # of other mappings


class Entry(Struct, frozen=True, gc=False):
    """One side of a posting: a signed amount in minor units, debit positive, of an account."""

    account: str
    amount: int


class NewPosting(Struct, frozen=True, kw_only=True, gc=False):
    """A posting to make: a balanced set of entries with an id of its own.

    ``meta`` is sealed by the chains: texts, whole numbers to 2**53, true, false, null, lists and
    objects of these. ``source`` in it dates the lots that it raises.
    """

    id: str
    entries: tuple[Entry, ...]
    meta: Meta = {}


class LinkRecord(Struct, frozen=True, kw_only=True, gc=False):
    """An account's part of a posting, and its link in the account's chain."""

    account: str
    number: int
    """1 for the account's first link, then without a gap."""
    posting: str
    amount: int
    """The sum of its entries here, debit positive."""
    entries: tuple[int, ...]
    """Their amounts, in the order of the posting."""
    balance: int
    """The account's balance after it, on the side on which the account grows."""
    raised: int
    """All that ever raised the account, this included: never falls. Each posting counts by what
    it does to the balance in sum."""
    prev: str
    hash: str
    source: str | None
    """``source`` of the posting's metadata, for the age of what it raised."""
    at: int
    """The time when it was posted, in milliseconds since 1970."""


class PostingRecord(Struct, frozen=True, kw_only=True, gc=False):
    """A posting as it is stored, with its links ordered by account."""

    id: str
    meta: str
    """Canonical JSON."""
    at: int
    links: tuple[LinkRecord, ...]
    seq: int = 0
    """The order in which postings were committed; 0 before it was."""

    @property
    def facts(self) -> dict[str, Any]:
        """The metadata, decoded."""
        decoded: dict[str, Any] = msgspec.json.decode(self.meta)
        return decoded

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its entries, ordered by account."""
        return tuple(Entry(link.account, one) for link in self.links for one in link.entries)


def identified(posting: object) -> str:
    """The id of a posting. Raises ``MalformedOperation`` for what is none."""
    if not isinstance(posting, str) or not 0 < len(posting) <= LONGEST_ID:
        raise MalformedOperation(
            f"a posting's id is a text of 1 to {LONGEST_ID} characters, not {posting!r}"[:300]
        )
    _written(posting, "the posting's id")
    return posting


def canonical(meta: Meta) -> str:
    """Canonical JSON of metadata: keys sorted at every level, no blanks.

    Raises ``MalformedOperation`` for floats, numbers beyond 2**53, other types, and what is too
    large or too deep.
    """
    if type(meta) is not dict and not isinstance(meta, Mapping):
        raise MalformedOperation(f"metadata is an object, not {type(meta).__name__}")
    encoded = _flat(meta)
    if encoded is None:
        _checked_object(meta, "meta", 0)
        encoded = _ENCODER.encode(meta).decode()
    if len(encoded) > LONGEST_META:
        raise MalformedOperation(f"metadata is longer than {LONGEST_META} characters")
    return encoded


def _flat(meta: Meta) -> str | None:
    """The same for what nearly all metadata is, an object of plain ASCII texts; None for others."""
    for key, value in meta.items():
        if type(key) is not str or type(value) is not str:
            return None
    try:
        encoded = _ENCODER.encode(meta).decode("ascii")
    except UnicodeError:
        return None
    # A NUL is written so; a text that says so by itself is looked at the long way.
    return None if "u0000" in encoded else encoded


def link_hash(prev: str, posting: str, amounts: Sequence[str], meta: str) -> str:
    """The hash of a link; ``amounts`` are the account's own entries as amount texts."""
    return chained(prev, framed(posting), "\0".join(sorted(amounts)), framed(meta))


def chained(prev: str, posting: bytes, own: str, meta: bytes) -> str:
    """The same, with the frames of id and metadata ready: all links of a posting have them alike.

    ``own`` are the sorted texts with a NUL between them.
    """
    amounts = own.encode()
    length = len(amounts).to_bytes(4)
    frames = (_HEAD_LENGTH, bytes.fromhex(prev), posting, length, amounts, meta)
    return _sha256(b"".join(frames)).hexdigest()


def framed(text: str) -> bytes:
    """A frame of what is hashed: led by its length."""
    frame = text.encode()
    return len(frame).to_bytes(4) + frame


def hash_of(link: LinkRecord, meta: str) -> str:
    """The hash of a stored link by its content."""
    currency = chart(link.account).currency
    return link_hash(
        link.prev, link.posting, [money.text(currency, one) for one in link.entries], meta
    )


def balanced(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries without those of zero. Raises ``Unbalanced`` unless each currency sums to zero,
    ``UnknownAccount``, ``MoneyOverflow`` for an amount out of range, and ``MalformedOperation`` for
    too many accounts.
    """
    kept = tuple([entry for entry in entries if entry.amount])
    sums: dict[str, int] = {}
    for entry in kept:
        amount, currency = entry.amount, chart(entry.account).currency
        if type(amount) is not int or not money.LEAST <= amount <= money.MOST:
            money.checked(amount)
        sums[currency] = sums.get(currency, 0) + amount
    off = [f"{currency} by {total}" for currency, total in sums.items() if total]
    if off or not kept:
        raise Unbalanced(f"entries do not balance: {', '.join(off) or 'there are none'}")
    if len(kept) > MOST_ACCOUNTS and len({entry.account for entry in kept}) > MOST_ACCOUNTS:
        raise MalformedOperation(
            f"a posting touches at most {MOST_ACCOUNTS} accounts: make several"
        )
    return kept


def verified(record: PostingRecord) -> PostingRecord:
    """The posting, when it still hashes to its links and balances. Raises ``ChainBroken``."""
    sums: dict[str, int] = {}
    for link in record.links:
        if link.posting != record.id or sum(link.entries) != link.amount:
            raise ChainBroken(f"posting {record.id}: the entries of {link.account} were altered")
        if hash_of(link, record.meta) != link.hash:
            raise ChainBroken(f"posting {record.id} was altered: see its link of {link.account}")
        currency = chart(link.account).currency
        sums[currency] = sums.get(currency, 0) + link.amount
    if not sums or any(sums.values()):
        raise ChainBroken(f"posting {record.id} does not balance any more")
    return record


def _checked(value: object, path: str, depth: int) -> None:
    if depth > DEEPEST:
        raise MalformedOperation(f"{path} is nested deeper than {DEEPEST} levels")
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _written(value, path)
    elif isinstance(value, int):
        if abs(value) > SAFE:
            raise MalformedOperation(f"{path}: {value} is not exact everywhere, write it as text")
    elif isinstance(value, Mapping):
        _checked_object(value, path, depth)
    elif isinstance(value, list | tuple):
        for part in value:
            _checked(part, f"{path}[]"[:200], depth + 1)
    else:
        raise MalformedOperation(
            f"{path}: metadata holds texts, whole numbers, true, false, null, lists and objects, "
            f"not {type(value).__name__}; amounts go as text, such as CREDIT:12.34"
        )


def _checked_object(value: Mapping[Any, object], path: str, depth: int) -> None:
    for key, part in value.items():
        if not isinstance(key, str):
            raise MalformedOperation(f"{path}: keys are texts, not {type(key).__name__}")
        _written(key, path)
        _checked(part, f"{path}.{key}"[:200], depth + 1)


def _written(text: str, path: str) -> None:
    """Refuse what not every database can keep: half a surrogate pair, and the character NUL."""
    if text.isascii():
        valid = "\0" not in text
    else:
        valid = "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)
    if not valid:
        raise MalformedOperation(f"{path}: {text!r} is not a valid text"[:300])
