"""The operations of a campaign, done once more: one after the other, in memory.

Each operation that posted is decided again in the order of the postings, at the time at which it
was posted, with the ids that it had then; so is each step of a sweep that posted. What posts
nothing has no place in that order: that a payout was handed to the provider, that a subscription
ended, that a promo expired of which nothing was left. It is done as soon as something that posted
needs it to have been done. Everything else, heads and all, must come out as it was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

from offpath import App
from offpath.economy import (
    CancelSubscription,
    Committed,
    Money,
    Outcome,
    Receipt,
    Rejected,
    Request,
    SettlePayout,
    Subscribe,
)
from offpath.economy.ledger.merkle import root_of
from offpath.economy.ledger.operations.steps_fees import fees_swept
from offpath.economy.ledger.operations.steps_payouts import payout_dead_lettered, payout_submitted
from offpath.economy.ledger.operations.steps_promos import promo_expired
from offpath.economy.ledger.operations.steps_subscriptions import (
    subscription_failed,
    subscription_renewed,
)
from offpath.economy.ledger.outcome import outcome_of
from offpath.economy.ledger.rows import subscription_holder
from offpath.model.ledger.chart import promo
from offpath.model.ledger.decision import LedgerOp, raised_by
from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import Entry, NewPosting, PostingRecord
from offpath.model.ledger.records import AccountRecord, Leaf, SideRow
from offpath.runtime.clock import ManualClock
from offpath.store.memory.store import MemoryStore
from tests.integration.economy_member import economy_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Made(NamedTuple):
    """An operation that was committed, and what came of it."""

    request: Request
    receipt: Receipt


class Ids:
    """The ids of one plan, from its first one on; see ``economy_member.Ids``."""

    def __init__(self) -> None:
        self._prefix, self._number = "later", 0
        self._others = count(step=10)

    def begin(self, *postings: str) -> None:
        """Go on from the first that was made for it. The end of a payout is named after it, and
        what pays debts after what brought it in.
        """
        made = (one for one in postings if not one.endswith((":end", ":net")))
        first = next(made, f"later-{next(self._others)}")
        self._prefix, _, number = first.rpartition("-")
        self._number = int(number)

    @property
    def now(self) -> int | None:
        """By which time a sweep decided."""
        at = self._prefix.partition("@")[2]
        return int(at) if at else None

    def __call__(self) -> str:
        made = f"{self._prefix}-{self._number}"
        self._number += 1
        return made


class Replay:
    """An economy in memory on which a campaign is done again."""

    def __init__(
        self,
        made: Sequence[Made],
        promos: Sequence[SideRow],
        returns: Mapping[str, str],
    ) -> None:
        """``promos`` are the grants that have ended; ``returns`` are the ids of the events that
        tell of payouts given back, by posting.
        """
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.ids = Ids()
        app = App(store=self.store, clock=self.clock, auto_start=False)
        self.economy = economy_of(app, None, self.ids)
        self._by_posting = {one.receipt.postings[0]: one for one in made if one.receipt.postings}
        self._ends = {
            one.request.subscription_id: one
            for one in made
            if isinstance(one.request, CancelSubscription)
        }
        self._promos = promos
        self._returns = returns
        self._spent: dict[str, list[SideRow]] = {}
        """By wallet the grants that ended when nothing was left of them, the first one last."""
        self.steps: Counter[str] = Counter()
        """The number of steps of sweeps that were done again, by what they posted."""
        self.roots: set[str] = set()
        """The roots that there were, one after each operation."""

    async def run(self, postings: Sequence[PostingRecord]) -> None:
        """Do it all again. Raises AssertionError where it first comes out differently."""
        await self.economy.app.open()
        self._spent = _spent(self._promos, postings)
        place = 0
        while place < len(postings):
            first = postings[place]
            self.clock.set(EPOCH + timedelta(milliseconds=first.at))
            await self._expired(first)
            made = await self._again(first)
            again = await self.store.ledger_postings(after=place, limit=10)
            assert [one.id for one in again] == list(made), (first, again)
            for old, new in zip(postings[place:], again, strict=False):
                assert (new.meta, new.at, new.links) == (old.meta, old.at, old.links), (old, new)
            place += len(made)
            self.roots.add(root(await self.store.ledger_accounts(limit=10_000)))

    async def _again(self, first: PostingRecord) -> tuple[str, ...]:
        known = self._by_posting.pop(first.id, None)
        made = (first.id,) if known is None else known.receipt.postings
        self.ids.begin(*made)
        if known is None:
            meta = json.loads(first.meta)
            self.steps[meta["kind"]] += 1
            return (await self._step(first, meta)).postings
        receipt = await self._asked(known.request, made)
        assert receipt == known.receipt
        return receipt.postings

    async def _asked(self, request: Request, made: Sequence[str]) -> Receipt:
        if isinstance(request, SettlePayout):
            await self._handed_over(request.payout_id)
            self.ids.begin(*made)
        outcome = await self._submitted(request)
        if isinstance(request, Subscribe) and isinstance(outcome, Rejected):
            assert outcome.reason == "ALREADY_SUBSCRIBED", (request, outcome)
            await self._ended(subscription_holder(request.user, request.seller, request.sku))
            self.ids.begin(*made)
            outcome = await self._submitted(request)
        assert isinstance(outcome, Committed), (request, outcome)
        return outcome.receipt

    async def _submitted(self, request: Request) -> Outcome:
        """Planned once, with all that it looks for: the plan that was committed begins with the
        first of its ids, and a plan before it took others.
        """
        return outcome_of(await self.economy.run_op(await self.economy.prepare(request)))

    # -- what a sweep did ------------------------------------------------------------------------

    async def _step(self, posting: PostingRecord, meta: Mapping[str, Any]) -> Receipt:
        economy, now = self.economy, self.ids.now
        match meta["kind"]:
            case "payouts.dead_letter":
                return await self._given_up(posting, meta)
            case "subscriptions.renew":
                row = await self._row("subscription", meta["subscriptionId"])
                return await self._done(subscription_renewed(row, economy.rules, self.ids, now=now))
            case "promos.expiry":
                row = await self._row("promo", meta["grantId"])
                return await self._done(promo_expired(row, self.ids, now=now))
            case "fees.sweep":
                minor = next(one.amount for one in posting.entries if one.amount > 0)
                amount = Money.parse(f"CREDIT:{minor // 100}.{minor % 100:02d}")
                key = f"fees:{now}"
                return await self._done(
                    fees_swept(key, economy.rules, self.ids, amount=amount, now=now)
                )
            case other:
                raise AssertionError(f"nobody asked for {posting.id}, a {other}")

    async def _given_up(self, posting: PostingRecord, meta: Mapping[str, Any]) -> Receipt:
        """Give a payout's credits back by the sweep's own time, which is in the id of its event.

        The posting's time is another one: credits that mature between the two wait at one only.
        """
        self.ids.begin(self._returns[posting.id])
        row = await self._row("payout", meta["sagaId"])
        return await self._done(
            payout_dead_lettered(
                row, meta["reason"], self.economy.rules, self.ids, now=self.ids.now
            )
        )

    async def _handed_over(self, payout: str) -> None:
        row = await self._row("payout", payout)
        if row.state == "RESERVED":
            await self._done(payout_submitted(row, "later", due_at=0))

    async def _ended(self, holder: str) -> None:
        """End the subscription that holds a key: as it was cancelled, or else it lapsed."""
        rows = await self.store.ledger_sides("subscription", states=("ACTIVE",), limit=10_000)
        (row,) = (one for one in rows if one.unique_key == holder)
        if (cancelled := self._ends.pop(row.id, None)) is not None:
            outcome = await self.economy.submit(cancelled.request)
            assert isinstance(outcome, Committed), outcome
        else:
            await self._done(subscription_failed(row, "ended", self.ids, most=0, due_at=0))

    async def _expired(self, posting: PostingRecord) -> None:
        """End the grants of who gets promo credits now, of which nothing was left before that."""
        for wallet in (one.account for one in posting.entries if one.amount < 0):
            ended = self._spent.get(wallet, [])
            while ended and ended[-1].touched_at <= posting.at:
                row = await self._row("promo", ended.pop().id)
                receipt = await self._done(promo_expired(row, self.ids, now=posting.at))
                assert receipt.postings == (), (posting, row)

    async def _row(self, kind: str, row_id: str) -> SideRow:
        (row,) = await self.store.ledger_sides(kind, ids=(row_id,))
        return row

    async def _done(self, op: LedgerOp) -> Receipt:
        return raised_by(await self.economy.run_op(op))


def _spent(
    promos: Sequence[SideRow], postings: Sequence[PostingRecord]
) -> dict[str, list[SideRow]]:
    told = [json.loads(one.meta) for one in postings]
    posted = {meta.get("grantId") or meta.get("reverses") for meta in told}
    found: dict[str, list[SideRow]] = {}
    for row in sorted(promos, key=lambda row: row.touched_at, reverse=True):
        if row.id not in posted:
            found.setdefault(promo(row.owner), []).append(row)
    return found


async def posted_again(postings: Sequence[PostingRecord]) -> list[AccountRecord]:
    """The accounts, when the very postings are posted in their order, whatever they were for."""
    clock = ManualClock()
    store = MemoryStore(clock)
    await store.open()
    for one in postings:
        clock.set(EPOCH + timedelta(milliseconds=one.at))
        entries = tuple(
            Entry(link.account, amount) for link in one.links for amount in link.entries
        )
        posting = NewPosting(id=one.id, entries=entries, meta=json.loads(one.meta))
        (decided,) = await store.post([posting_op(posting)])
        raised_by(decided)
    return await store.ledger_accounts(limit=10_000)


def root(accounts: Sequence[AccountRecord]) -> str:
    """The Merkle root of accounts that come by id."""
    leaves = (
        Leaf(account=one.id, number=one.number, head=one.head, sum=one.sum) for one in accounts
    )
    return root_of(leaves).hash
