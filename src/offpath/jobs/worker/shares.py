"""A fair share between queues: how many jobs of each one worker took lately."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offpath.model.job import LeasedJob

MOST_QUEUES = 1_000
"""Queues that are remembered; with more of them at once, all start again."""
LEAD = 1
"""The lead that a queue may have over the others. Within one lease the store shares evenly, so
queues that all have work never differ by more. A larger lead would only let a queue that had
nothing to do make up for it, and keep the others waiting meanwhile.
"""


class Shares:
    """Remembers who was served, for the next lease: from 0 (as the absent) to ``LEAD``."""

    __slots__ = ("served",)

    def __init__(self) -> None:
        self.served: dict[str, int] = {}

    def took(self, jobs: Iterable[LeasedJob], *, all_of_it: bool) -> None:
        """A lease gave these; ``all_of_it`` when there was room for more, but nothing more."""
        if all_of_it:
            self.served = {}
            return
        served = dict(self.served)  # the last request still has the old one
        for job in jobs:
            served[job.queue] = served.get(job.queue, 0) + 1
        behind = max(max(served.values(), default=0) - LEAD, 0)
        ahead = {queue: count - behind for queue, count in served.items() if count > behind}
        self.served = ahead if len(ahead) <= MOST_QUEUES else {}
