"""The record of settlement runs, as an app keeps it in its store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from offpath.model.run import LONGEST_ERROR, RunKind, RunRecord, RunReport
from offpath.model.settlement_run import SettlementSummary
from offpath.store.protocol import Store

Keep = Callable[[SettlementSummary], Awaitable[None]]


class OpenedStore(Protocol):
    """The part of an open app in which runs are kept."""

    @property
    def store(self) -> Store:
        """The store."""
        ...


def keeping(opened: Callable[[], OpenedStore | None], new_id: Callable[[], str]) -> Keep:
    """A function that keeps a run in the store; ``opened`` gives None while the app is closed.

    A settlement run needs no store of ours, so an app that is closed is not opened for this.
    """

    async def keep(summary: SettlementSummary) -> None:
        session = opened()
        if session is None:
            return
        counts = {name: number for name, number in summary.counts().items() if number}
        cause = summary.cause
        report = RunReport(
            verdict=summary.verdict,
            seconds=summary.seconds,
            counts=counts,
            period=summary.period,
            cause=None if cause is None else cause[:LONGEST_ERROR],
        )
        await session.store.put_run(
            RunRecord(
                id=new_id(),
                kind=RunKind.SETTLEMENT,
                name=summary.kind,
                at=summary.started_at,
                report=report,
            )
        )

    return keep
