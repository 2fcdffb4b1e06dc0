"""The sweep that takes payouts to the provider, and to their end when nobody reports it.

The provider is called outside of any transaction, under the payout's id, after a note was written
that it may have it. Whatever gets lost after that, it is asked again under the same id. Only what
the provider itself does wrong counts as an attempt: a store that is away gives no payout up.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Any

from msgspec.structs import replace

from offpath.economy.ledger.levers import Lever
from offpath.economy.ledger.operations.steps_payouts import (
    payout_body,
    payout_dead_lettered,
    payout_rescheduled,
    payout_sending,
    payout_submitted,
)
from offpath.economy.ledger.ports import PayoutProvider, PortSilent, ProviderStatus
from offpath.economy.ledger.rules import millis
from offpath.economy.sweeps import telemetry
from offpath.economy.sweeps.context import Pass, code_of, retryable
from offpath.economy.sweeps.rows import Found, after_failures, each_row, leased
from offpath.economy.sweeps.standing import hindered, rests
from offpath.economy.sweeps.summaries import Coded, PayoutsSummary, Reasoned
from offpath.model.ledger.faults import ChainBroken, Contained, LedgerError, ProviderFailed
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.records import SideRow

AT_ONCE = 64
"""Calls of the provider at the same time."""
CALLS = 3
"""Most calls of the provider that one look at a row makes."""
SLACK = 30.0
LONGEST_REF = 500
TIMEOUT, FAILED, RETURNED = "payout.timeout", "payout.provider_failed", "payout.provider_returned"
"""The reason why payouts are given up that a provider took."""


async def payouts(run: Pass) -> PayoutsSummary:
    """Take each due payout one step. Without a provider it rests."""
    provider = run.economy.ports.provider
    if provider is None:
        return PayoutsSummary()
    rows = await leased(run, "payout", _hold(run))
    step = partial(_step, provider)
    return PayoutsSummary(**await each_row(run, rows, step, _failed, "retrying", most=AT_ONCE))


def _hold(run: Pass) -> float:
    """Seconds in which the last row of the page has had its turn, however slow the provider is."""
    turns = math.ceil(run.limit / AT_ONCE)
    return turns * CALLS * run.economy.ports.provider_timeout + SLACK


async def _step(provider: PayoutProvider, run: Pass, row: SideRow) -> Found | None:
    telemetry.payout_looked_at(run.metrics, row.state, _age(run, row) / 1000)
    if row.state == "RESERVED":
        if await hindered(run):
            return await _held(run, row, ChainBroken.code)
        if await rests(run, Lever.PAYOUTS):
            return await _held(run, row, Contained.code)
        return await _sent(provider, run, row)
    return await _watched(provider, run, row)


async def _held(run: Pass, row: SideRow, code: str) -> Found:
    """Nothing is paid out by books that do not match what was sealed, or while payouts rest."""
    due = run.at + millis(run.settings.sla_default)
    await run.post(payout_rescheduled(row, due_at=due, now=run.at))
    return "retrying", Coded(row.id, code)


# -- those that the provider has not got -----------------------------------------------------------


async def _sent(provider: PayoutProvider, run: Pass, row: SideRow) -> Found | None:
    again = run.at + millis(_hold(run))
    noted = await run.post(payout_sending(row, due_at=again, now=run.at))
    if noted.receipt is None:
        return None
    row = replace(row, version=noted.receipt.facts["version"])
    try:
        ref = await _taken(provider, run, row)
    except LedgerError as error:
        return await _refused(provider, run, row, error)
    return await _submitted(run, row, ref)


async def _taken(provider: PayoutProvider, run: Pass, row: SideRow) -> str:
    """The provider's reference of the payout. Raises ``ProviderFailed`` and other faults."""
    if payout_body(row).sending_at is not None and (ref := await _asked_before(provider, run, row)):
        return ref
    amount = Money(Currency.USD, row.amount or 0)
    return _ref(await _asked(run, provider.submit, row.id, row.owner, amount))


async def _asked_before(provider: PayoutProvider, run: Pass, row: SideRow) -> str | None:
    """The provider's earlier answer. Its silence here is not one about a payout: nothing was
    submitted yet.
    """
    try:
        return await _found(provider, run, row)
    except PortSilent as error:
        raise ProviderFailed(str(error)) from error


async def _submitted(run: Pass, row: SideRow, ref: str) -> Found | None:
    due = run.at + millis(run.settings.sla_submitted)
    decided = await run.post(payout_submitted(row, ref, due_at=due, now=run.at))
    return None if decided.receipt is None else ("submitted", row.id)


