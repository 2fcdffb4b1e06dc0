"""Records of jobs: what listings, counts and events hold."""

from offpath.jobs.values.parts import PartOutcome
from offpath.model.event import EventKind
from offpath.model.job import Count, DeadReason, Failure, Page

__all__ = [
    "Count",
    "DeadReason",
    "EventKind",
    "Failure",
    "Page",
    "PartOutcome",
]
