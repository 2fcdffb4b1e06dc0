"""The trims of a ledger as its proofs see them: signed, and what they kept is what they signed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from offpath.economy.ledger.standings import PAGE, checkpoint_of
from offpath.model.ledger.faults import Archived
from offpath.model.ledger.trims import Retired, Trim, manifest

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads


class _Keys(Protocol):
    def verify(self, content: bytes, signature: str) -> bool:
        """True if one of the known keys made it."""
        ...


async def forged(reads: LedgerReads, keys: _Keys, *, full: bool) -> AsyncIterator[str]:
    """The faults of trims, as ``trim N: what``. With ``full`` also what each kept is looked at."""
    for one in reversed(await reads.ledger_trims()):
        if not signed(one, keys):
            yield f"trim {one.number}: signature"
        sealed = await checkpoint_of(reads, one.checkpoint)
        if sealed is None or sealed.posting != one.posting:
            yield f"trim {one.number}: checkpoint"
        if full and (await kept_hash(reads, one.number)).hash != one.kept:
            yield f"trim {one.number}: kept"


def signed(trim: Trim, keys: _Keys) -> bool:
    """True if one of the keys signed a trim."""
    try:
        return keys.verify(manifest(trim), trim.signature)
    except (ValueError, OverflowError):
        return False


class Kept(NamedTuple):
    """The postings that a trim keeps whole: a hash over them, by id, and their number."""

    hash: str
    number: int


async def kept_hash(reads: LedgerReads, trim: int) -> Kept:
    """The postings that a trim keeps whole, as they are signed."""
    found, after, count = sha256(), "", 0
    while page := await reads.ledger_retired(trim=trim, after=after, limit=PAGE):
        for one in page:
            found.update(_line(one))
        after, count = page[-1].id, count + len(page)
    return Kept(found.hexdigest(), count)


async def whole_since(reads: LedgerReads, since: int, what: str) -> None:
    """Raise ``Archived`` if postings from a time (ms) on were archived and removed."""
    trims = await reads.ledger_trims()
    if trims and since <= trims[0].until:
        until = datetime.fromtimestamp(trims[0].until / 1_000, UTC)
        raise Archived(
            f"{what}: postings up to {until.isoformat(timespec='seconds')} were archived and "
            f"removed from the ledger; they are in {files(trims)}"
        )


def files(trims: list[Trim]) -> str:
    """The names of the archives, the latest first: the first three of them."""
    names = [one.file for one in trims]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} before" if len(names) > 3 else "")  # noqa: PLR2004 - as said


def _line(one: Retired) -> bytes:
    return msgspec.json.encode([one.id, one.posting]) + b"\n"
