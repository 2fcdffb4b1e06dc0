"""The sweep that applies what came in: the app's inbox, whose rows hold operations.

Committed and duplicate operations are applied; a rejected one is dead at once, with its reason; a
fault that may go away is tried again after a growing wait.
"""

from __future__ import annotations

from offpath.economy.sweeps.context import SweptEconomy
from offpath.economy.sweeps.messages import SOURCE, KeptMover
from offpath.economy.sweeps.messages import drained as drain_inbox

__all__ = ["SOURCE", "drain_inbox", "drain_mover"]


def drain_mover(economy: SweptEconomy) -> KeptMover:
    """The drain of the economy's source."""
    return KeptMover(lambda: economy.app.drain(SOURCE))
