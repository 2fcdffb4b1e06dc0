"""Trims: removals of archived postings, and what is kept of the postings that they removed."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from offpath.model.ledger.faults import Archived
from offpath.model.ledger.posting import PostingRecord, canonical

WHOLE: Final = "platform:netting_clearing"
"""The account whose chain is never shortened: it is the audit, by which containment decides."""
_DOMAIN: Final = "offpath.ledger.trim.v1"


class Trim(Struct, frozen=True, kw_only=True):
    """A removal of archived postings: up to which one, by which archive. It is signed."""

    number: int
    """From 1; each goes on from the one before."""
    checkpoint: str
    """The id of the checkpoint that the archive ends with."""
    posting: int
    """The number of the last posting that the checkpoint covers."""
    until: int
    """The time of that posting, in milliseconds: what is older was archived."""
    at: int
    """The time when it was begun."""
    file: str
    """The name of the archive's file."""
    archive: str
    """The hash of the archive's lines, as its last line has it."""
    kept: str
    """The hash of the postings that are kept whole, since rows that are open name them."""
    kid: str
    signature: str
    done: int = 0
    """The number of the last posting that was looked at: from ``posting`` on it is finished."""
    postings: int = 0
    """Postings that are removed."""
    links: int = 0
    """Links that are removed."""
    moved: int | None = None
    """The time of its last step, in milliseconds; None before the first."""

    @property
    def finished(self) -> bool:
        """True if nothing is left to remove."""
        return self.done >= self.posting

    @property
    def untouched(self) -> bool:
        """True if it was begun and nothing was removed: the ledger has all that its archive has."""
        return self.done == 0


class Retired(Struct, frozen=True, kw_only=True, gc=False):
    """The id of a posting that a trim removed: it is never used again."""

    id: str
    trim: int
    file: str
    """The name of the archive that has it."""
    posting: PostingRecord | None = None
    """The whole posting, where a row that was open named it."""


def manifest(trim: Trim) -> bytes:
    """The bytes that a trim's signature is over: all but how far it has come."""
    return canonical(
        {
            "domain": _DOMAIN,
            "number": trim.number,
            "checkpoint": trim.checkpoint,
            "posting": trim.posting,
            "until": trim.until,
            "at": trim.at,
            "file": trim.file,
            "archive": trim.archive,
            "kept": trim.kept,
            "kid": trim.kid,
        }
    ).encode()


def archived(gone: Retired) -> Archived:
    """The fault of asking for a posting that was archived and removed."""
    return Archived(
        f"posting {gone.id} was archived and removed from the ledger: it is in {gone.file}"
    )
