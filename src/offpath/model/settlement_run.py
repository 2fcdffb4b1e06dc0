"""The result of a settlement run: its credits, its counts, its outcome.

Not to be confused with a *settlement*, which is how an attempt of a job ended.
"""

from __future__ import annotations

import re
from datetime import datetime

from msgspec import Struct

from offpath.errors import InvalidArgument, SettlementFailed
from offpath.model import checks
from offpath.model.settlement_counts import SettlementCounts, SettlementOutcome
from offpath.model.settlement_period import Period
from offpath.model.settlement_rates import MAX_AMOUNT
from offpath.model.tally import Verdict

MAX_FAILURES = 100
"""The number of failed credits that a summary names; their number is always whole."""


class Credited(Struct, frozen=True, kw_only=True):
    """The user has the amount now, by this call. ``id`` is the ledger's own, if it has one."""

    id: str | None = None


class AlreadyCredited(Struct, frozen=True, kw_only=True):
    """The user had the amount before, under the same key: nothing was done."""

    id: str | None = None


CreditAnswer = Credited | AlreadyCredited


class SettlementSummary(SettlementCounts, frozen=True, kw_only=True):
    """The counts of one run, which can be required to be clean."""

    def require_clean(self) -> None:
        """Raise ``SettlementFailed`` unless the run was clean.

        For a job: a degraded run is then retried, and the retry credits only what is missing.
        """
        if self.outcome is not SettlementOutcome.CLEAN:
            raise SettlementFailed(failure_text(self), summary=self)


class SettlementStatus(Struct, frozen=True, kw_only=True):
    """A kind as health sees it: how its last run in this process went."""

    kind: str
    verdict: Verdict | None
    """None before its first run."""
    last: SettlementSummary | None
    last_success: datetime | None
    """The time when a run last ended clean."""
    consecutive_failures: int
    """Runs since then, all of them degraded or failed."""

    @property
    def healthy(self) -> bool:
        """True if the last run was clean, or there was none."""
        return self.verdict in {None, Verdict.CLEAN, Verdict.EMPTY}

    @property
    def cause(self) -> str | None:
        """The reason why it is not healthy, in one line without secrets."""
        return None if self.last is None else self.last.cause


def failure_text(summary: SettlementSummary) -> str:
    """The text of an error about a run that was not clean, and what to do."""
    return (
        f"settlement run {summary.kind} for {summary.period}: {summary.cause}; "
        "run it again once the cause is mended: only what is missing is credited"
    )


_KIND = re.compile(r"[a-z0-9][a-z0-9_.-]*")


def run_kind(value: object) -> str:
    """A kind's name: lower-case letters, digits and ``_ . -``. Raises ``InvalidArgument``."""
    name = checks.name(value, "the kind of a settlement run")
    if not _KIND.fullmatch(name):
        raise InvalidArgument(
            f"the kind of a settlement run has lower-case letters, digits and _.- only: {name!r}"
        )
    return name


def credit_key(kind: str, period: Period, record: str) -> str:
    """The idempotency key of one credit. Kind, period and record can be told apart in it.

    Raises ``InvalidArgument`` when the record's id is not text, or makes the key too long.
    """
    checks.name(record, "a record's id")
    return checks.text(f"{kind}|{period.name}|{record}", "a credit's key", longest=checks.MAX_KEY)


def credit_amount(value: object) -> int:
    """The amount of a calculator, in minor units; 0 means not eligible. Raises
    ``InvalidArgument``.
    """
    return checks.integer(value, "a calculated amount", least=0, most=MAX_AMOUNT)
