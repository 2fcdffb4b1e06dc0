"""Announced jobs: whose changes of state become outbox messages, in the same transaction.

The rule is carried by each job as a number of bits, so that a store can tell without decoding
anything. What a message holds is the same on every backend:

* stream :data:`STREAM`, topic ``job.<state>``, key the job's id, id a new one;
* payload: a JSON object of ``job``, ``task``, ``queue``, ``previous`` (a state, null for a new
  job), ``state``, ``attempt``, ``sequence``, ``at`` (RFC 3339, UTC), ``reason`` (null if none), and
  with :data:`DETAILS` also ``result`` (the encoded result as a text) and ``error`` (the type of the
  last failure).

``sequence`` grows with every change of one job, with gaps: four times deliveries plus redrives,
plus 0 for running, 1 for queued or blocked, 2 for succeeded or dead, 3 for cancelled. A change
between scheduled and ready is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from offpath.model.job import JobState

STREAM: Final = "offpath.jobs"
"""The outbox stream of announcements."""
QUEUED: Final = 1
RUNNING: Final = 2
SUCCEEDED: Final = 4
DEAD: Final = 8
CANCELLED: Final = 16
DETAILS: Final = 32
"""Results and error types are told too."""

BITS: Final = {
    JobState.QUEUED: QUEUED,
    JobState.RUNNING: RUNNING,
    JobState.SUCCEEDED: SUCCEEDED,
    JobState.DEAD: DEAD,
    JobState.CANCELLED: CANCELLED,
}
_RANKS: Final = {
    JobState.RUNNING: 0,
    JobState.BLOCKED: 1,
    JobState.QUEUED: 1,
    JobState.SUCCEEDED: 2,
    JobState.DEAD: 2,
    JobState.CANCELLED: 3,
}


def announced(states: Iterable[JobState], *, details: bool = False) -> int:
    """The bits for these states."""
    return sum({BITS[state] for state in states}) | (DETAILS if details else 0)


def sequence(state: JobState, deliveries: int, redrives: int) -> int:
    """The number of a change into ``state``."""
    return 4 * (deliveries + redrives) + _RANKS[state]
