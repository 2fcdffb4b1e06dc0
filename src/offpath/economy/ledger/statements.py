"""Statements of accounts of which the oldest postings were archived and removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from offpath.economy.ledger.standings import standings_of

if TYPE_CHECKING:
    from offpath.model.ledger.posting import LinkRecord
    from offpath.store.ledger import LedgerReads


class ArchivedLines(Struct, frozen=True, kw_only=True):
    """The part of a statement that is in an archive."""

    number: int
    """The number of its last line: this one and those before it are in the archive."""
    until: datetime
    """The time of the last posting that the archive has."""
    file: str
    """The name of the archive's file. It names the archive before it, if there is one."""


async def archived_lines(reads: LedgerReads, account: str) -> ArchivedLines | None:
    """The part of an account's statement that was archived; None: all of it is in the ledger."""
    trims = await reads.ledger_trims()
    standing = (await standings_of(reads, [account])).get(account) if trims else None
    if standing is None:
        return None
    until = datetime.fromtimestamp(trims[0].until / 1_000, UTC)
    return ArchivedLines(number=standing.number, until=until, file=trims[0].file)


def reached(archived: ArchivedLines | None, links: Sequence[LinkRecord]) -> ArchivedLines | None:
    """The same on a page that reaches it, or lies behind it."""
    if archived is None or (links and links[-1].number > archived.number):
        return None
    return archived


async def facts_of(reads: LedgerReads, links: Sequence[LinkRecord]) -> dict[str, dict[str, Any]]:
    """The sealed metadata of one account's links, by posting. That of the link from which a trimmed
    chain goes on is there, and its posting is not.
    """
    ids = list(dict.fromkeys(link.posting for link in links))
    known = await reads.ledger_postings(ids=ids, limit=len(ids)) if ids else []
    found = {one.id: one.facts for one in known}
    bare = [link.number for link in links if link.posting not in found]
    if bare:
        pairs = await reads.ledger_tails([(links[0].account, min(bare) - 1, max(bare))])
        found |= {
            link.posting: msgspec.json.decode(meta)
            for link, meta in pairs
            if link.posting not in found
        }
    return found
