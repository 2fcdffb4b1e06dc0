"""The sweep that compares what the payment processor cleared with what the ledger has."""

from __future__ import annotations

import logging
from functools import partial

from offpath.economy.ledger.ports import ReconcileFeed
from offpath.economy.ledger.reconciliation import Pulled, ReconcileReport, Window
from offpath.economy.ledger.settled_records import compared
from offpath.economy.sweeps import telemetry
from offpath.economy.sweeps.context import Pass, code_of, retryable
from offpath.economy.sweeps.due_windows import DueWindow, due_windows
from offpath.economy.sweeps.rows import at_once
from offpath.economy.sweeps.standing import drifted
from offpath.economy.sweeps.summaries import FailedWindow, ReconcileSummary
from offpath.model.ledger.faults import ProviderFailed

AT_ONCE = 4
"""Windows that are compared at the same time."""


async def reconcile(run: Pass) -> ReconcileSummary:
    """Compare each given window, or those that are due; one that cannot be pulled stops none of the
    others.
    """
    feed = run.economy.ports.feed
    if feed is None:
        return ReconcileSummary()

    async def one(window: Window) -> ReconcileReport | FailedWindow:
        return await _compared(run, feed, window)

    async def next_one(due: DueWindow) -> ReconcileReport | FailedWindow:
        made = await one(due.window)
        await due.ended(done=isinstance(made, ReconcileReport))
        return made

    if run.windows:
        found = await at_once(run.windows, one, AT_ONCE)
    else:
        found = await at_once(await due_windows(run), next_one, AT_ONCE)
    reports = [each for each in found if isinstance(each, ReconcileReport)]
    return ReconcileSummary(
        reconciled=tuple(each for each in reports if each.reconciled),
        drifted=tuple(each for each in reports if not each.reconciled),
        failed=tuple(each for each in found if isinstance(each, FailedWindow)),
    )


async def _compared(
    run: Pass, feed: ReconcileFeed, window: Window
) -> ReconcileReport | FailedWindow:
    try:
        timeout = run.economy.ports.feed_timeout
        reading = partial(run.calls.call, "the feed", timeout=timeout)
        pulled: object = await reading(feed.pull, window)
        if not isinstance(pulled, Pulled):
            kind = type(pulled).__name__
            raise ProviderFailed(f"a feed gives a Pulled, not {kind}", retryable=False)
        report = await compared(run.store, window, pulled, reading=reading)
        await drifted(run, report)
    except Exception as error:  # noqa: BLE001 - this window's alone
        code = code_of(error)
        run.tell(logging.ERROR, "worker.reconcile.failed", window=str(window), code=code)
        return FailedWindow(window, code, retryable(error))
    telemetry.reconciled(run.metrics, report.differing)
    if report.reconciled:
        run.tell(logging.INFO, "worker.reconcile.reconciled", window=str(window))
    else:
        run.tell(
            logging.WARNING,
            "worker.reconcile.drifted",
            window=str(window),
            discrepancies=report.differing,
        )
    return report
