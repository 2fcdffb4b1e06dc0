"""The economy: a credits ledger with its operations, on the store of an app."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from offpath.economy.inbound import register_inbox
from offpath.economy.ledger.batcher import Batcher
from offpath.economy.ledger.configuration import load_economy_settings
from offpath.economy.ledger.levers import Lever, resting
from offpath.economy.ledger.meter import OperationMeter
from offpath.economy.ledger.mismatches import unhindered
from offpath.economy.ledger.operations.steps_fees import fees_swept
from offpath.economy.ledger.outcome import Outcome, outcome_of
from offpath.economy.ledger.ports import PortCalls, Ports
from offpath.economy.ledger.reads import EconomyReading
from offpath.economy.ledger.rules import rules_of
from offpath.economy.ledger.submission import NO_HEADERS, Submitting
from offpath.economy.passes import EconomyVerbs
from offpath.economy.wing import ECONOMY
from offpath.jobs.client.core import core_of
from offpath.model.correlation import CARRIED
from offpath.model.ledger.faults import Contained, EconomyConfigInvalid, LedgerError
from offpath.model.ledger.rates import Rates
from offpath.runtime.log import logger
from offpath.runtime.wings import add_wing
from offpath.runtime.zones import zone_of

if TYPE_CHECKING:
    from datetime import datetime

    from offpath.app import App
    from offpath.economy.ledger.ports import (
        CheckpointAnchor,
        PayeeDirectory,
        PayoutProvider,
        ReconcileFeed,
    )
    from offpath.economy.ledger.proof import Proof
    from offpath.economy.ledger.requests import Request
    from offpath.economy.ledger.signatures import Signer
    from offpath.health.crediting_run import Credit
    from offpath.model.ledger.decision import Decided, LedgerOp
    from offpath.model.ledger.money import Money
    from offpath.store.protocol import Store

_log = logger("economy")


class Declinable:
    """The type of :data:`DECLINED`."""

    def __repr__(self) -> str:
        return "DECLINED"


DECLINED: Final = Declinable()
"""Given for a port: it is left out on purpose, also in production."""


class Economy(EconomyVerbs):
    """A credits economy: ``economy = Economy(app, rates=Rates(...))``, then
    ``await economy.submit(TopUp(...))``.

    Its ledger lives in the app's store and its events go to the app's outbox. Settings come from
    arguments, the environment (``OFFPATH_ECONOMY_*``) and defaults. With ``production=True`` a
    velocity limit, a horizon for cards, a directory and an anchor must be given, the ports also as
    ``DECLINED``. Raises one ``EconomyConfigInvalid`` that lists all that is wrong.
    """

    def __init__(
        self,
        app: App,
        *,
        rates: Rates | None = None,
        provider: PayoutProvider | None = None,
        directory: PayeeDirectory | Declinable | None = None,
        feed: ReconcileFeed | None = None,
        anchor: CheckpointAnchor | Declinable | None = None,
        signer: Signer | None = None,
        production: bool = False,
        new_id: Callable[[], str] | None = None,
        **settings: Any,  # noqa: ANN401 - checked against the settings' types
    ) -> None:
        self.app = app
        """The app whose store and outbox it uses."""
        self.rates = Rates() if rates is None else rates
        self.settings = load_economy_settings(**settings)
        """The settings of the economy."""
        if production:
            _for_production(self.settings.origins, directory=directory, anchor=anchor)
        self.ports = Ports(
            provider=provider,
            directory=None if isinstance(directory, Declinable) else directory,
            feed=feed,
            anchor=None if isinstance(anchor, Declinable) else anchor,
            signer=signer,
        )
        """The ports that the host has connected."""
        self.rules = rules_of(self.settings, self.rates, zone_of)
        """The rules that decide operations."""
        self.read = EconomyReading(self._opened, self.rates, self._now)
        """Balances, statements, payouts, subscriptions, who owns what."""
        self._new_id = new_id or app.new_id
        self._meter = OperationMeter(app.metrics)
        self._calls = PortCalls(lambda: app.clock)
        self._batcher = Batcher(self._post, self.settings.max_batch)
        self._submitting = Submitting(
            self.rules,
            self._batcher,
            opened=self._opened,
            new_id=self._new_id,
            now=self._now,
            cleared=None if self.ports.directory is None else self._cleared,
        )
        core_of(app).add_economy(self)
        add_wing(ECONOMY)
        self.register_sweeps()
        register_inbox(self)

    def __repr__(self) -> str:
        """Show the app and the rates."""
        return f"<Economy of {self.app!r} par={self.rates.par.id}>"

    def new_id(self) -> str:
        """A new id."""
        return self._new_id()

    # -- operations ------------------------------------------------------------------------

    async def submit(self, request: Request, *, correlation_id: str | None = None) -> Outcome:
        """Have an operation decided and, if it is, committed: once for each key.

        ``Committed`` and ``Duplicate`` have the receipt, ``Rejected`` the reason; none of the three
        needs to be repeated. Raises the ledger's faults: of a bad request at once, before anything
        is written; ``StoreFailed`` and ``ProviderFailed`` are retryable, by the same key, which
        does nothing twice. ``correlation_id`` goes with its events as a header of that name.
        """
        began = time.perf_counter()
        try:
            headers = NO_HEADERS if correlation_id is None else _headers(correlation_id)
            outcome = await self._submitting.submit(request, headers)
        except LedgerError as fault:
            self._tell(request, fault, time.perf_counter() - began)
            raise
        self._tell(request, outcome, time.perf_counter() - began)
        return outcome

    async def submit_many(self, requests: Sequence[Request]) -> list[Outcome | LedgerError]:
        """Many at once, in few transactions: an outcome or a fault for each, in their order.

        They are decided in this order, and each stands for itself: one that is rejected stops none
        of the others. Of two with one key the second is refused with ``KeyReused``.
        """
        began = time.perf_counter()
        outcomes = await self._submitting.submit_many(requests)
        seconds = time.perf_counter() - began
        for request, outcome in zip(requests, outcomes, strict=True):
            self._tell(request, outcome, seconds)
        return outcomes

    async def prepare(self, request: Request) -> LedgerOp:
        """An operation to commit with other things: ``ctx.post(await economy.prepare(...))``,
        ``Effects(operations=...)``. Raises faults of the request; it is decided when the other
        things are committed.
        """
        return await self._submitting.prepare(request)

    async def sweep_fees(self, key: str, amount: Money | None = None) -> Outcome:
        """Take matured revenue out in real money, once for each key; None takes all that may be.

        ``Rejected`` with ``NOTHING_TO_SWEEP`` when there is nothing. Raises ``InvalidAmount``, and
        ``Commingling`` when it is more than the platform may take, ``ChainBroken`` while a mismatch
        of the ledger stands that nobody has accepted, ``Contained`` while fees rest.
        """
        store = await self._opened()
        await unhindered(store)
        if Lever.FEES in await resting(store, self._now()):
            raise Contained(
                "fees rest: look at offpath economy audit, then offpath economy release"
            )
        return outcome_of(
            await self.run_op(fees_swept(key, self.rules, self.new_id, amount=amount))
        )

    def crediting(self, kind: str) -> Credit:
        """The port by which settlement runs of a kind credit this ledger: each credit is a
        ``Reward`` in whole minor units of credits, once for each key.

        ``app.settlements.define("rebate", credit=economy.crediting("rebate"), ...)``. Raises
        ``InvalidArgument`` for what is not a kind.
        """
        from offpath.economy.settlement_credits import crediting

        return crediting(self, kind)

    async def prove(self, *, full: bool = True) -> Proof:
        """Prove that the books hold; ``full`` replays every chain. Reads only, of one moment."""
        from offpath.economy.ledger.proof import prove

        return await prove(await self._opened(), self.rates, full=full)

    async def run_op(self, op: LedgerOp) -> Decided:
        """Decide one operation, in a batch with whatever else is submitted at the same time."""
        return await self._submitting.run(op)

    # -- within ----------------------------------------------------------------------------

    def _now(self) -> datetime:
        now: datetime = self.app.clock.now()  # asked each time: tests may swap the app's clock
        return now

    async def _opened(self) -> Store:
        return await core_of(self.app).opened()

    async def _post(self, operations: Sequence[LedgerOp]) -> list[Decided]:
        return await (await self._opened()).post(operations)

    async def _cleared(self, user: str) -> bool:
        directory = self.ports.directory
        if directory is None:
            return True
        timeout = self.ports.directory_timeout
        answer = await self._calls.call(
            "the directory's cleared", directory.cleared, user, timeout=timeout
        )
        return answer is True

    def _tell(self, request: Request, outcome: Outcome | LedgerError, seconds: float) -> None:
        try:
            kind = self._meter.outcome(type(request), outcome, seconds)
            if isinstance(outcome, LedgerError):
                _log.warning("economy.submit", extra={"kind": kind, "reason": outcome.code})
        except Exception as error:  # noqa: BLE001 - a meter never changes an outcome
            self.report(error, "economy meter")


def _headers(correlation_id: str) -> str:
    return json.dumps({CARRIED: correlation_id})


def _for_production(
    origins: tuple[tuple[str, str], ...], *, directory: object, anchor: object
) -> None:
    given = {name for name, _ in origins}
    missing = [name for name in ("velocity_limit_minor", "maturity_card") if name not in given]
    ports = {"directory": directory, "anchor": anchor}
    missing += [f"{name} (give one, or DECLINED)" for name, port in ports.items() if port is None]
    if missing:
        raise EconomyConfigInvalid(f"in production these must be given: {', '.join(missing)}")
