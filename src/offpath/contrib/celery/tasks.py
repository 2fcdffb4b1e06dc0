"""Celery's tasks: functions that are sent with ``delay`` and ``apply_async``."""

# ruff: noqa: ANN401 - arguments are of any type

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from offpath.contrib.celery.canvas import Signature, chunked, group, several
from offpath.contrib.celery.catalogue import TASK_METHODS, TASK_OPTIONS
from offpath.contrib.celery.exceptions import MaxRetriesExceededError, NotInShim, Retry, refuse
from offpath.contrib.celery.results import AsyncResult
from offpath.contrib.celery.running_call import TaskRequest, current_request, throw_is_absent
from offpath.contrib.celery.waits import SOFT, TaskTerms, retries_of

if TYPE_CHECKING:
    from offpath.contrib.celery.app_face import AppFace


class CeleryTask:
    """A function that is a task. Calling it calls the function, here and now."""

    def __init__(
        self,
        function: Callable[..., Any],
        terms: TaskTerms,
        name: str,
        app: Callable[[], AppFace],
    ) -> None:
        self.is_async = inspect.iscoroutinefunction(function)
        if terms.soft_time_limit is not None and not self.is_async:
            refuse(TASK_OPTIONS[SOFT], f"@task({SOFT}=)")
        self.run: Callable[..., Any] = function
        self.name = name
        self.terms = terms
        self._find_app = app
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        """Show the name."""
        return f"<CeleryTask {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.run(self, *args, **kwargs) if self.terms.bind else self.run(*args, **kwargs)

    @property
    def app(self) -> AppFace:
        """Its app; of a shared task the current one."""
        return self._find_app()

    @property
    def request(self) -> TaskRequest:
        """The call that runs here."""
        return current_request()

    @property
    def max_retries(self) -> int:
        """The number of times that it is run again."""
        return self.terms.max_retries

    @property
    def default_retry_delay(self) -> float:
        """Seconds until it is run again."""
        return self.terms.default_retry_delay

    def parameters(self) -> inspect.Signature:
        """The parameters of a call, without annotations: Celery does not look at them."""
        found = list(inspect.signature(self.run).parameters.values())[self.terms.bind :]
        return inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in found])

    # -- sending -----------------------------------------------------------------------------------

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """A call that is not sent."""
        return Signature(self.name, self.app, args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """A call that is not sent, and takes no result of what it follows."""
        return Signature(self.name, self.app, args, kwargs, immutable=True)

    def signature(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Signature:
        """A call that is not sent, with options."""
        immutable = bool(options.pop("immutable", False))
        given = options.pop("options", {}) | options
        return Signature(self.name, self.app, args, kwargs, immutable=immutable, options=given)

    subtask = signature

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Enqueue a call."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Enqueue a call with options.

        Raises ``TypeError`` where the arguments do not fit the function, and ``NotInShim``.
        """
        self.parameters().bind(*(args or ()), **(kwargs or {}))
        return Signature(self.name, self.app, args or (), kwargs).apply_async(**options)  # type: ignore[no-any-return]

    delay_on_commit = delay
    apply_async_on_commit = apply_async

    def starmap(self, items: Iterable[Sequence[Any]]) -> Signature:
        """One job that calls it with each list of arguments."""
        self._require_sync("starmap")
        return several("celery.starmap", self.s(), map(list, items))

    def map(self, items: Iterable[Any]) -> Signature:
        """One job that calls it with each item."""
        self._require_sync("map")
        return several("celery.map", self.s(), items)

    def chunks(self, items: Iterable[Sequence[Any]], n: int) -> group:
        """Jobs that call it with ``n`` lists of arguments each."""
        self._require_sync("chunks")
        return chunked(self.s(), map(list, items), n)

    def _require_sync(self, word: str) -> None:
        if self.is_async:
            raise NotInShim(f"{self.name} is async and has no {word}(): group() it, a job each")

    def AsyncResult(self, task_id: str) -> AsyncResult:  # noqa: N802 - Celery's name
        """The result of a call of it."""
        return AsyncResult(task_id, self.app)

    # -- running -----------------------------------------------------------------------------------

    def retry(  # noqa: PLR0917 - Celery's own order
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,  # noqa: FBT002 - as above
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> NoReturn:
        """Have the call run again; never returns.

        Raises ``Retry``, or ``exc`` (``MaxRetriesExceededError`` without one) where it was run as
        often as it may be, and ``NotInShim`` for what a retry cannot change here.
        """
        if args is not None or kwargs is not None or options:
            raise NotInShim(f"retry(): {TASK_RETRY}")
        throw_is_absent(throw)
        retries = self.request.retries
        most = self.terms.max_retries if max_retries is None else retries_of(max_retries)
        if self.request.called_directly or retries >= most:
            raise exc or MaxRetriesExceededError(
                f"{self.name} was run {retries + 1} times, as often as max_retries={most} allows"
            )
        wait = self._wait(eta, countdown)
        raise Retry(f"again in {wait:g} s", exc, delay=wait, runs=retries + 2)

    def _wait(self, eta: datetime | None, countdown: float | None) -> float:
        if eta is None:
            return float(self.default_retry_delay if countdown is None else countdown)
        aware = eta if eta.tzinfo is not None else eta.replace(tzinfo=UTC)
        return max(0.0, (aware - self.app.offpath.clock.now()).total_seconds())

    def __getattr__(self, name: str) -> Any:
        """Refuse what Celery's tasks have beside, by the word that is here."""
        if name in TASK_METHODS:
            refuse(TASK_METHODS[name], f"task.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


TASK_RETRY = "a retry has the arguments and options of its job: enqueue another job, or use a step"
