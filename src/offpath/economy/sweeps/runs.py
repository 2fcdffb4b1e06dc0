"""Runs of an economy's sweeps: one after the other, none able to stop the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from offpath.economy.ledger.reconciliation import Window
from offpath.economy.sweeps import telemetry
from offpath.economy.sweeps.catalogue import IDLE, economy_sweeps
from offpath.economy.sweeps.context import SweptEconomy
from offpath.economy.sweeps.summaries import SweepSummary
from offpath.economy.sweeps.sweep import EconomySweep, SweepByHand, store_time
from offpath.model.tally import SweepResult, SweepRun, Tally
from offpath.sweeps.runs import choose, run_sweeps


class SweepInput(Struct, frozen=True, kw_only=True):
    """The request of one run of the sweeps."""

    now: datetime | None = None
    """The time by which everything is claimed and decided; None: the store's clock, read once."""
    limit: int | None = None
    """Most rows of each sweep; None: the setting ``worker_batch``."""
    only: str | Iterable[str] | None = None
    """Sweeps to run; the others report that they were idle. None: all."""
    windows: tuple[Window, ...] = ()
    """The windows that ``reconcile`` compares."""


class EconomyResult(SweepResult, frozen=True, kw_only=True):
    """The result of one sweep: its summary, or the code of what it raised."""

    @property
    def summary(self) -> SweepSummary | None:
        """The summary of the pass; None when the sweep failed."""
        return self.tally.summary  # type: ignore[no-any-return]  # an economy's has one

    @property
    def code(self) -> str | None:
        """The code of what it raised."""
        return self.error

    @property
    def more(self) -> bool:
        """True if its page was full, so that there may be more due at once."""
        return self.tally.more

    @property
    def ok(self) -> bool:
        """True if it came to its end; rows may have failed all the same."""
        return self.error is None


class EconomyRun(SweepRun, frozen=True, kw_only=True):
    """The results of a run of the sweeps: ``batch, postings = await worker.run_once(...)``.

    One for each of :data:`SWEEP_NAMES`, in their order.
    """

    batch: tuple[EconomyResult, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        """Give both parts."""
        return iter((self.batch, self.postings))

    def __getitem__(self, name: str) -> EconomyResult:
        """The result of a sweep; raises KeyError when there is none of this name."""
        return super().__getitem__(name)  # type: ignore[return-value]  # those of the batch


class EconomySweeps:
    """The sweeps of one economy in one process."""

    def __init__(self, economy: SweptEconomy) -> None:
        self._economy = economy
        self._sweeps = {sweep.name: sweep for sweep in economy_sweeps(economy)}

    def __iter__(self) -> Iterator[EconomySweep]:
        """Give the sweeps in their order."""
        return iter(self._sweeps.values())

    def __getitem__(self, name: str) -> EconomySweep:
        """The sweep of this name; raises KeyError when there is none."""
        return self._sweeps[name]

    async def run(self, asked: SweepInput) -> EconomyRun:
        """Run the sweeps; raises nothing but ``InvalidArgument``, before anything is done."""
        app = self._economy.app
        first = next(iter(self))
        checked = first.new_pass(asked.now or app.clock.now(), asked.limit, asked.windows)
        chosen = choose([SweepByHand(one, checked.windows) for one in self], asked.only)
        now = asked.now or await store_time(self._economy)
        done = await run_sweeps(chosen, now, checked.limit, clock=app.clock, report=_known)
        results = {one.name: EconomyResult(**asdict(one)) for one in done}
        telemetry.run_made(app.metrics, sum(not one.ok for one in results.values()))
        return EconomyRun(
            batch=tuple(results.get(name) or _idle(name) for name in IDLE),
            postings=tuple(posting for one in chosen for posting in one.postings),
        )


def _idle(name: str) -> EconomyResult:
    return EconomyResult(name=name, tally=Tally(summary=IDLE[name]))


def _known(_error: BaseException, _phase: str) -> None:
    """Nothing: a sweep by hand has reported what its result does not tell."""
