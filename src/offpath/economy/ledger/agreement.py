"""The comparison of the rows beside the postings with the postings, and the reverse.

Rows are not hashed. Each names the posting that made it, so each can be compared with what was
sealed; and each posting that makes a row can be asked for it, so that one that is gone is missed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from offpath.economy.ledger import chains
from offpath.economy.ledger.anchors import (
    GIVE_BACK,
    proved_payout,
    proved_promo,
    proved_sale,
    proved_subscription,
)
from offpath.model.ledger import money
from offpath.model.ledger.chart import PAYOUT_RESERVE
from offpath.model.ledger.faults import ChainBroken, LedgerError
from offpath.model.ledger.posting import LinkRecord, PostingRecord, verified
from offpath.model.ledger.records import DUE_STATES, OPEN_PAYOUTS, AccountRecord, SideKey, SideRow
from offpath.model.ledger.requested import END, REQUEST, Requested, request_in

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads

_PROMO: Final = ":promo"
_OWED: Final = ":owed"
_COVERING: Final = ("OPEN", "DEAD")
"""Grants whose credits may still be in a wallet: one that was given up leaves them there."""
NEEDED: Final = {**DUE_STATES, "promo": _COVERING}
"""By kind the states in which a row needs the posting that made it: a trim keeps that whole."""
_PROVED: Final[dict[str, Callable[[SideRow, PostingRecord | None], object]]] = {
    "payout": proved_payout,
    "subscription": proved_subscription,
    "promo": proved_promo,
    "sale": proved_sale,
}
_MADE_BY: Final = {
    REQUEST: ("payout", "sagaId"),
    "subscribe": ("subscription", "subscriptionId"),
    "spend": ("sale", "orderId"),
}
"""By a posting's kind: the kind of the row that it makes, and what its metadata names it by."""
_ENDED_AS: Final = {
    "settlePayout": "SETTLED",
    "reversePayout": "FAILED",
    "payouts.dead_letter": "FAILED",
}
"""The state of a payout after a posting of this kind has ended it."""


class Heard:
    """Facts that are kept of the chains while they are replayed: open payouts, and debts."""

    def __init__(self) -> None:
        self.open: dict[str, Requested] = {}
        """Payouts that were asked for and have no end."""
        self.reserved = 0
        """The balance in the row of the reserve."""
        self.debts: dict[str, int] = {}
        """The debts of users by the postings, in credit minor units, by account."""
        self.owed: dict[str, int] = {}
        """The same by the rows of these accounts."""
        self.unlike: list[str] = []
        """Debts that are not what the posting that made them says, one line each."""

    @property
    def requested(self) -> int:
        """The cost of open payouts, in USD minor units."""
        return sum(one.quote for one in self.open.values())

    def link(self, link: LinkRecord, meta: str) -> None:
        """The next link of a chain, in its order."""
        if link.account.endswith(_OWED):
            self._debt(link, meta)
        if link.account != PAYOUT_RESERVE:
            return
        asked = request_in(_facts(meta), -link.amount)
        if asked is not None:
            self.open[asked.payout] = asked
            return
        known = self.open.get(link.posting.removesuffix(END))
        if known is not None and (known.payout + END, known.reserve) == (link.posting, link.amount):
            del self.open[known.payout]

    def account(self, account: AccountRecord) -> None:
        """The row of an account."""
        if account.id == PAYOUT_RESERVE:
            self.reserved = account.balance
        elif account.id.endswith(_OWED):
            self.owed[account.id] = account.balance

    def _debt(self, link: LinkRecord, meta: str) -> None:
        """Add up a debt, which a debit raises, and compare a clawback's with what it sealed.

        A chain that was trimmed goes on from what its first link says: it was signed.
        """
        before = link.balance - link.amount if link.number > 1 else 0
        self.debts[link.account] = self.debts.get(link.account, before) + link.amount
        facts = _facts(meta)
        if facts.get("kind") != "clawback":
            return
        user, amount = link.account.removesuffix(_OWED), money.text("CREDIT", link.amount)
        sealed = (facts.get("userId"), facts.get("receivable"))
        if sealed != (user, amount) and len(self.unlike) < chains.PAGE:
            self.unlike.append(
                f"posting {link.posting}: it makes {user} owe {amount}, and says that "
                f"{sealed[0]} owes {sealed[1]}"
            )


async def disagreements(reads: LedgerReads, heard: Heard) -> AsyncIterator[str]:
    """Rows and postings that do not agree, as lines for people."""
    reserved = sum(one.reserve for one in heard.open.values())
    if heard.reserved != reserved:
        held, wanted = (money.text("CREDIT", one) for one in (heard.reserved, reserved))
        yield f"{PAYOUT_RESERVE}: it holds {held}, open payouts reserve {wanted}"
    for line in (*heard.unlike, *_debts(heard)):
        yield line
    for posting in await reads.ledger_bare(limit=chains.PAGE):
        yield f"posting {posting}: it has no links"
    for kind in _PROVED:
        async for line in _altered(reads, kind):
            yield line
    async for line in _missing(reads):
        yield line
    async for line in _uncovered(reads):
        yield line


