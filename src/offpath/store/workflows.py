"""The part of the store that holds workflows: groups, gates, steps, waits.

The rules of the store's protocol hold here too. Most of it is not called but carried: gates and
contributions are effects, and are counted in the transaction that ends a job, whatever ends it
(settle, cancel, rescue, expiry, an ending gate).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from offpath.model.changes import ChangedJob
from offpath.model.effects import Effects
from offpath.model.gate import GateRecord
from offpath.model.group import GroupRecord
from offpath.model.job import LeasedJob
from offpath.model.wait import NewSignal, Undoing
from offpath.store.absence import none_of, refused
from offpath.store.capabilities import Profile


class WorkflowStore(Protocol):
    """Groups, gates, steps and waits."""

    # -- groups --------------------------------------------------------------------------------

    async def groups(self, ids: Sequence[str]) -> list[GroupRecord]:
        """The groups of these ids that exist, in no particular order. Cheap enough to poll.

        A lone job is answered as a group of one. A group is there as long as one of its jobs is.
        """
        ...

    async def cancel_groups(
        self, ids: Sequence[str], *, limit: int, keep: float | None = None
    ) -> list[ChangedJob]:
        """Mark groups as closing and cancel up to ``limit`` of their open members, as ``cancel``.

        What joins a closing group later is cancelled by :meth:`close_groups`. A running member
        that was marked before is not answered again. Jobs that died at gates because of it are
        answered too, behind the others. Repeat it until it answers nothing.
        """
        ...

    async def close_groups(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Cancel up to ``limit`` open members of groups that are closing: those whose policy is
        ``fail_fast`` and of which a member died or was cancelled, and those of
        :meth:`cancel_groups`. Members that are already marked do not count. Answers as
        :meth:`cancel_groups`. Costs one probe of a small index when there is nothing to do.
        """
        ...

    # -- gates ---------------------------------------------------------------------------------

    async def gates(self, ids: Sequence[str]) -> list[GateRecord]:
        """The gates of these ids that exist. A gate goes with the last job that it held."""
        ...

    async def watched(self, job_id: str) -> list[str]:
        """The jobs that the gate of this one watches, or has watched, in their order.

        Of a job that attached to the holder of its key: that one. Empty without a gate.
        """
        ...

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Give up waits whose time is over by the store's clock, and repair what was skipped.

        In this order for each job that is due and that nobody runs: its deadline has passed: dead
        with reason ``deadline``, be it blocked, ready or scheduled, whether or not a worker knows
        its task or serves its queue. Its gate's time is over: the gate is ``timed_out`` and its
        jobs are dead with reason ``gate_timeout``. Its wait for a signal is over: queued, due at
        once. Each dead one gets a failure in its history and is counted in groups and gates like
        any end. Jobs that died at other gates because of it are answered too, behind the others.
        Also frees blocked jobs of fired gates that could not be released at once, removes signals
        whose time is over, and wakes who waits for a signal that was left (:meth:`send_signal`).
        At most ``limit`` jobs a call.
        """
        ...

    # -- steps ---------------------------------------------------------------------------------

    async def put_step(self, job: LeasedJob, name: str, result: str | None) -> str | None:
        """Record a step's result once; answers with what is recorded, which is another one when
        the step had been recorded before. Raises ``LeaseLost`` when the fence does not hold.
        """
        ...

    async def steps(self, job_id: str) -> dict[str, str | None]:
        """The recorded steps of a job: name to result. They go with the job, and when it is undone.

        A redriven job keeps them: it goes on where it had come to.
        """
        ...

    # -- signals -------------------------------------------------------------------------------

    async def send_signal(self, signal: NewSignal) -> bool:
        """Keep a signal, and make the job that waits for it due at once. False: it was sent before.

        One signal wakes one job: the longest waiting of those that wait for this target and event.
        When a job that was woken for it ends without having taken it, the next one is woken, at
        once or by the next :meth:`expire_blocked`. Raises ``SignalsFull``, and keeps nothing,
        where the target has ``signal.most`` that are not taken and whose time is not over; never
        for one that was sent before.
        """
        ...

    async def take_signal(
        self, job: LeasedJob, *, target: str, event: str, step: str
    ) -> str | None:
        """Take the oldest signal and record its payload as the result of ``step``, in one commit.

        None: there is none. A step that is recorded already answers with its result and takes
        nothing. Raises ``LeaseLost``.
        """
        ...

    # -- compensation --------------------------------------------------------------------------

    async def put_undo(self, job: LeasedJob, name: str, undo: str) -> None:
        """Record what undoes a step, once by name, in the order of first calls.

        Removed when the job succeeds. Raises ``LeaseLost``.
        """
        ...

    async def undoing(self, *, limit: int, after: str | None = None) -> list[Undoing]:
        """Dead and cancelled jobs that have something to undo, by id; with ``after``, those of
        later ids. One probe when there are none.
        """
        ...

    async def compensate(self, job_id: str, effects: Effects) -> bool:
        """Commit ``effects`` and forget the job's undo records and steps, in one transaction.

        False, and nothing written, when it has none (somebody else did it) or is not dead or
        cancelled any more.
        """
        ...


class WithoutWorkflows:
    """A store without groups, gates, steps and signals."""

    groups = refused(Profile.GROUPS, WorkflowStore.groups)
    cancel_groups = refused(Profile.GROUPS, WorkflowStore.cancel_groups)
    close_groups = none_of(WorkflowStore.close_groups, list)
    gates = none_of(WorkflowStore.gates, list)
    watched = none_of(WorkflowStore.watched, list)
    put_step = refused(Profile.WORKFLOWS, WorkflowStore.put_step)
    steps = refused(Profile.WORKFLOWS, WorkflowStore.steps)
    send_signal = refused(Profile.WORKFLOWS, WorkflowStore.send_signal)
    take_signal = refused(Profile.WORKFLOWS, WorkflowStore.take_signal)
    put_undo = refused(Profile.WORKFLOWS, WorkflowStore.put_undo)
    undoing = none_of(WorkflowStore.undoing, list)
    compensate = refused(Profile.WORKFLOWS, WorkflowStore.compensate)
