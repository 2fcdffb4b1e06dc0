"""The parts that the sweeps of an economy work with: their economy, and one pass of theirs."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from offpath.economy.ledger.ports import PortCalls, Ports
from offpath.errors import OffpathError
from offpath.model.ledger.decision import Decided, LedgerOp
from offpath.model.ledger.faults import LedgerError, StoreFailed
from offpath.model.ledger.records import Receipt
from offpath.runtime.log import logger

if TYPE_CHECKING:
    from offpath.economy.ledger.reconciliation import Window
    from offpath.economy.ledger.rules import Rules
    from offpath.economy.ledger.settings import EconomySettings
    from offpath.runtime.clock import Clock
    from offpath.runtime.metrics import Metrics
    from offpath.store.protocol import Store

_log = logger("economy")


class SweptEconomy(Protocol):
    """The part of an economy that its sweeps use."""

    app: Any
    """The :class:`offpath.App`."""
    rules: Rules
    settings: EconomySettings
    ports: Ports

    def new_id(self) -> str:
        """A new id."""
        ...

    async def run_op(self, op: LedgerOp) -> Decided:
        """Decide one operation, in a batch with whatever else is submitted at the same time."""
        ...

    async def paused(self) -> bool:
        """True if the sweeps rest on every worker."""
        ...

    def report(self, error: BaseException, phase: str) -> None:
        """Tell the app of an error that is survived."""
        ...


class Pass:
    """One pass of the sweeps: its time, its limit, and what it posted."""

    def __init__(
        self,
        economy: SweptEconomy,
        calls: PortCalls,
        *,
        now: datetime,
        limit: int,
        windows: tuple[Window, ...] = (),
    ) -> None:
        self.economy = economy
        self.calls = calls
        self.now = now
        """The time by which everything is claimed and decided."""
        self.limit = limit
        self.windows = windows
        self.postings: list[str] = []
        """Ids of what the pass posted, in the order of the answers."""
        self.more = False
        """True if there may be more due at once."""

    @property
    def at(self) -> int:
        """:attr:`now` in milliseconds."""
        return milliseconds(self.now)

    @property
    def settings(self) -> EconomySettings:
        """The economy's."""
        return self.economy.settings

    @property
    def store(self) -> Store:
        """The app's."""
        found: Store = self.economy.app.store()
        return found

    @property
    def clock(self) -> Clock:
        """The app's."""
        found: Clock = self.economy.app.clock
        return found

    @property
    def metrics(self) -> Metrics:
        """The app's."""
        found: Metrics = self.economy.app.metrics
        return found

    async def post(self, op: LedgerOp) -> Decided:
        """Have an operation decided; returns its refusal or receipt and raises its fault.

        What the store raises is raised as it is. Postings are noted.
        """
        decided = await self.economy.run_op(op)
        if decided.error is not None:
            raise decided.error
        if decided.receipt is not None and not decided.duplicate:
            self.posted(decided.receipt)
        return decided

    def posted(self, receipt: Receipt) -> None:
        """Note what an operation posted."""
        self.postings.extend(receipt.postings)

    def tell(self, level: int, event: str, **fields: object) -> None:
        """Log an event; a logger that raises changes nothing."""
        try:
            _log.log(level, event, extra={"sweep_now": self.now.isoformat(), **fields})
        except Exception:  # noqa: BLE001 - a filter or handler of the host's
            logging.getLogger("offpath.economy.fallback").debug("a log line was lost")

    def report(self, error: BaseException, phase: str) -> None:
        """Tell the app of an error that a pass survives."""
        self.economy.report(error, phase)


def milliseconds(moment: datetime) -> int:
    """A time in milliseconds since 1970, as rows and books have it."""
    return round(moment.timestamp() * 1000)


def code_of(error: BaseException) -> str:
    """The code of an error as summaries have it: what is not a fault is a failure of the store."""
    return error.code if isinstance(error, LedgerError) else StoreFailed.code


def retryable(error: BaseException) -> bool:
    """True if it may well go away without a change."""
    return error.retryable if isinstance(error, LedgerError) else True


def expected(error: BaseException) -> bool:
    """True if it is of offpath's own, and so needs no report beside the summary."""
    return isinstance(error, OffpathError)