def _debts(heard: Heard) -> Iterator[str]:
    """Debts of which the account's row says something else than the postings, or is gone."""
    for account in sorted(heard.debts.keys() | heard.owed.keys()):
        told, posted = heard.owed.get(account), heard.debts.get(account, 0)
        if told is None:
            yield f"{account}: it is gone, and {money.text('CREDIT', posted)} is owed by postings"
        elif told != posted:
            row, sum_ = money.text("CREDIT", told), money.text("CREDIT", posted)
            yield f"{account}: its row says that {row} is owed, the postings {sum_}"


async def _altered(reads: LedgerReads, kind: str) -> AsyncIterator[str]:
    """Rows of a kind that say something else than the postings that made and ended them."""
    after = ""
    while rows := await reads.ledger_sides(kind, after=after, limit=chains.PAGE):
        wanted = {row.anchor or "" for row in rows}
        wanted |= {row.id + END for row in rows if kind == "payout"}
        found = await reads.ledger_postings(ids=sorted(wanted), limit=len(wanted))
        postings = {posting.id: posting for posting in found}
        missing = sorted(wanted - postings.keys())
        gone = await reads.ledger_retired(ids=missing, limit=len(missing)) if missing else []
        archived = {one.id for one in gone}
        for row in rows:
            if (line := _compared(row, postings, archived)) is not None:
                yield line
        after = rows[-1].id


def _compared(
    row: SideRow, postings: Mapping[str, PostingRecord], archived: Collection[str]
) -> str | None:
    """The contradiction of a row to its postings. What was archived is compared with the archive;
    here it is known that a row which is open has all of its postings.
    """
    try:
        if (row.anchor or "") in archived:
            _ended(row)
        else:
            made = postings.get(row.anchor or "")
            _PROVED[row.kind](row, None if made is None else verified(made))
        if row.kind == "payout" and row.id + END not in archived:
            _ended_alike(row, postings.get(row.id + END))
    except LedgerError as error:
        return str(error).removesuffix("; nothing was moved")
    return None


def _ended(row: SideRow) -> None:
    """Raise ``ChainBroken`` for a row that is open, or was, when its posting was archived."""
    if row.state in NEEDED.get(row.kind, ()):
        raise ChainBroken(
            f"the {row.kind} {row.id} was altered: it is {row.state}, and the posting that made it "
            "was archived, which those of open rows are not"
        )


def _ended_alike(row: SideRow, end: PostingRecord | None) -> None:
    facts = {} if end is None or not end.links else end.facts
    ended = _ENDED_AS.get(str(facts.get("kind")))
    is_open = row.state in OPEN_PAYOUTS
    if row.state != ended if ended is not None else not is_open:
        says = "no posting ended it" if ended is None else f"its end is {ended}"
        raise ChainBroken(f"the payout {row.id} was altered: it is {row.state}, and {says}")


async def _missing(reads: LedgerReads) -> AsyncIterator[str]:
    """Rows that postings made and that are not there."""
    after = 0
    while page := await reads.ledger_postings(after=after, limit=chains.PAGE):
        made = [(key, one) for one in page if (key := _made(one)) is not None]
        known = await _there(reads, [key for key, _ in made])
        for key, posting in made:
            if key not in known:
                yield f"the {key.kind} {key.name} is gone: posting {posting.id} made it"
        after = page[-1].seq


async def _there(reads: LedgerReads, keys: Sequence[SideKey]) -> set[SideKey]:
    found: set[SideKey] = set()
    for kind in sorted({key.kind for key in keys}):
        ids = [key.name for key in keys if key.kind == kind]
        rows = await reads.ledger_sides(kind, ids=ids, limit=len(ids))
        found |= {row.key for row in rows}
    return found


def _made(posting: PostingRecord) -> SideKey | None:
    """The row that a posting made, if it made one that is proved."""
    facts = _facts(posting.meta)
    kind = facts.get("kind")
    if kind == "grantPromo" or (kind in GIVE_BACK and isinstance(facts.get("promoGrant"), dict)):
        return SideKey("promo", posting.id)
    side, named = _MADE_BY.get(str(kind), ("", ""))
    name = facts.get(named)
    return SideKey(side, name) if side and isinstance(name, str) else None


async def _uncovered(reads: LedgerReads) -> AsyncIterator[str]:
    """Wallets that hold more promo credits than grants that are open gave."""
    async for account in chains.all_accounts(reads):
        if not account.id.endswith(_PROMO) or account.balance <= 0:
            continue
        user = account.id.removesuffix(_PROMO)
        granted = sum([row.amount or 0 async for row in _grants(reads, user)])
        if account.balance > granted:
            held, given = (money.text("CREDIT", one) for one in (account.balance, granted))
            yield f"{account.id}: it holds {held}, grants that are open gave {given}"


async def _grants(reads: LedgerReads, user: str) -> AsyncIterator[SideRow]:
    after = ""
    while rows := await reads.ledger_sides(
        "promo", owner=user, states=_COVERING, after=after, limit=chains.PAGE
    ):
        for row in rows:
            yield row
        after = rows[-1].id


def _facts(meta: str) -> dict[str, Any]:
    """The metadata; what was altered beyond reading says nothing here, and its link is named."""
    try:
        found = msgspec.json.decode(meta)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
