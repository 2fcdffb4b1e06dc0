"""One durable step: looked up, or done and recorded."""

from __future__ import annotations

import inspect
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from offpath.errors import InvalidArgument, ResultError, UnsupportedType
from offpath.jobs.values import names
from offpath.jobs.values.group_values import checked_size
from offpath.runtime.parameters import return_type
from offpath.runtime.signature import ResultModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from offpath.jobs.handler.durable.book import StepBook
    from offpath.runtime.codec import Codec


async def step(
    book: StepBook,
    name: str,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:  # noqa: ANN401 - what fn returns
    """The result that ``fn`` returned when the step was done, now or before."""
    if not callable(fn):
        raise InvalidArgument(f"a step takes a function and its arguments, not {fn!r:.80}")
    key = book.step_key(name)
    what = f"step {name!r} of task {book.run.job.task!r}"
    results = results_of(fn, book.run.task.results.codec, what)
    known = await book.recorded()
    if key not in known:
        with book.working(), names.in_step(name):
            value = await _called(book, name, partial(fn, *args, **kwargs), is_async(fn))
            text = _recordable(results, value, book.host.max_result_bytes, what)
            return results.decode(await book.put(key, text))
    return results.decode(known[key])


def _recordable(results: ResultModel, value: Any, limit: int, what: str) -> str | None:  # noqa: ANN401
    """A result as it may be recorded. Raises ``ResultError``."""
    try:
        text = results.encode(value)
        return None if text is None else checked_size(text, limit, f"the result of {what}")
    except InvalidArgument as error:
        raise ResultError(str(error)) from error


async def _called(book: StepBook, name: str, call: Callable[[], Any], awaited: bool) -> Any:  # noqa: ANN401
    running, extensions = book.run.running, book.host.extensions
    if running is None or extensions is None:
        value = call() if awaited else await book.call(call)
    elif awaited:
        with extensions.stepping(running, name):
            return await call()
    else:
        loop = book.host.loop

        def inside() -> Any:  # noqa: ANN401 - as above
            with extensions.stepping(running, name, loop):
                return call()

        value = await book.call(inside)
    return await value if inspect.isawaitable(value) else value


def is_async(fn: Callable[..., Any]) -> bool:
    """True if a call of it gives a coroutine at once: other functions may block, and get a
    thread.
    """
    plain: Any = fn
    while isinstance(plain, partial):
        plain = plain.func
    plain = inspect.unwrap(plain)
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(
        getattr(plain, "__call__", None)  # noqa: B004 - an object of a class with a coroutine method
    )


def results_of(fn: Callable[..., Any], codec: Codec, what: str) -> ResultModel:
    """The form in which results of ``fn`` are recorded, by its annotation. Raises ``ResultError``
    for a type that cannot be recorded.
    """
    try:
        annotation = return_type(fn, what)
    except ValueError:  # a built-in that tells no signature
        annotation = Any
    try:
        return _model_of(annotation, codec, what)
    except UnsupportedType as error:
        raise ResultError(str(error)) from error


def _model_of(annotation: Any, codec: Codec, what: str) -> ResultModel:  # noqa: ANN401 - any type
    key: tuple[Any, Any] = (annotation, codec)
    try:
        hash(key)
    except TypeError:
        return ResultModel(annotation, codec=codec, what=what)
    return _model(*key, what)


@lru_cache(maxsize=512)
def _model(annotation: Any, codec: Any, what: str) -> ResultModel:  # noqa: ANN401 - any type
    return ResultModel(annotation, codec=codec, what=what)