async def _refused(
    provider: PayoutProvider, run: Pass, row: SideRow, error: LedgerError
) -> Found | None:
    """The provider raised: again later, or given up, but never while it may have taken it."""
    failures, blind = row.attempts + 1, getattr(provider, "find", None) is None
    answered, waits = not isinstance(error, PortSilent), _may_have_it(run, row, error, blind=blind)
    due = after_failures(run, failures)
    later = partial(payout_rescheduled, row, due_at=due, answered=answered, now=run.at)
    again = failures < run.settings.max_payout_attempts or (waits and blind)
    if error.retryable and again:
        await run.post(later(attempt=True))
        return "retrying", Coded(row.id, error.code)
    try:
        ref = await _found(provider, run, row)
    except LedgerError:
        await run.post(later())
        return "retrying", Coded(row.id, error.code)
    if ref:
        return await _submitted(run, row, ref)
    if waits:
        await run.post(later(attempt=True))
        return "retrying", Coded(row.id, error.code)
    return await _given_up(run, row, error.code)


def _may_have_it(run: Pass, row: SideRow, error: LedgerError, *, blind: bool) -> bool:
    """True if it may have taken it, so that only time ends it: this call was not answered, so that
    it may be on its way, or an earlier one was not, and it cannot be asked about that.
    """
    content = payout_body(row)
    if not isinstance(error, PortSilent) and not (blind and content.unanswered):
        return False
    since = content.sending_at
    return since is None or run.at - since <= millis(run.settings.max_payout_age)


async def _found(provider: PayoutProvider, run: Pass, row: SideRow) -> str | None:
    """The payout that the provider took under this id, as far as it can tell."""
    find = getattr(provider, "find", None)
    if find is None:
        return None
    ref = await _asked(run, find, row.id)
    return None if ref is None else _ref(ref)


# -- those that it has -----------------------------------------------------------------------------


async def _watched(provider: PayoutProvider, run: Pass, row: SideRow) -> Found | None:
    late = _age(run, row) > millis(run.settings.max_payout_age)
    match await _status(provider, run, row):
        case ProviderStatus.FAILED:
            return await _given_up(run, row, FAILED)
        case ProviderStatus.RETURNED:
            return await _given_up(run, row, RETURNED)
        case ProviderStatus.SETTLED:
            _told(run, row, logging.ERROR, "settlement_unreported")
            return await _later(run, row)
        case ProviderStatus.PENDING:
            if late:
                _told(run, row, logging.WARNING, "pending_past_timeout")
            return await _later(run, row, touch=late)
        case _:
            return await (_given_up(run, row, TIMEOUT) if late else _later(run, row))


async def _status(provider: PayoutProvider, run: Pass, row: SideRow) -> ProviderStatus:
    """The provider's answer about it; whatever goes wrong, nothing is known."""
    probe, ref = getattr(provider, "status", None), payout_body(row).provider_ref
    if probe is None or ref is None:
        return ProviderStatus.UNKNOWN
    try:
        return ProviderStatus(await _asked(run, probe, ref))
    except (LedgerError, ValueError) as error:
        code = error.code if isinstance(error, LedgerError) else ProviderFailed.code
        run.tell(logging.WARNING, "worker.payouts.status_probe_failed", id=row.id, code=code)
        return ProviderStatus.UNKNOWN


async def _later(run: Pass, row: SideRow, *, touch: bool = False) -> Found | None:
    """Only its due time moves: it is in no bucket."""
    due = run.at + millis(run.settings.sla_submitted)
    await run.post(payout_rescheduled(row, due_at=due, touch=touch, now=run.at))
    return None


def _told(run: Pass, row: SideRow, level: int, finding: str) -> None:
    run.tell(level, f"worker.payouts.{finding}", id=row.id)
    telemetry.payout_found(run.metrics, finding)


# -- ends ------------------------------------------------------------------------------------------


async def _given_up(run: Pass, row: SideRow, reason: str) -> Found | None:
    """The credits go back to the seller, unless somebody else has ended it meanwhile."""
    economy = run.economy
    op = payout_dead_lettered(row, reason, economy.rules, economy.new_id, now=run.at)
    decided = await run.post(op)
    if decided.receipt is None:
        return None
    telemetry.payout_dead(run.metrics, reason)
    run.tell(logging.ERROR, "worker.payouts.dead_lettered", id=row.id, reason=reason)
    return "dead_lettered", Reasoned(row.id, reason)


async def _failed(run: Pass, row: SideRow, error: Exception) -> Found:
    """The row of a failure that costs no attempt since the provider did not cause it: a row that
    cannot be proved, a store.
    """
    code = code_of(error)
    if not retryable(error):
        run.tell(logging.ERROR, "worker.payouts.wedged", id=row.id, code=code)
    due = run.at + millis(run.settings.sla_default)
    await run.post(payout_rescheduled(row, due_at=due, now=run.at))
    return "retrying", Coded(row.id, code)


# -- asking ----------------------------------------------------------------------------------------


async def _asked(run: Pass, function: Any, *args: object) -> Any:  # noqa: ANN401 - the provider's
    timeout = run.economy.ports.provider_timeout
    return await run.calls.call("the provider", function, *args, timeout=timeout)


def _ref(given: object) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= LONGEST_REF:
        raise ProviderFailed(
            f"the provider must give its reference as a text of 1 to {LONGEST_REF} characters"
        )
    return given


def _age(run: Pass, row: SideRow) -> int:
    return max(0, run.at - row.touched_at)
