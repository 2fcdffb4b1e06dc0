"""Case E3: a transaction that was left open is told of, and its session is named."""

from __future__ import annotations

from offpath.store.postgres.diagnosis import _old_transactions
from offpath.store.protocol import Level


def test_the_session_of_an_old_transaction_is_named() -> None:
    finding = _old_transactions([(4711, "report", "idle in transaction", 754)])
    assert finding.level is Level.WARNING
    assert "pid 4711 of report (idle in transaction, 754 s)" in finding.message
    assert _old_transactions([]).level is Level.FINE
