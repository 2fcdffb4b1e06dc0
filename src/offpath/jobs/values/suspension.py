"""The end of an attempt by a handler's sleep or wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offpath.errors import Snooze
    from offpath.model.settlement import Waiting


class Suspended(BaseException):
    """Ends an attempt that sleeps or waits: the slot is given back, and nothing is counted.

    No ``Exception``, so that ``except Exception`` in a handler lets it pass. A handler that holds
    it up all the same (a bare ``except``, ``gather(return_exceptions=True)``) changes nothing: its
    value is not taken, since the sleep or wait before it is not over.
    """

    def __init__(self, until: Snooze | Waiting) -> None:
        super().__init__("this attempt sleeps or waits; let this exception pass")
        self.until = until
        """The state to be recorded: asleep until a time, or waiting for a signal."""


def suspended(error: BaseException) -> Suspended | None:
    """The suspension that an error is; None for a real one.

    A group (as ``asyncio.TaskGroup`` raises it) is one when there is nothing else in it: what
    failed beside a wait has failed.
    """
    if isinstance(error, Suspended):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [suspended(one) for one in error.exceptions]
    return found[0] if all(found) else None
