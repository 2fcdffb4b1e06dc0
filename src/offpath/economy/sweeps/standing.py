"""Findings of the sweeps about the books, kept in the store, and what rests while it stands."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from offpath.economy.ledger.levers import Lever, resting
from offpath.economy.ledger.mismatches import (
    BREACH,
    DRIFT,
    UNEXPLAINED,
    UNPAID,
    UNTRIMMED,
    hint,
    mismatch,
    note,
)
from offpath.economy.ledger.obligations import Position
from offpath.economy.ledger.reconciliation import ReconcileReport
from offpath.economy.ledger.shortfalls import Explained
from offpath.economy.ledger.verification import Verification, verify_last
from offpath.economy.sweeps.context import Pass
from offpath.model.ledger import money
from offpath.model.ledger.faults import ChainBroken, Unbalanced
from offpath.model.ledger.records import OPEN_PAYOUTS, Checkpoint

LATE: Final = 300_000
"""Milliseconds after which a payout that is due should have been taken to a provider."""
LONG: Final = 3_600_000
"""Milliseconds in which a trim that was begun, and is not finished, should have moved."""
_MOST: Final = 1_000


async def hindered(run: Pass) -> bool:
    """True if a mismatch stands that nobody has accepted: told each time, as nothing is sealed,
    handed over or taken until then.
    """
    found = await mismatch(run.store)
    if found is None or not found.hinders:
        return False
    run.tell(logging.WARNING, "ledger.mismatch.stands", id=found.id, hint=hint(found))
    return True


async def rests(run: Pass, lever: Lever) -> bool:
    """True if a finding is contained by it: told each time."""
    if lever not in await resting(run.store, run.now):
        return False
    run.tell(logging.WARNING, "economy.contained", lever=lever.value)
    return True


async def mismatched(run: Pass, lines: Sequence[str]) -> None:
    """Keep what a verification has found."""
    found = await note(run.store, lines, run.economy.new_id())
    if found.hinders:
        run.tell(logging.WARNING, "ledger.mismatch.stands", id=found.id, hint=hint(found))


async def refused(run: Pass, error: Exception, anchored: Checkpoint | None) -> None:
    """Keep why nothing was sealed, if it is what the books are: named as a verification does."""
    signer = run.economy.ports.signer
    if signer is None or not isinstance(error, ChainBroken | Unbalanced):
        return
    known = await mismatch(run.store)
    if known is not None and known.hinders:
        return
    try:
        found = await verify_last(run.store, signer, anchored)
    except ChainBroken as broken:
        await mismatched(run, (str(broken),))
    else:
        await mismatched(run, found.lines or (str(error),))


async def verified(run: Pass, found: Verification) -> None:
    """Keep a mismatch; one that was found before stands also when it is not seen this time."""
    if found.mismatch:
        await mismatched(run, found.lines)
    else:
        await hindered(run)


async def backed(run: Pass, stands: Position, causes: Explained) -> None:
    """Keep a breach, or end it; likewise payouts that nobody takes anywhere."""
    breach = None
    if stands.shortfall:
        owed, held, missing = (
            money.text("USD", one) for one in (stands.obligations, stands.held, stands.shortfall)
        )
        breach = f"{missing} is missing: {owed} is owed, {held} is held"
    unpaid = await _unpaid(run) if stands.quotes and run.economy.ports.provider is None else None
    standing = {one.name for one in await run.store.findings()}
    unexplained = None
    if causes.unexplained:
        unexplained = f"{money.text('USD', causes.unexplained)} is missing and nothing explains it"
    for name, text in ((BREACH, breach), (UNEXPLAINED, unexplained), (UNPAID, unpaid)):
        if text is not None:
            await run.store.record_finding(name, text, new_id=run.economy.new_id())
        elif name in standing:
            await run.store.end_finding(name)


async def trimmed(run: Pass) -> None:
    """Keep that a trim was begun long ago and is not finished, or end that."""
    last = next(iter(await run.store.ledger_trims()), None)
    if last is not None and not last.finished and (last.moved or last.at) + LONG <= run.at:
        text = (
            f"the trim of {last.file} has not moved for over an hour and is at posting {last.done} "
            f"of {last.posting}: if nobody runs it, `offpath ledger trim` with that file goes on"
        )
        await run.store.record_finding(UNTRIMMED, text, new_id=run.economy.new_id())
    elif any(one.name == UNTRIMMED for one in await run.store.findings()):
        await run.store.end_finding(UNTRIMMED)


async def drifted(run: Pass, report: ReconcileReport) -> None:
    """Keep that a window differs from the processor's records, or end it."""
    name = f"{DRIFT}{report.window.since:%Y%m%dT%H%M%S}"
    if report.reconciled:
        await run.store.end_finding(name)
        return
    first = report.discrepancies[0]
    text = (
        f"{report.differing} differences between the processor and the ledger in "
        f"{report.window}, such as {first.difference} {first.kind} {first.key[:100]}"
    )
    await run.store.record_finding(name, text, new_id=run.economy.new_id())


async def _unpaid(run: Pass) -> str | None:
    rows = await run.store.ledger_sides("payout", states=OPEN_PAYOUTS, limit=_MOST)
    late = [row for row in rows if row.due_at is not None and row.due_at + LATE <= run.at]
    if not late:
        return None
    total = money.text("USD", sum(row.amount or 0 for row in late))
    return f"{len(late)} payouts of {total} are due, and the economy has no provider"
