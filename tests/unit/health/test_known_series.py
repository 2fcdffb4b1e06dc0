"""The series of an alert exist before their first event, so that it sees that one as a rise."""

from __future__ import annotations

from offpath import App
from offpath.economy import Economy
from offpath.events import Event, InboxMessage
from offpath.runtime.clock import ManualClock


async def test_counters_of_known_labels_are_there_at_zero() -> None:
    app = App(clock=ManualClock(), auto_start=False)

    @app.task
    async def charge() -> None: ...

    async def send(_event: Event) -> None: ...

    app.outbox("wallet", dispatcher=send)

    @app.inbox("bank")
    async def apply(_message: InboxMessage) -> None: ...

    app.router("audit", domain="d", start="beginning")
    known: list[tuple[str, dict[str, str]]] = [
        ("jobs_dead", {"task": "charge", "queue": "default"}),
        ("jobs_rescued", {"task": "charge", "queue": "default"}),
        ("messages", {"box": "out", "stream": "wallet", "outcome": "dead"}),
        ("messages", {"box": "out", "stream": "wallet", "outcome": "failed"}),
        ("messages", {"box": "in", "stream": "bank", "outcome": "dead"}),
        ("router_attempts", {"router": "audit", "status": "failed"}),
        ("loop_restarts", {"loop": "claim"}),
        ("loop_restarts", {"loop": "relay:wallet"}),
    ]
    async with app, app.worker():
        told = [app.metrics.get(f"offpath_{name}_total", **labels) for name, labels in known]
    assert [None if one is None else one.value for one in told] == [0.0] * len(known)


async def test_those_of_an_economy_are_there_with_it() -> None:
    app = App(clock=ManualClock(), auto_start=False)
    Economy(app)
    known: list[tuple[str, dict[str, str]]] = [
        ("economy_breaches", {}),
        ("economy_verifications", {"outcome": "mismatch"}),
        ("economy_anchorings", {"outcome": "failed"}),
        ("economy_payout_findings", {"finding": "settlement_unreported"}),
        ("economy_payout_findings", {"finding": "pending_past_timeout"}),
    ]
    async with app, app.worker():
        sweep = {"sweep": "economy.checkpoint", "bucket": "dead_lettered"}
        known.append(("sweep_rows", sweep))
        told = [app.metrics.get(f"offpath_{name}_total", **labels) for name, labels in known]
    assert [None if one is None else one.value for one in told] == [0.0] * len(known)
