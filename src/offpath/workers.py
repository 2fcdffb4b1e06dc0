"""Hooks of workers: what they are offered, how they are loaded, and a delay that adapts."""

from offpath.jobs.values.offers import BackedUp, Offer, WorkerLoad
from offpath.jobs.worker.backpressure import AdaptiveDelay

__all__ = [
    "AdaptiveDelay",
    "BackedUp",
    "Offer",
    "WorkerLoad",
]
