"""The prover: whether the books hold, from what is stored alone.

The light form reads the accounts; the full one also replays every chain from its genesis and sums
every entry, page by page, so that its memory does not grow with the ledger. Both see one moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.economy.ledger.agreement import Heard, disagreements
from offpath.economy.ledger.chains import (
    BROKEN_LINK,
    UNKNOWN,
    WRONG_BALANCE,
    WRONG_CHART,
    Break,
    all_accounts,
    replay,
)
from offpath.economy.ledger.obligations import Position, position
from offpath.model.ledger import money
from offpath.model.ledger.chart import Chart, chart
from offpath.model.ledger.faults import UnknownAccount
from offpath.model.ledger.rates import Rates
from offpath.model.ledger.records import AccountRecord, Totals

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerReads, LedgerStore

MOST_DRIFT = 100
MOST_WRONG = 100
_HEAD = 64


class Drift(Struct, frozen=True, kw_only=True):
    """An account whose cached balance is not the sum of its entries, in minor units."""

    account: str
    cached: int
    summed: int


class Proof(Struct, frozen=True, kw_only=True):
    """The result of a proof of a ledger."""

    conserved: bool
    """All entries sum to zero in each currency."""
    backed: bool
    """The platform's cash covers what it owes."""
    no_overdraft: bool
    """No guarded account is below zero."""
    chain_intact: bool
    consistent: bool
    """Each cached balance is the sum of its entries, also of accounts without any."""
    position: Position
    full: bool
    """True if every chain was replayed; otherwise only the heads' form was looked at."""
    rows: bool = True
    """Every row beside the postings says what the postings say, and every posting that makes a row
    has it; what is reserved is what open payouts reserve, what users owe is what postings made
    them owe, and no wallet holds more promo credits than open grants gave. If not ``full``, only
    what open payouts cost is compared.
    """
    drift: tuple[Drift, ...] = ()
    """At most 100."""
    overdrawn: tuple[str, ...] = ()
    """At most 100."""
    broken: Break | None = None
    """The first break, by account."""
    wrong: tuple[str, ...] = ()
    """Wrong facts in rows; at most 100."""
    accounts: int = 0
    links: int = 0
    """The number that were replayed."""

    @property
    def holds(self) -> bool:
        """True if all of it is as it should be."""
        return (
            self.conserved
            and self.backed
            and self.no_overdraft
            and self.chain_intact
            and self.consistent
            and self.rows
        )

    @property
    def shortfall(self) -> int:
        """The cash that is missing of what is owed, in USD minor units."""
        return self.position.shortfall


def fails(proof: Proof) -> dict[str, int]:
    """The number of things that a proof found wrong, by name."""
    found = {
        "not_conserved": int(not proof.conserved),
        "not_backed": int(not proof.backed),
        "chains_broken": int(not proof.chain_intact),
        "overdrawn": max(len(proof.overdrawn), int(not proof.no_overdraft)),
        "balances_drift": max(len(proof.drift), int(not proof.consistent)),
        "rows_contradict_postings": max(len(proof.wrong), int(not proof.rows)),
    }
    return {name: count for name, count in found.items() if count}


async def prove(store: LedgerStore, rates: Rates, *, full: bool = True) -> Proof:
    """Prove the ledger as it is at this moment."""
    async with store.ledger_snapshot() as reads:
        totals = await reads.ledger_totals()
        run = _Run(totals.requested)
        await (run.replay(reads) if full else run.look(reads))
    sums = Totals(balances=run.balances, quotes=totals.quotes, requested=run.requested)
    stand = position(sums, rates)
    if sums.quotes != sums.requested:
        run.tell(
            f"payouts: open rows say that {_usd(sums.quotes)} is owed, postings that asked for "
            f"payouts and have no end {_usd(sums.requested)}"
        )
    return Proof(
        conserved=not any(run.sums.values()),
        backed=stand.shortfall == 0,
        no_overdraft=not run.overdrawn,
        chain_intact=run.broken is None,
        consistent=not run.drift,
        rows=not run.wrong,
        position=stand,
        full=full,
        drift=tuple(run.drift),
        overdrawn=tuple(run.overdrawn),
        broken=run.broken,
        wrong=tuple(run.wrong),
        accounts=run.accounts,
        links=run.links,
    )


class _Run:
    """One pass over all accounts. It sums by itself: what a database keeps of an account besides
    may be tampered with.
    """

    def __init__(self, requested: int) -> None:
        self.requested = requested
        """The cost of open payouts by the postings, in USD minor units."""
        self.wrong: list[str] = []
        self._heard = Heard()
        self.accounts = 0
        self.links = 0
        self.sums: dict[str, int] = {}
        self.balances: dict[str, int] = {}
        self.drift: list[Drift] = []
        self.overdrawn: list[str] = []
        self.broken: Break | None = None

    async def look(self, reads: LedgerReads) -> None:
        """Read the accounts only; the store sums their entries."""
        self.sums = await reads.ledger_sums()
        async for account in all_accounts(reads):
            known = self._account(account)
            if known is None:
                self._break(Break(account=account.id, reason=UNKNOWN))
            elif not account.charted:
                self._break(Break(account=account.id, reason=WRONG_CHART))
            elif account.number < 1 or len(account.head) != _HEAD:
                self._break(Break(account=account.id, reason=BROKEN_LINK))

    async def replay(self, reads: LedgerReads) -> None:
        """Replay each chain beside its account."""
        async for done in replay(reads, sealed=False, heed=self._heard.link):
            self.links += done.links
            known = _known(done.name)
            if known is not None:
                self.sums[known.currency] = self.sums.get(known.currency, 0) + done.sum
            # A cached balance that is wrong is drift: the chain itself may be whole.
            if done.found is not None and not _is_drift(done.found):
                self._break(done.found)
            account = done.side.account
            if account is not None and self._account(account) is not None:
                self._compare(account, done.sum)
        self.requested = self._heard.requested
        async for line in disagreements(reads, self._heard):
            self.tell(line)

    def tell(self, wrong: str) -> None:
        """Note what a row says wrongly."""
        if len(self.wrong) < MOST_WRONG:
            self.wrong.append(wrong)

    def _compare(self, account: AccountRecord, total: int) -> None:
        summed = chart(account.id).change(total)
        if account.balance != summed and len(self.drift) < MOST_DRIFT:
            self.drift.append(Drift(account=account.id, cached=account.balance, summed=summed))

    def _account(self, account: AccountRecord) -> Chart | None:
        self.accounts += 1
        self._heard.account(account)
        known = _known(account.id)
        if known is not None:
            self.balances[known.kind] = self.balances.get(known.kind, 0) + account.balance
            if known.guarded and account.balance < 0 and len(self.overdrawn) < MOST_DRIFT:
                self.overdrawn.append(account.id)
        return known

    def _break(self, found: Break) -> None:
        if self.broken is None:
            self.broken = found


def _is_drift(found: Break) -> bool:
    """Of the account, and of none of its links."""
    return found.reason == WRONG_BALANCE and found.posting is None


def _usd(minor: int) -> str:
    return money.text("USD", minor)


def _known(account: str) -> Chart | None:
    try:
        return chart(account)
    except UnknownAccount:
        return None
