"""Leases where few jobs are ready: when they may be had by a statement of their own.

A worker that waits for work asks often and finds a job or none. The ordinary statement is made for
a backlog of many lanes, and the server is busy for longer with its beginning than with such a job.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from offpath.model.lease import LeaseRequest

MOST: Final = 32
"""Ready jobs of the tasks asked for, of which the statement takes all: more is a backlog."""
_LONGEST: Final = 64
"""Leases at most from one try to the next."""


class FewBounds(NamedTuple):
    """The most that there may be, so that all of it may be taken."""

    jobs: int
    scarce: list[str]
    """Tasks with less room than that, as each worker has one of its own."""
    room: int
    """The number of jobs of these tasks together that any of them has room for."""


class Few:
    """The way in which a store has met with few jobs.

    Where the statement for few jobs hands the lease on, it cost a round trip and took nothing. So
    it is tried less and less often as long as that goes on, as where jobs claim unique keys.
    """

    __slots__ = ("_most", "_pass", "refusals")

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._pass = 0
        self.refusals = 0
        """Leases that were handed on, since the last one that was not."""

    def within(self, request: LeaseRequest) -> FewBounds | None:
        """The bounds for this lease; None: the ordinary statement is due."""
        rooms = {task: room for task, room in request.tasks.items() if room > 0}
        jobs = min(self._most, request.limit)
        if self._pass or not rooms or jobs <= 0:
            return None
        scarce = [task for task, room in rooms.items() if room < jobs]
        return FewBounds(jobs, scarce, min((rooms[task] for task in scarce), default=jobs))

    def passed_over(self) -> None:
        """Take in that a lease was by the ordinary statement."""
        self._pass = max(self._pass - 1, 0)

    def answered(self) -> None:
        """Take in that the statement had the answer."""
        self.refusals = 0

    def refused(self) -> None:
        """Take in that the lease was handed on to the ordinary statement.

        It is passed over next, so the first that is spared the try is the lease after it.
        """
        self.refusals += 1
        self._pass = 2 ** min(self.refusals, _LONGEST.bit_length() - 1)
