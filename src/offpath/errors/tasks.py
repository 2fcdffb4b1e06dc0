"""Errors of the program: of tasks, plans, gates, steps and signals."""

from __future__ import annotations

from offpath.errors.refusals import InvalidArgument, OffpathError


class GateError(InvalidArgument):
    """A gate whose condition can never hold, that is given wrongly, or that watches a job that is
    not stored.

    From a handler it ends the job as dead at once, like :class:`PlanError`.
    """

    code = "gate_error"


class PlanError(InvalidArgument):
    """A handler made a plan and did not return it, or one that cannot be carried out.

    The job is dead at once: it is an error of the program, and a retry cannot help.
    """

    code = "plan_error"


class ResultError(InvalidArgument):
    """The result of a task or a step is not as annotated, cannot be encoded, or is over
    ``max_result_bytes``. It ends the job as dead at once: a retry could not succeed.
    """

    code = "result_error"


class SignalError(InvalidArgument):
    """The payload of a signal that a wait took is not of the type that the wait asked for.

    Not caught by the handler, it ends the job as dead at once with reason ``bad_input``. The
    payload is kept with the job: redriven, it is read again, as the task then reads it, and a
    signal that came since is taken where it still does not fit.
    """

    code = "signal_error"


class StepError(InvalidArgument):
    """Two steps of one attempt have the same name. It ends the job as dead at once."""

    code = "step_error"


class OutputMismatch(OffpathError):
    """A batch handler did not return one output per input; the message has both numbers.

    Nobody can tell which output is whose, so each job of the batch fails by its own retry policy.
    """

    code = "output_mismatch"


class TaskError(OffpathError):
    """A task is defined wrongly."""

    code = "task"


class DuplicateTask(TaskError):
    """Two tasks of one app have the same name."""

    code = "duplicate_task"


class UnknownTask(TaskError, LookupError):
    """No task of this name is registered in this app."""

    code = "unknown_task"


class UnsupportedType(TaskError, TypeError):
    """A task's signature uses a type that cannot be serialised; the message has the remedy."""

    code = "unsupported_type"


class GroupValueError(InvalidArgument):
    """A group has no value that could be read: what its members gave could not be folded, became
    too large, or is in a codec that this app does not have.

    The members themselves have succeeded; their results are kept as any.
    """

    code = "group_value"


class SignalsFull(OffpathError):
    """The target has as many signals as it may have that no job has taken: this one was not kept.

    Sent again, it is kept once a job has taken one of them, or its time is over.
    """

    code = "signals_full"
