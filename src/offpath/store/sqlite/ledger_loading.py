"""The facts that a batch of operations needs, read without I/O: the same on every connection.

Whoever runs this has the write lock, so nothing that is read here can change before the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from offpath.model.ledger.book import Loaded
from offpath.model.ledger.needs import Wanted
from offpath.model.ledger.records import Lot, SideKey, Totals
from offpath.store.programs.dialect import Queries
from offpath.store.sql import Row
from offpath.store.sqlite import ledger_rows as rows
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL

_ASKED: Final = (
    ("accounts", "ledger_accounts_of", "ids"),
    ("sides", "ledger_sides_of", "wanted"),
    ("holders", "ledger_holders_of", "wanted"),
    ("postings", "ledger_postings_of", "ids"),
    ("keys", "ledger_keys_of", "keys"),
    ("raised", "ledger_raised_of", "wanted"),
    ("attempts", "ledger_attempts_of", "wanted"),
    ("attempted", "ledger_attempted_of", "wanted"),
)
"""The needs, the statement that answers each, and its parameter."""
_SPENT: Final = ":spendable"


def load_steps(wanted: Wanted, now: int) -> Queries[Loaded]:
    """Read it all; ``now`` is the store's clock in milliseconds."""
    found: dict[str, Any] = {}
    for name, statement, parameter in _ASKED:
        asked = getattr(wanted, name)
        found[name] = (yield SQL[statement](**{parameter: batch(asked)})) if asked else ()
    newest = yield from _newest_steps(wanted.newest)
    lots = yield from _lots_steps(wanted.lots)
    subjects = sorted({subject for subject, _ in wanted.attempted})
    last = (yield SQL["ledger_subjects_of"](subjects=batch(subjects))) if subjects else ()
    totals = (yield from totals_steps()) if wanted.totals else None
    sides = {row[:2]: rows.side_row(row) for row in (*found["sides"], *found["holders"])}
    return Loaded(
        wanted=wanted,
        now=now,
        accounts=tuple(rows.account_record(row) for row in found["accounts"]),
        sides=tuple(sides.values()),
        newest=tuple(rows.side_row(row) for row in newest),
        postings=tuple(rows.postings(found["postings"])),
        keys=tuple(rows.key_record(row) for row in found["keys"]),
        lots=lots,
        raised=_sums(wanted.raised, found["raised"]),
        attempts=_sums(wanted.attempts, found["attempts"]),
        attempted={(subject, key): at for subject, key, at in found["attempted"]},
        subjects={row[0]: rows.attempt(row) for row in last},
        totals=totals,
    )


def _newest_steps(wanted: Sequence[SideKey]) -> Queries[list[Row]]:
    """Rows by kind and owner; those of payouts have an index of their own."""
    payouts = [one for one in wanted if one.kind == "payout"]
    others = [one for one in wanted if one.kind != "payout"]
    found: list[Row] = []
    for name, some in (("ledger_paid_of", payouts), ("ledger_newest_of", others)):
        if some:
            found += yield SQL[name](wanted=batch(some))
    return found


def totals_steps() -> Queries[Totals]:
    """Sums over all accounts and open payouts."""
    balances = yield SQL["ledger_balances"]()
    [[high, low]] = yield SQL["ledger_quotes"]()
    [[asked_high, asked_low]] = yield SQL["ledger_requested"]()
    return Totals(
        balances=rows.totals(balances),
        quotes=rows.total(high, low),
        requested=rows.total(asked_high, asked_low),
    )


def _lots_steps(wanted: Sequence[tuple[str, int]]) -> Queries[dict[str, tuple[Lot, ...]]]:
    """By account, newest first; wallets from which people spend have an index for it."""
    wallets = [one for one in wanted if one[0].endswith(_SPENT)]
    others = [one for one in wanted if not one[0].endswith(_SPENT)]
    lots: dict[str, list[Lot]] = {}
    for name, some in (("ledger_lots_of_wallets", wallets), ("ledger_lots_of", others)):
        for account, amount, at, source in (yield SQL[name](wanted=batch(some))) if some else ():
            lots.setdefault(account, []).append(Lot(amount=amount, at=at, source=source))
    return {account: tuple(each) for account, each in lots.items()}


def _sums(asked: tuple[tuple[str, int], ...], found: tuple[Row, ...]) -> dict[tuple[str, int], int]:
    """One for each that was asked for; 0 where there is nothing yet."""
    return dict.fromkeys(asked, 0) | {(name, since): total for name, since, total in found}
