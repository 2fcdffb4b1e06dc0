"""The jobs that were enqueued: looked up and asserted, with a failure text that shows what there
is.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import msgspec

from offpath.errors import InvalidArgument
from offpath.jobs.define.task import Task
from offpath.jobs.values.job import Job
from offpath.model.redact import redact, redact_text
from offpath.model.unsent import unsent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offpath.app import App
    from offpath.jobs.client.selection import Where
    from offpath.model.job import JobRecord

Wanted: TypeAlias = "Task[..., Any, Any] | Job[Any, Any] | str"
"""A task, its name, or an unsent job (``task.job(...)``) with the very same arguments."""

MOST_SHOWN = 20
_WIDEST = 160


async def enqueued(app: App, **where: Unpack[Where]) -> list[JobRecord]:
    """Every job in the app's store, in whatever state, oldest first.

    Takes the filters of ``app.jobs.find``: ``task``, ``queue``, ``state``, ``tags``, …
    """
    return [record async for record in app.jobs.each(newest=False, **where)]


async def assert_enqueued(
    app: App,
    wanted: Wanted,
    /,
    *,
    count: int | None = None,
    inputs: Mapping[str, Any] | None = None,
    **where: Unpack[Where],
) -> list[JobRecord]:
    """Assert that jobs of a task were enqueued; returns them, oldest first.

    ``wanted`` is a task, its name, or an unsent job: ``assert_enqueued(app, send.job("ann"))``
    wants the same arguments, checked like the call itself. ``inputs`` wants some of them, by name.
    ``count`` is how many exactly, 0 for none; at least one when it is not given. The filters are
    those of ``app.jobs.find``: ``queue``, ``state``, ``tags``, …

    Jobs that have run or ended count as well, unless ``state`` says otherwise.
    """
    if "task" in where:
        raise InvalidArgument("the task is the second argument of assert_enqueued")
    name = wanted if isinstance(wanted, str) else _name(wanted)
    task = app.tasks.get(name)
    if inputs is not None and task is None:
        raise InvalidArgument(f"task {name!r} is not registered here: its inputs cannot be read")
    chosen: Where = {**where, "task": name}
    found = [
        record
        for record in await enqueued(app, **chosen)
        if _same(record, wanted) and (inputs is None or _has(task, record, inputs))
    ]
    if (len(found) != count) if count is not None else not found:
        raise AssertionError(await _explained(app, wanted, count, inputs, where, len(found)))
    return found


async def refute_enqueued(
    app: App,
    wanted: Wanted,
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    **where: Unpack[Where],
) -> None:
    """Assert that no such job was enqueued; the arguments are those of :func:`assert_enqueued`."""
    await assert_enqueued(app, wanted, count=0, inputs=inputs, **where)


def _name(wanted: object) -> str:
    if isinstance(wanted, Job):
        return wanted.task
    if isinstance(wanted, Task):
        return wanted.name
    kind = type(wanted).__name__
    raise InvalidArgument(f"wanted is a task, its name or task.job(...), not {kind}")


def _same(record: JobRecord, wanted: Wanted) -> bool:
    return not isinstance(wanted, Job) or record.fingerprint == unsent(wanted).new.fingerprint


def _has(task: Task[..., Any, Any] | None, record: JobRecord, inputs: Mapping[str, Any]) -> bool:
    if task is None:
        return False
    given = _arguments(task, record)
    return all(name in given and given[name] == value for name, value in inputs.items())


def _arguments(task: Task[..., Any, Any], record: JobRecord) -> dict[str, Any]:
    """The arguments as the handler gets them, by name, defaults included."""
    args, kwargs = task.inputs.decode(record.input)
    context = (None,) if task.takes_context else ()
    bound = inspect.signature(task.fn).bind(*context, *args, **kwargs)
    bound.apply_defaults()
    return dict(list(bound.arguments.items())[len(context) :])


# -- the failure text ------------------------------------------------------------------------------


async def _explained(
    app: App,
    wanted: Wanted,
    count: int | None,
    inputs: Mapping[str, Any] | None,
    where: Mapping[str, Any],
    found: int,
) -> str:
    return "\n".join(
        (
            f"expected {_asked(wanted, count, inputs, where)}, found {found}.",
            *_listing(app, await enqueued(app), _name_of(wanted)),
        )
    )


def _name_of(wanted: Wanted) -> str:
    return wanted if isinstance(wanted, str) else _name(wanted)


def _asked(
    wanted: Wanted, count: int | None, inputs: Mapping[str, Any] | None, where: Mapping[str, Any]
) -> str:
    parts = [f"{'at least one job' if count is None else f'{count} job(s)'} of {_name_of(wanted)}"]
    if isinstance(wanted, Job):
        parts.append("with the same arguments as the job given")
    if inputs is not None:
        parts.append(f"with {_short(inputs)}")
    parts += [f"{name}={_short(value)}" for name, value in where.items()]
    return ", ".join(parts)


def _listing(app: App, records: Sequence[JobRecord], name: str) -> Iterator[str]:
    if not records:
        yield "Nothing was enqueued at all."
        return
    yield f"There are {len(records)} job(s):"
    # Those of the task first: they are the ones that nearly fit.
    ordered = sorted(records, key=lambda record: record.task != name)
    for record in ordered[:MOST_SHOWN]:
        yield f"  {_line(app, record, inputs=record.task == name)}"
    if len(ordered) > MOST_SHOWN:
        yield f"  … and {len(ordered) - MOST_SHOWN} more"


def _line(app: App, record: JobRecord, *, inputs: bool) -> str:
    parts = [f"{record.task}: {record.state} in {record.queue!r}, due {record.run_at.isoformat()}"]
    if record.tags:
        parts.append(f"tags {', '.join(record.tags)}")
    if inputs:
        parts.append(f"with {_shown(app.tasks.get(record.task), record)}")
    return ", ".join(parts)


def _shown(task: Task[..., Any, Any] | None, record: JobRecord) -> str:
    """The arguments, secrets hidden by the names of their fields."""
    if task is None:
        return "arguments of a task that is not registered here"
    try:
        return _short(_arguments(task, record))
    except (InvalidArgument, TypeError):
        return "arguments that do not fit the task as it is now"


def _short(value: object) -> str:
    """``value`` without what its field names say is secret, also inside of users' own objects."""
    plain = msgspec.to_builtins(value, enc_hook=repr, str_keys=True)
    text = redact_text(repr(redact(plain)))
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"
