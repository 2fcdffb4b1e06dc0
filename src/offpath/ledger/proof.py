"""The prover: whether the books hold, from what is stored alone.

The light form reads the accounts; the full one also replays every chain from its genesis and sums
every entry, page by page, so that its memory does not grow with the ledger. Both see one moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.ledger.chains import (
    BROKEN_LINK,
    WRONG_BALANCE,
    Break,
    ChainWalk,
    all_accounts,
    all_links,
)
from offpath.ledger.obligations import Position, position
from offpath.model.ledger.chart import chart
from offpath.model.ledger.posting import LinkRecord
from offpath.model.ledger.rates import Rates
from offpath.model.ledger.records import AccountRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from offpath.store.ledger import LedgerReads, LedgerStore

MOST_DRIFT = 100
_HEAD = 64


class Drift(Struct, frozen=True, kw_only=True):
    """An account whose cached balance is not the sum of its entries, in minor units."""

    account: str
    cached: int
    summed: int


class Proof(Struct, frozen=True, kw_only=True):
    """What was proved of a ledger."""

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
    """Whether every chain was replayed; else only the heads' form was looked at."""
    drift: tuple[Drift, ...] = ()
    """At most 100."""
    overdrawn: tuple[str, ...] = ()
    broken: Break | None = None
    """The first break, by account."""
    accounts: int = 0
    links: int = 0
    """How many were replayed."""

    @property
    def holds(self) -> bool:
        """Whether all of it is as it should be."""
        return (
            self.conserved
            and self.backed
            and self.no_overdraft
            and self.chain_intact
            and self.consistent
        )

    @property
    def shortfall(self) -> int:
        """What is missing of the cash that is owed, in USD minor units."""
        return self.position.shortfall


async def prove(store: LedgerStore, rates: Rates, *, full: bool = True) -> Proof:
    """Prove the ledger as it is at this moment."""
    async with store.ledger_snapshot() as reads:
        totals = await reads.ledger_totals()
        sums = await reads.ledger_sums()
        run = _Run()
        await (run.replay(reads) if full else run.look(reads))
    stand = position(totals, rates)
    return Proof(
        conserved=not any(sums.values()),
        backed=stand.shortfall == 0,
        no_overdraft=not run.overdrawn,
        chain_intact=run.broken is None,
        consistent=not run.drift,
        position=stand,
        full=full,
        drift=tuple(run.drift),
        overdrawn=tuple(run.overdrawn),
        broken=run.broken,
        accounts=run.accounts,
        links=run.links,
    )


class _Run:
    """One pass over all accounts."""

    def __init__(self) -> None:
        self.accounts = 0
        self.links = 0
        self.drift: list[Drift] = []
        self.overdrawn: list[str] = []
        self.broken: Break | None = None

    async def look(self, reads: LedgerReads) -> None:
        """Read the accounts only: their heads' form, and their last link's balance."""
        async for account in all_accounts(reads):
            self._account(account)
            if account.number < 1 or len(account.head) != _HEAD:
                self._break(Break(account=account.id, reason=BROKEN_LINK))

    async def replay(self, reads: LedgerReads) -> None:
        """Replay each chain beside its account; both come sorted by account."""
        links = all_links(reads)
        pending = await anext(links, None)
        async for account in all_accounts(reads):
            self._account(account)
            pending = await self._orphans(links, pending, account.id)
            pending = await self._chain(links, pending, account)
        await self._orphans(links, pending, None)

    async def _chain(
        self,
        links: AsyncIterator[tuple[LinkRecord, str]],
        pending: tuple[LinkRecord, str] | None,
        account: AccountRecord,
    ) -> tuple[LinkRecord, str] | None:
        walk, summed = ChainWalk(account.id), 0
        whole = True
        while pending is not None and pending[0].account == account.id:
            self.links += 1
            summed += sum(pending[0].entries)
            if whole and (found := walk.step(*pending)) is not None:
                self._break(found)
                whole = False
            pending = await anext(links, None)
        found = walk.end(account) if whole else None
        # A cached balance that is wrong is drift: the chain itself may be whole.
        if found is not None and found.reason != WRONG_BALANCE:
            self._break(found)
        if account.balance != chart(account.id).change(summed):
            self._drifted(account, chart(account.id).change(summed))
        return pending

    async def _orphans(
        self,
        links: AsyncIterator[tuple[LinkRecord, str]],
        pending: tuple[LinkRecord, str] | None,
        before: str | None,
    ) -> tuple[LinkRecord, str] | None:
        """Links whose account has vanished: those before the account that comes next."""
        while pending is not None and (before is None or pending[0].account < before):
            self._break(
                Break(account=pending[0].account, reason=BROKEN_LINK, posting=pending[0].posting)
            )
            pending = await anext(links, None)
        return pending

    def _account(self, account: AccountRecord) -> None:
        known = chart(account.id)
        self.accounts += 1
        if known.guarded and account.balance < 0:
            self.overdrawn.append(account.id)

    def _drifted(self, account: AccountRecord, summed: int) -> None:
        if len(self.drift) < MOST_DRIFT:
            self.drift.append(Drift(account=account.id, cached=account.balance, summed=summed))

    def _break(self, found: Break) -> None:
        if self.broken is None:
            self.broken = found
