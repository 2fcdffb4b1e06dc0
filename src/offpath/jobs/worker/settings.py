"""From an app's settings to a worker's."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec

from offpath.config import Settings
from offpath.errors import InvalidArgument
from offpath.jobs.values.offers import HOOKS, WorkerHooks, WorkerOverrides
from offpath.jobs.worker.judge import AttemptRules
from offpath.jobs.worker.terms import WorkerSettings
from offpath.model import checks
from offpath.model.served import by_order, by_queue, orders_of, refused_queues
from offpath.runtime.baggage import PLAIN, HeaderRules

if TYPE_CHECKING:
    from offpath.jobs.values.runnable import OnFailure


def overridden(settings: Settings, overrides: WorkerOverrides) -> Settings:
    """The same settings but for these. Raises ``InvalidArgument``."""
    checks.known(overrides, WorkerOverrides.__annotations__, "a worker has no setting")
    given = {
        name: value for name, value in overrides.items() if value is not None and name not in HOOKS
    }
    orders_of(given.get("dispatch", settings.dispatch))
    queues = given.get("queues")
    if isinstance(queues, str):
        raise InvalidArgument(f"queues must be a list, not one str: write queues=[{queues!r}]")
    if "dispatch" in given:
        given["dispatch"] = by_order(given["dispatch"])
    if queues is not None:
        given["queues"] = _checked_queues(by_queue(queues))
    try:
        result = msgspec.convert({**msgspec.structs.asdict(settings), **given}, Settings)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"worker setting: {_explained(error)}") from error
    for queue in result.queues:
        checks.name(queue, "queue")
    if refused := refused_queues(result.queues):
        raise InvalidArgument(refused)
    return result


def _checked_queues(queues: object) -> object:
    """Queues whose limits are numbers of jobs. Raises ``InvalidArgument``."""
    for name, most in queues.items() if isinstance(queues, Mapping) else ():
        # By its exact type, for Python counts True as the number 1.
        if most is not None and (type(most) is not int or most < 1):
            raise InvalidArgument(
                f"queue {name!r}: how many of its jobs run at once is 1 or more, or None, not "
                f"{most!r}; a worker serves those that are named, and app.queues.pause stops one"
            )
    return queues


def _explained(error: Exception) -> str:
    """The fault of a setting, with the words that it may be."""
    text = str(error)
    name = text.rpartition("`$.")[2].rstrip("`")
    words = get_args(get_type_hints(Settings).get(name))
    if text.startswith("Invalid enum value") and words:
        return f"{name} is one of {', '.join(map(str, words))}: {text}"
    return text


def hooks_in(overrides: WorkerOverrides) -> WorkerHooks:
    """The hooks among what a worker was given."""
    given: Any = {name: hook for name, hook in overrides.items() if name in HOOKS}
    found: WorkerHooks = given
    return found


def worker_terms(
    settings: Settings,
    on_failure: OnFailure | None,
    hooks: WorkerHooks | None = None,
    *,
    takes: bool = True,
    headers: HeaderRules = PLAIN,
) -> WorkerSettings:
    """The worker's settings, from the app's."""
    hooks = hooks or {}
    rules = AttemptRules(
        keep_succeeded=settings.keep_succeeded,
        keep_dead=settings.keep_dead,
        keep_cancelled=settings.keep_cancelled,
        on_failure=on_failure,
        headers=headers,
        abort_fails=settings.abort == "fail",
    )
    order, orders = orders_of(settings.dispatch)
    return WorkerSettings(
        concurrency=settings.concurrency,
        queues=settings.served_queues,
        queue_limits=settings.queue_limits,
        order=order,
        orders=orders,
        lease_seconds=settings.lease_seconds,
        poll_interval=settings.poll_interval,
        drain_timeout=settings.drain_timeout,
        max_deliveries=settings.max_deliveries,
        max_result_bytes=settings.max_result_bytes,
        max_children=settings.max_children,
        redact=settings.redact,
        on_dead_loop=settings.on_dead_loop,
        rules=rules,
        version=_version(),
        backpressure=hooks.get("backpressure"),
        accept=hooks.get("accept"),
        on_backlog=hooks.get("on_backlog"),
        backlog_after=settings.backlog_after,
        backlog_every=settings.backlog_every,
        takes=takes,
    )


def _version() -> str:
    try:
        return version("offpath")
    except PackageNotFoundError:  # run from a copy of the sources
        return "unknown"
