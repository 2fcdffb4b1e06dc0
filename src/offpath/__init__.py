"""Durable background work on the database you already run."""

import importlib
import typing

from offpath.runtime import added_loops as _added_loops

if typing.TYPE_CHECKING:
    # so that `offpath.errors.JobDead` is known behind `import offpath`, as it is at run time
    from offpath import batch_tasks as batch_tasks
    from offpath import errors as errors
    from offpath import events as events
    from offpath import extensions as extensions
    from offpath import records as records
    from offpath import retries as retries
    from offpath import settlements as settlements
    from offpath import sweeps as sweeps
    from offpath import testing as testing
    from offpath import workers as workers
    from offpath.app import App
    from offpath.errors import (
        Abort,
        CoolDown,
        GroupFailed,
        InvalidArgument,
        JobCancelled,
        JobDead,
        JobEnded,
        JobNotFound,
        OffpathError,
        SignalTimeout,
        Snooze,
        StoreUnavailable,
        UniqueConflict,
        UnknownTask,
        WaitTimeout,
    )
    from offpath.extensions import extend
    from offpath.jobs.blocking.client import BlockingClient
    from offpath.jobs.blocking.views import BlockingHandle
    from offpath.jobs.client.batch import Batch
    from offpath.jobs.client.bound import Bound
    from offpath.jobs.client.group_events import Group
    from offpath.jobs.define.task import Task
    from offpath.jobs.handler.context import Context
    from offpath.jobs.retry import retry
    from offpath.jobs.values.classification import ABORT, RETRY, FailureInfo
    from offpath.jobs.values.gates import (
        Gate,
        all_settled,
        all_succeeded,
        any_succeeded,
        at_least,
        descendants_settled,
        descendants_succeeded,
        gate,
    )
    from offpath.jobs.values.handle import Handle
    from offpath.jobs.values.job import Job
    from offpath.jobs.values.plan import Plan
    from offpath.jobs.worker.app_worker import AppWorker as Worker
    from offpath.model.event import JobEvent
    from offpath.model.gate import When
    from offpath.model.group import GroupPolicy
    from offpath.model.job import JobRecord, JobState, Progress, UniquePolicy
    from offpath.model.limit_options import Limit, Rate
    from offpath.model.options import Options, Unique
    from offpath.model.redrive import Redrive
    from offpath.model.retry import Backoff, RetryOptions
    from offpath.runtime.codec import Codec, JsonCodec
    from offpath.runtime.loop import LoopSpec

    __version__: str

__all__ = [
    "ABORT",
    "RETRY",
    "Abort",
    "App",
    "Backoff",
    "Batch",
    "BlockingClient",
    "BlockingHandle",
    "Bound",
    "Codec",
    "Context",
    "CoolDown",
    "FailureInfo",
    "Gate",
    "Group",
    "GroupFailed",
    "GroupPolicy",
    "Handle",
    "InvalidArgument",
    "Job",
    "JobCancelled",
    "JobDead",
    "JobEnded",
    "JobEvent",
    "JobNotFound",
    "JobRecord",
    "JobState",
    "JsonCodec",
    "Limit",
    "OffpathError",
    "Options",
    "Plan",
    "Progress",
    "Rate",
    "Redrive",
    "RetryOptions",
    "SignalTimeout",
    "Snooze",
    "StoreUnavailable",
    "Task",
    "Unique",
    "UniqueConflict",
    "UniquePolicy",
    "UnknownTask",
    "WaitTimeout",
    "When",
    "Worker",
    "__version__",
    "all_settled",
    "all_succeeded",
    "any_succeeded",
    "at_least",
    "descendants_settled",
    "descendants_succeeded",
    "extend",
    "gate",
    "retry",
]


def _watched(app: "App") -> bool:
    """True if the store keeps what operators do and see: else there is nothing for these loops."""
    from offpath.store.capabilities import Profile

    return app.store().capabilities.offers(Profile.OPERATING)


def _action_loop(app: "App") -> "LoopSpec | None":
    """The loop that carries actions of operators on; loaded with the first worker."""
    if not _watched(app):
        return None
    from offpath.operating.action_loop import ActionLoop

    return ActionLoop(app).spec()


