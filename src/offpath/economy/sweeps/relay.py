"""The sweep that hands events to the outside: the app's outbox relay."""

from __future__ import annotations

from offpath.economy.ledger.operations.events import STREAM
from offpath.economy.sweeps.home import EconomyHome
from offpath.economy.sweeps.moving import KeptMover
from offpath.economy.sweeps.moving import relayed as relay

__all__ = ["relay", "relay_mover"]


def relay_mover(home: EconomyHome) -> KeptMover:
    """The relay of the economy's events."""
    return KeptMover(lambda: home.app.relay(STREAM))
