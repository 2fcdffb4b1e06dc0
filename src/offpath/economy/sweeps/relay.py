"""The sweep that hands events to the outside: the app's outbox relay."""

from __future__ import annotations

from offpath.economy.ledger.operations.events import STREAM
from offpath.economy.sweeps.context import SweptEconomy
from offpath.economy.sweeps.messages import KeptMover
from offpath.economy.sweeps.messages import relayed as relay

__all__ = ["relay", "relay_mover"]


def relay_mover(economy: SweptEconomy) -> KeptMover:
    """The relay of the economy's events."""
    return KeptMover(lambda: economy.app.relay(STREAM))
