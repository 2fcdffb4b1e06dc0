"""The blocking twins of the app's views, ``app.blocking.jobs`` and its neighbours, and of handles.

``groups`` is in a module of its own, for what it imports is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from offpath.jobs.blocking.twin import Twin, blocking
from offpath.jobs.client.dead_letters import DeadLetters
from offpath.jobs.client.flow import LimitKeys, Queues
from offpath.jobs.client.jobs_view import FORMER, JobsView
from offpath.jobs.schedules.schedules import Schedules
from offpath.jobs.values.handle import Handle
from offpath.jobs.values.job import G_co, S_co
from offpath.runtime.former import former_names


class BlockingJobs(Twin[JobsView]):
    """The verbs of :class:`offpath.jobs.client.jobs_view.JobsView`, blocking."""

    get = blocking(JobsView.get)
    find = blocking(JobsView.find)
    count = blocking(JobsView.count)
    counts = blocking(JobsView.counts)
    cancel = blocking(JobsView.cancel)
    redrive = blocking(JobsView.redrive)
    run_now = blocking(JobsView.run_now)
    amend = blocking(JobsView.amend)
    delete = blocking(JobsView.delete)
    _again = blocking(JobsView._again)  # noqa: SLF001 - behind a former name, as there

    if not TYPE_CHECKING:
        __getattr__ = former_names("app.blocking.jobs", FORMER)


class BlockingDead(Twin[DeadLetters]):
    """The verbs of :class:`offpath.jobs.client.dead_letters.DeadLetters`, blocking."""

    list = blocking(DeadLetters.list)
    show = blocking(DeadLetters.show)
    redrive = blocking(DeadLetters.redrive)
    discard = blocking(DeadLetters.discard)


class BlockingSchedules(Twin[Schedules]):
    """The verbs of :class:`offpath.jobs.schedules.schedules.Schedules`, blocking.

    What code defines is defined on the app itself: ``app.schedule(...)`` touches no store.
    """

    create = blocking(Schedules.create)
    change = blocking(Schedules.change)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    trigger = blocking(Schedules.trigger)
    delete = blocking(Schedules.delete)
    get = blocking(Schedules.get)
    list = blocking(Schedules.list)
    next = blocking(Schedules.next)
    history = blocking(Schedules.history)


class BlockingQueues(Twin[Queues]):
    """The verbs of :class:`offpath.jobs.client.flow.Queues`, blocking."""

    list = blocking(Queues.list)
    pause = blocking(Queues.pause)
    unknown = blocking(Queues.unknown)
    resume = blocking(Queues.resume)


class BlockingLimits(Twin[LimitKeys]):
    """The verbs of :class:`offpath.jobs.client.flow.LimitKeys`, blocking."""

    list = blocking(LimitKeys.list)
    get = blocking(LimitKeys.get)
    pause = blocking(LimitKeys.pause)
    cool_down = blocking(LimitKeys.cool_down)
    resume = blocking(LimitKeys.resume)


class BlockingHandle(Twin[Handle[S_co, G_co]], Generic[S_co, G_co]):
    """One enqueued job, for blocking code."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show the id."""
        return f"<BlockingHandle {self.id}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self._view.id

    @property
    def created(self) -> bool:
        """True if this enqueue made the job."""
        return self._view.created

    result = blocking(Handle[S_co, G_co].result)
    group = blocking(Handle[S_co, G_co].group)
    cancel_group = blocking(Handle[S_co, G_co].cancel_group)
    status = blocking(Handle[S_co, G_co].status)
    progress = blocking(Handle[S_co, G_co].progress)
    cancel = blocking(Handle[S_co, G_co].cancel)