def _stats_loop(app: "App") -> "LoopSpec | None":
    """The loop that writes what workers count; loaded with the first worker."""
    if not _watched(app):
        return None
    from offpath.operating.stats_loop import StatsLoop

    return StatsLoop(app).spec()


_added_loops.ADDED_LOOPS.extend((_action_loop, _stats_loop))

_PLACES = {
    "offpath.app": ("App",),
    "offpath.errors": (
        "Abort",
        "CoolDown",
        "GroupFailed",
        "InvalidArgument",
        "JobCancelled",
        "JobDead",
        "JobEnded",
        "JobNotFound",
        "OffpathError",
        "SignalTimeout",
        "Snooze",
        "StoreUnavailable",
        "UniqueConflict",
        "UnknownTask",
        "WaitTimeout",
    ),
    "offpath.extensions": ("extend",),
    "offpath.jobs.blocking.client": ("BlockingClient",),
    "offpath.jobs.blocking.views": ("BlockingHandle",),
    "offpath.jobs.client.batch": ("Batch",),
    "offpath.jobs.client.bound": ("Bound",),
    "offpath.jobs.client.group_events": ("Group",),
    "offpath.jobs.define.task": ("Task",),
    "offpath.jobs.handler.context": ("Context",),
    "offpath.jobs.retry": ("retry",),
    "offpath.jobs.values.classification": ("ABORT", "FailureInfo", "RETRY"),
    "offpath.jobs.values.gates": (
        "Gate",
        "all_settled",
        "all_succeeded",
        "any_succeeded",
        "at_least",
        "descendants_settled",
        "descendants_succeeded",
        "gate",
    ),
    "offpath.jobs.values.handle": ("Handle",),
    "offpath.jobs.values.job": ("Job",),
    "offpath.jobs.values.plan": ("Plan",),
    "offpath.jobs.worker.app_worker": ("Worker",),
    "offpath.model.event": ("JobEvent",),
    "offpath.model.gate": ("When",),
    "offpath.model.group": ("GroupPolicy",),
    "offpath.model.job": ("JobRecord", "JobState", "Progress", "UniquePolicy"),
    "offpath.model.limit_options": ("Limit", "Rate"),
    "offpath.model.options": ("Options", "Unique"),
    "offpath.model.redrive": ("Redrive",),
    "offpath.model.retry": ("Backoff", "RetryOptions"),
    "offpath.runtime.codec": ("Codec", "JsonCodec"),
}
"""The module of each public name. A name is loaded when it is first asked for: a process that only
prints a help text, or enqueues, does not load a worker.
"""

_MODULES = (
    "batch_tasks",
    "economy",
    "errors",
    "events",
    "extensions",
    "records",
    "retries",
    "settlements",
    "settlements.rates",
    "sweeps",
    "testing",
    "workers",
)
"""Public modules, each with names of its own."""

_RENAMED = {"Worker": "AppWorker"}
"""Public names that are others in their modules."""

if not typing.TYPE_CHECKING:  # so that a name that is not there is an error to type checkers
    _PLACE_OF = {name: module for module, names in _PLACES.items() for name in names}

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("offpath")
        if name in _PLACE_OF:
            module = importlib.import_module(_PLACE_OF[name])
            globals()[name] = found = getattr(module, _RENAMED.get(name, name))
            return found
        if name in _MODULES:
            return importlib.import_module(f"offpath.{name}")
        if not name.startswith("_") and (place := _place_of(name)) is not None:
            raise ImportError(f"{name} is in {place}: from {place} import {name}", name=name)
        from offpath.model.other_words import OF_PACKAGE, missing

        raise missing(None, f"module {__name__!r}", name, OF_PACKAGE)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_MODULES})

    def _place_of(name: str) -> str | None:
        """Find the public module that has a name, for whoever looks for it here."""
        for module in _MODULES:
            try:
                found = importlib.import_module(f"offpath.{module}")
            except ImportError:  # an extra that is not installed
                continue
            if name in getattr(found, "__all__", ()):
                return found.__name__
        return None
