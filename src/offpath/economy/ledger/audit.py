"""The audit of an economy: what was found, what was done about it, and who ended it.

Each record is a posting that moves nothing: a credit and a debit of the smallest amount on one
account of the platform. So the records are that account's hash chain, in the order in which they
were made: checkpoints sign it, an anchor keeps it, the prover and ``verify --offline`` replay it,
and nobody can alter or remove one unseen, as little as any other posting.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt

if TYPE_CHECKING:
    from offpath.model.ledger.book import Book
    from offpath.model.ledger.posting import LinkRecord, PostingRecord
    from offpath.store.ledger import LedgerReads, LedgerStore

ACCOUNT: Final = "platform:netting_clearing"
"""The account whose chain the audit is. Nothing else posts to it, and its balance is always 0."""
KEYS: Final = "audit:"
"""The beginning of the keys of its records."""
KIND: Final = "audit"
MOST: Final = 500
"""The newest records by which containment decides."""
_LONGEST: Final = 2_000


class Phase(StrEnum):
    """The steps from a finding to its end."""

    DETECTED = "detected"
    ACTED = "acted"
    """Something was done about it by rule; the detail says what."""
    ESCALATED = "escalated"
    """Nothing is done by rule (any more): people must look."""
    RELEASED = "released"
    """Somebody had what rested go on."""
    ENDED = "ended"
    """It is not so any more, or somebody accepted it."""

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


class AuditRecord(Struct, frozen=True, kw_only=True):
    """One record of the audit."""

    number: int
    """1 for the first, then without a gap."""
    at: datetime
    phase: Phase
    subject: str
    """The name of a finding, ``inbox``, or a lever."""
    detail: str
    episode: str
    """The id of the finding that it is about; of what has none, its subject."""
    by: str
    """The rule, or the person."""
    posting: str
    hash: str
    """The hash of its link, which follows the one before."""


class NewRecord(Struct, frozen=True, kw_only=True):
    """A record to make."""

    phase: Phase
    subject: str
    detail: str
    episode: str
    by: str
    turn: int = 0
    """The time of the same phase of the same episode: of one there is one record."""


def audited(record: NewRecord, new_id: str) -> LedgerOp:
    """The operation that makes a record, once."""
    meta = {
        "kind": KIND,
        "phase": record.phase.value,
        "subject": record.subject,
        "detail": record.detail[:_LONGEST],
        "episode": record.episode,
        "by": record.by,
    }
    entries = (Entry(ACCOUNT, 1), Entry(ACCOUNT, -1))

    def decide(book: Book) -> Receipt:
        made = book.post(NewPosting(id=new_id, entries=entries, meta=meta))
        return Receipt(id=made.id, postings=(made.id,))

    name = f"{KEYS}{record.phase}:{record.episode}:{record.turn}"
    return LedgerOp(decide=decide, needs=Needs(accounts=frozenset((ACCOUNT,))), key=name)


async def record(store: LedgerStore, given: NewRecord, new_id: str) -> bool:
    """Make a record in a transaction of its own. False: it was there. Raises ledger faults."""
    (decided,) = await store.post([audited(given, new_id)])
    if decided.error is not None:
        raise decided.error
    return not decided.duplicate


async def trail(reads: LedgerReads, *, before: int = 0, limit: int = MOST) -> list[AuditRecord]:
    """The records, the newest first; with ``before`` those of a lower number."""
    links = await reads.ledger_links(ACCOUNT, after=before, limit=limit, newest=True)
    if not links:
        return []
    postings = await reads.ledger_postings(ids=[one.posting for one in links], limit=len(links))
    known = {one.id: one for one in postings}
    found = [_read(link, known.get(link.posting)) for link in links]
    return [one for one in found if one is not None]


def _read(link: LinkRecord, posting: PostingRecord | None) -> AuditRecord | None:
    facts = {} if posting is None else posting.facts
    if facts.get("kind") != KIND or facts.get("phase") not in set(Phase):
        return None  # a posting of somebody's own
    return AuditRecord(
        number=link.number,
        at=datetime.fromtimestamp(link.at / 1_000, UTC),
        phase=Phase(facts["phase"]),
        subject=str(facts.get("subject")),
        detail=str(facts.get("detail")),
        episode=str(facts.get("episode")),
        by=str(facts.get("by")),
        posting=link.posting,
        hash=link.hash,
    )


def of_subject(
    records: Sequence[AuditRecord], subject: str, phase: Phase | None = None
) -> list[AuditRecord]:
    """The records of a subject, the newest first, back to its last end."""
    found: list[AuditRecord] = []
    for one in records:
        if one.subject != subject:
            continue
        if one.phase is Phase.ENDED and phase is not Phase.ENDED:
            break
        if phase is None or one.phase is phase:
            found.append(one)
    return found
