"""Stores of some profiles, for tests that were written for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.errors import CapabilityMissing
from offpath.model.message import MessageSettled, MessageSettlement
from offpath.model.settlement import Settled, Settlement
from offpath.store.redis import RedisStore


def _raise_missing(answers: Sequence[Settled | MessageSettled]) -> None:
    """Raise what a settlement was refused for, where that is a profile: its test is skipped."""
    for each in answers:
        if isinstance(each.error, CapabilityMissing):
            raise each.error


class RefusingRedis(RedisStore):
    """A store that raises what it refuses one settlement of a batch for, if that is a profile."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        answers = await super().settle(settlements)
        _raise_missing(answers)
        return answers

    async def settle_messages(
        self, settlements: Sequence[MessageSettlement]
    ) -> list[MessageSettled]:
        answers = await super().settle_messages(settlements)
        _raise_missing(answers)
        return answers
