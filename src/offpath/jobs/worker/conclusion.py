"""The meaning of a handler's value for its job: a result, or a plan with its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpath.errors import GateError, InvalidArgument, PlanError, ResultError, UnsupportedType
from offpath.jobs.handler.plan_verbs import carry, require_returned
from offpath.jobs.values.group_values import checked_size
from offpath.jobs.values.plan import Plan
from offpath.model.group import Contribution
from offpath.model.settlement import Succeeded

if TYPE_CHECKING:
    from offpath.jobs.values.run import Run


def concluded(run: Run, value: Any, limit: int) -> Succeeded:  # noqa: ANN401 - any result
    """The success of a run whose handler gave ``value``; a plan's effects join its context.

    Raises ``PlanError``, and ``ResultError`` for a value that cannot be encoded, or that has over
    ``limit`` bytes.
    """
    context = run.context
    if context is not None and context.plans and run.task.strict:
        require_returned(context.plans, value)
    try:
        succeeded = _succeeded(run, value, limit)
        if context is not None:
            context.require_bounded()
    # These have verdicts of their own, and must not become errors of a result.
    except (PlanError, GateError):
        raise
    except (InvalidArgument, UnsupportedType) as error:
        raise ResultError(str(error)) from error
    return succeeded


def _succeeded(run: Run, value: Any, limit: int) -> Succeeded:  # noqa: ANN401 - any result
    context = run.context
    if isinstance(value, Plan):
        succeeded, effects = carry(run, value, context, limit)
        if context is not None:
            context.plan(effects)
        return succeeded
    text = run.task.results.encode(value)
    if text is not None:
        checked_size(text, limit, "the result")
    return _giving(run, text, limit)


def _giving(run: Run, text: str | None, limit: int) -> Succeeded:
    """The result is what the group is given, signed where its task has a codec of its own."""
    values = run.task.group_values
    if text is None or not values.signs:
        return Succeeded(result=text)
    payload = checked_size(values.signed(text), limit, "the group's value")
    run.gives = Contribution(payload=payload)
    return Succeeded(result=text, contributes=False)
