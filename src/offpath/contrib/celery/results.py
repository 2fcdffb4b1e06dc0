"""Results of tasks as Celery shows them."""

# ruff: noqa: ANN401, FBT002 - results are of any type; arguments stand as Celery has them

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from offpath.contrib.celery import exceptions
from offpath.contrib.celery.app_face import AppFace, current
from offpath.contrib.celery.catalogue import RESULT_METHODS
from offpath.contrib.celery.exceptions import TaskRevokedError, refuse
from offpath.contrib.celery.running_call import in_task
from offpath.contrib.celery.values import revived
from offpath.errors import JobCancelled, JobDead, JobNotFound, WaitTimeout
from offpath.model.job import JobState
from offpath.runtime.codec import JsonCodec

if TYPE_CHECKING:
    from offpath.model.job import Failure, JobRecord

PENDING, STARTED, RETRY = "PENDING", "STARTED", "RETRY"
SUCCESS, FAILURE, REVOKED = "SUCCESS", "FAILURE", "REVOKED"
_READY: Final = frozenset({SUCCESS, FAILURE, REVOKED})
_SPARE: Final = frozenset({"interval", "no_ack", "follow_parents", "disable_sync_subtasks"})
"""Arguments of ``get`` that mean nothing here."""


class AsyncResult:
    """The result of a task, by the id of its job."""

    parent: AsyncResult | GroupResult | None = None
    """The result that it follows in a chain or a chord."""

    def __init__(self, id: str, app: AppFace | None = None) -> None:  # noqa: A002 - Celery's name
        self.id = id
        self._app: AppFace = app or current()

    def __repr__(self) -> str:
        """Show the id."""
        return f"<AsyncResult {self.id}>"

    def __eq__(self, other: object) -> bool:
        """True for a result of the same job."""
        return isinstance(other, AsyncResult) and self.id == other.id

    def __hash__(self) -> int:
        """Hash the id."""
        return hash(self.id)

    @property
    def task_id(self) -> str:
        """The id."""
        return self.id

    @property
    def state(self) -> str:
        """``PENDING`` (also of an unknown id), ``STARTED``, ``RETRY``, ``SUCCESS``, ``FAILURE`` or
        ``REVOKED``.
        """
        record = self._record()
        return PENDING if record is None else _state(record)

    status = state

    def ready(self) -> bool:
        """True if it has ended."""
        return self.state in _READY

    def successful(self) -> bool:
        """True if it has succeeded."""
        return self.state == SUCCESS

    def failed(self) -> bool:
        """True if it has failed for good."""
        return self.state == FAILURE

    @property
    def result(self) -> Any:
        """The value, or the exception; None while there is neither."""
        record = self._record()
        return None if record is None else _outcome(record)

    info = result

    @property
    def traceback(self) -> str | None:
        """The traceback of the last failure."""
        record = self._record()
        failure = None if record is None else record.failure
        return None if failure is None else failure.traceback

    def get(self, timeout: float | None = None, propagate: bool = True, **spare: Any) -> Any:
        """Wait for the end; return the value, or raise what the task raised.

        Raises ``RuntimeError`` in a task, ``TimeoutError``, ``TaskRevokedError``, and
        ``JobNotFound`` for an id that no job has.
        """
        if unknown := spare.keys() - _SPARE:
            raise exceptions.NotInShim(f"get({', '.join(unknown)}=): natively a handle")
        if in_task() and spare.get("disable_sync_subtasks", True):
            raise RuntimeError(
                "result.get() in a task would hold its slot: link, or a plan (ctx.queue)"
            )
        try:
            return revived(self._app.handle(self.id).result(timeout=timeout))
        except WaitTimeout as error:
            raise exceptions.TimeoutError("the operation timed out") from error
        except (JobDead, JobCancelled) as ended:
            failure = _outcome(self._app.record(self.id))
            if propagate:
                raise failure from ended
            return failure

    wait = get

    def revoke(self, terminate: bool = False, signal: str | None = None) -> None:
        """Cancel it. What runs is told by ``ctx.cancelled``, and not killed."""
        del terminate, signal
        self._app.offpath.blocking.jobs.cancel(self.id)

    def forget(self) -> None:
        """Delete the job, if it has ended."""
        self._app.offpath.blocking.jobs.delete(self.id)

    def _record(self) -> JobRecord | None:
        try:
            return self._app.record(self.id)
        except JobNotFound:
            return None

    def __getattr__(self, name: str) -> Any:
        """Refuse what Celery's results have beside, by the word that is here."""
        if name in RESULT_METHODS:
            refuse(RESULT_METHODS[name], f"result.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class GroupResult:
    """The results of a group, in its order."""

    parent: AsyncResult | GroupResult | None = None

    def __init__(self, app: AppFace, results: Sequence[AsyncResult]) -> None:
        self._app = app
        self.results = list(results)

    def __len__(self) -> int:
        """The number of its results."""
        return len(self.results)

    def __iter__(self) -> Iterator[AsyncResult]:
        """Its results."""
        return iter(self.results)

    def __getitem__(self, at: int) -> AsyncResult:
        """One of its results."""
        return self.results[at]

    def get(self, timeout: float | None = None, propagate: bool = True, **spare: Any) -> list[Any]:
        """The values in order; ``timeout`` is for each. Raises as one result does."""
        return [one.get(timeout, propagate, **spare) for one in self.results]

    join = get

    def ready(self) -> bool:
        """True if all have ended."""
        return all(one.ready() for one in self.results)

    def successful(self) -> bool:
        """True if all have succeeded."""
        return all(one.successful() for one in self.results)

    def failed(self) -> bool:
        """True if one has failed for good."""
        return any(one.failed() for one in self.results)

    def waiting(self) -> bool:
        """True if one has not ended."""
        return not self.ready()

    def completed_count(self) -> int:
        """The number of those that have succeeded."""
        return sum(one.successful() for one in self.results)

    def revoke(self, terminate: bool = False) -> None:
        """Cancel all."""
        for one in self.results:
            one.revoke(terminate=terminate)

    def forget(self) -> None:
        """Delete those that have ended."""
        for one in self.results:
            one.forget()

    def __getattr__(self, name: str) -> Any:
        """Refuse what Celery's results have beside, by the word that is here."""
        if name in RESULT_METHODS:
            refuse(RESULT_METHODS[name], f"result.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _state(record: JobRecord) -> str:
    match record.state:
        case JobState.SUCCEEDED:
            return SUCCESS
        case JobState.CANCELLED:
            return REVOKED
        case JobState.DEAD:
            return REVOKED if _revoked(record.failure) else FAILURE
        case JobState.RUNNING:
            return STARTED
        case _:
            return RETRY if record.failures else PENDING


def _revoked(failure: Failure | None) -> bool:
    return failure is not None and failure.type == TaskRevokedError.__name__


def _outcome(record: JobRecord) -> Any:
    state = _state(record)
    if state == SUCCESS:
        return value_of(record)
    if state == REVOKED:
        return TaskRevokedError("revoked" if record.failure is None else record.failure.message)
    return None if state != FAILURE else exception_of(record)


def value_of(record: JobRecord) -> Any:
    """The value of a job that has succeeded."""
    return None if record.result is None else revived(JsonCodec().decode(record.result, Any))


def exception_of(record: JobRecord) -> Exception:
    """The exception that a job ended with: of its own class where that can be made again."""
    failure = record.failure
    if failure is None:
        return Exception(f"the job is dead: {record.reason}")
    if failure.kind == "timeout":
        return exceptions.TimeLimitExceeded(failure.message)
    kind = _class(failure)
    try:
        # the text of a KeyError is the repr of its key
        made = kind(ast.literal_eval(failure.message) if kind is KeyError else failure.message)
    except Exception:  # noqa: BLE001 - a class with another signature: its name is kept
        made = type(failure.type, (Exception,), {})(failure.message)
    return made


def _class(failure: Failure) -> type[Exception]:
    """The class of a failure, if its module is loaded: a row has nothing imported."""
    found = getattr(sys.modules.get(failure.module or "builtins"), failure.type, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    return type(failure.type, (Exception,), {})
