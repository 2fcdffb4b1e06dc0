"""Levers: what rests on every worker while a finding is contained, and nothing else does.

A lever is a limit's key that no job has, as the pause of an economy is: kept in the store, so that
neither a restart nor a deploy ends it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from offpath.store.flow import FlowStore


class Lever(StrEnum):
    """The ways of money out of the platform that can rest."""

    PAYOUTS = "payouts"
    """No payout is handed to the provider; those that it has are followed."""
    FEES = "fees"
    """No fee is taken out."""

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


PREFIX: Final = "economy.rest."


async def resting(store: FlowStore, now: datetime) -> frozenset[Lever]:
    """The levers that rest now."""
    found = await store.limits(keys=[f"{PREFIX}{one}" for one in Lever], limit=len(Lever))
    names = {
        one.key.removeprefix(PREFIX)
        for one in found
        if one.paused or (one.closed_until is not None and one.closed_until > now)
    }
    return frozenset(one for one in Lever if one in names)


async def rest(store: FlowStore, lever: Lever) -> None:
    """Have a lever rest until :func:`released`."""
    await store.close_limit(f"{PREFIX}{lever}")


async def released(store: FlowStore, lever: Lever) -> bool:
    """Have it go on. False: it did not rest."""
    return await store.open_limit(f"{PREFIX}{lever}")
