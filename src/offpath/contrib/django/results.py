"""Results as Django shows them, made of a job's record or of a run."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Final

import msgspec
from django.utils import timezone

from offpath.contrib.django.names import InvalidTask, TaskError, TaskResult, TaskResultStatus
from offpath.model.job import Failure, JobRecord, JobState

if TYPE_CHECKING:
    from offpath.runtime.extension import Running

_STATUS: Final = {
    JobState.BLOCKED: TaskResultStatus.READY,
    JobState.QUEUED: TaskResultStatus.READY,
    JobState.RUNNING: TaskResultStatus.RUNNING,
    JobState.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    JobState.DEAD: TaskResultStatus.FAILED,
    JobState.CANCELLED: TaskResultStatus.FAILED,
}
_PATHS: Final = {"timeout": "builtins.TimeoutError", "cancelled": "asyncio.CancelledError"}
_RAISED: Final = re.compile(r"^([A-Za-z_][\w.]*)(?=:|$)", re.MULTILINE)
_OTHER: Final = "offpath.errors.OffpathError"
_UNKNOWN: Final = "offpath"
"""The id of a worker whose run left no record: one that succeeded, or was put off."""


def ready(task: Any, job: str, args: list[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - Django's
    """The result of a task that is being enqueued."""
    return _result(task, job, TaskResultStatus.READY, args, kwargs)


def begun(
    task: Any,  # noqa: ANN401 - a Task of Django's
    run: Running,
    now: datetime,
    args: list[Any],
    kwargs: dict[str, Any],
) -> Any:  # noqa: ANN401 - a TaskResult
    """The result of a task whose handler begins."""
    one = run.jobs[0]
    result = _result(task, one.id, TaskResultStatus.RUNNING, args, kwargs)
    _set(result, enqueued_at=_shown(one.enqueued_at), last_attempted_at=_shown(now))
    _set(result, started_at=_shown(now), worker_ids=_workers(one.deliveries, []))
    return result


def succeeded(result: Any, value: Any) -> None:  # noqa: ANN401 - Django's, JSON
    """Let a result say that the task succeeded."""
    _set(result, status=TaskResultStatus.SUCCESSFUL, finished_at=_now(), _return_value=value)


def failed(result: Any, error: BaseException) -> None:  # noqa: ANN401 - Django's
    """Let a result say that the task failed for good."""
    kind = type(error)
    result.errors.append(
        TaskError(
            exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
            traceback="".join(format_exception(error)),
        )
    )
    _set(result, status=TaskResultStatus.FAILED, finished_at=_now())


def result_of(task: Any, record: JobRecord) -> Any:  # noqa: ANN401 - Django's
    """The result of a job that the store has."""
    given = msgspec.json.decode(record.input)
    status = _STATUS[record.state]
    result = _result(
        _as_enqueued(task, record),
        record.id,
        status,
        given.get("args", []),
        given.get("kwargs", {}),
    )
    ran = _shown(record.started_at) if record.deliveries else None
    _set(result, enqueued_at=_shown(record.enqueued_at), started_at=ran, last_attempted_at=ran)
    _set(result, finished_at=_shown(record.finished_at), errors=_errors(record.failures))
    known = [one.worker for one in record.failures if one.worker is not None]
    known += [record.worker] if record.worker is not None else []
    _set(result, worker_ids=_workers(record.deliveries, known))
    if status == TaskResultStatus.SUCCESSFUL and record.result is not None:
        _set(result, _return_value=msgspec.json.decode(record.result))
    return result


def _as_enqueued(task: Any, record: JobRecord) -> Any:  # noqa: ANN401 - Django's
    later = record.run_at if record.run_at > record.enqueued_at else None
    try:
        # not by using(), which takes a None for "as it is": the task may be one with a time
        return replace(
            task, priority=record.priority, queue_name=record.queue, run_after=_shown(later)
        )
    except InvalidTask:  # an operator gave it a queue or a priority that Django has not
        return task


def _errors(failures: tuple[Failure, ...]) -> list[Any]:
    return [
        TaskError(
            exception_class_path=_path(one), traceback=one.traceback or f"{one.type}: {one.message}"
        )
        for one in failures
    ]


def _path(failure: Failure) -> str:
    """The importable path of an exception; the traceback has it where the record has no module."""
    if failure.module is not None:
        return f"{failure.module}.{failure.type}"
    raised = _RAISED.findall(failure.traceback or "")
    if not raised or raised[-1].rpartition(".")[2] != failure.type.rpartition(".")[2]:
        return _PATHS.get(failure.kind, _OTHER)
    return str(raised[-1]) if "." in raised[-1] else f"builtins.{raised[-1]}"


def _workers(deliveries: int, known: list[str]) -> list[str]:
    """One for each run that began: the last ones are those of which the record tells."""
    return [*[_UNKNOWN] * (deliveries - len(known)), *known][:deliveries]


def _result(
    task: Any,  # noqa: ANN401 - a Task of Django's
    job: str,
    status: Any,  # noqa: ANN401 - a TaskResultStatus
    args: list[Any],
    kwargs: dict[str, Any],
) -> Any:  # noqa: ANN401 - a TaskResult
    return TaskResult(
        task=task,
        id=job,
        status=status,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )


def _set(result: Any, **values: Any) -> None:  # noqa: ANN401 - Django's, which is frozen
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _now() -> datetime:
    now: datetime = timezone.now()
    return now


def _shown(moment: datetime | None) -> datetime | None:
    """A time as this project has them: naive in its zone where ``USE_TZ`` is off."""
    from django.conf import settings

    if moment is None or settings.USE_TZ:
        return moment
    naive: datetime = timezone.make_naive(moment)
    return naive
