"""Extensions: code of yours, or of a library, around handlers, steps and deliveries."""

from offpath.jobs.handler.resources import Resource
from offpath.runtime.extension import (
    Applying,
    Committing,
    Delivering,
    Ended,
    Extension,
    NewEntry,
    Outgoing,
    Routing,
    Running,
    RunningJob,
)
from offpath.runtime.extensions import checked_extensions
from offpath.runtime.seats import EVERYWHERE

__all__ = [
    "Applying",
    "Committing",
    "Delivering",
    "Ended",
    "Extension",
    "NewEntry",
    "Outgoing",
    "Resource",
    "Routing",
    "Running",
    "RunningJob",
    "extend",
]


def extend(*extensions: Extension) -> None:
    """Add extensions to every app of this process, before each app's own.

    For what instruments a process from outside. An app that is open already has those that were
    there when it was opened. One that is there already is not added again. Raises
    ``InvalidArgument``.
    """
    for one in checked_extensions(extensions):
        if one not in EVERYWHERE:
            EVERYWHERE.append(one)
