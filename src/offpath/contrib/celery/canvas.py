"""Celery's canvas: signatures, and chains, groups and chords of them."""

# ruff: noqa: ANN401 - arguments are of any type

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from offpath.contrib.celery.catalogue import CALL_OPTIONS
from offpath.contrib.celery.exceptions import NotInShim, refuse

if TYPE_CHECKING:
    from offpath.contrib.celery.app_face import AppFace
    from offpath.contrib.celery.results import AsyncResult, GroupResult


class Canvas:
    """Anything that can be sent: one signature, or several that belong together."""

    options: dict[str, Any]

    @property
    def app(self) -> AppFace:
        """The app that it is sent through."""
        raise NotImplementedError

    def set(self, **options: Any) -> Self:
        """Give options of ``apply_async``; returns itself."""
        check_options(options)
        self.options |= options
        return self

    def link(self, callback: Canvas) -> Canvas:
        """Have a signature called with the result, once it is there."""
        return _added(self.options, "link", callback)

    def link_error(self, errback: Canvas) -> Canvas:
        """Have a signature called when it has failed for good."""
        return _added(self.options, "link_error", errback)

    def on_error(self, errback: Canvas) -> Self:
        """Have a signature called when it has failed for good; returns itself."""
        self.link_error(errback)
        return self

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Send it, with further arguments."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """Send it, with further arguments and options."""
        check_options(options)
        return self.app.send_canvas(self, tuple(args), dict(kwargs or {}), options)

    def __or__(self, other: object) -> chain:
        """``a | b``: b after a, with its result."""
        if not isinstance(other, Canvas):
            return NotImplemented
        return chain(*_links(self), *_links(other))


class Signature(Canvas):
    """A call of a task that has not been sent."""

    def __init__(
        self,
        name: str,
        app: AppFace,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        immutable: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.task = name
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.immutable = immutable
        self.options = dict(options or {})
        self._app = app
        check_options(self.options)

    def __repr__(self) -> str:
        """Show the task; never the arguments."""
        return f"<Signature {self.task}>"

    @property
    def app(self) -> AppFace:
        """The app of its task."""
        return self._app

    def clone(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Signature:
        """A copy, with further arguments in front."""
        return Signature(
            self.task,
            self._app,
            self.args if self.immutable else (*args, *self.args),
            self.kwargs if self.immutable else {**self.kwargs, **(kwargs or {})},
            immutable=self.immutable,
            options=self.options,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now."""
        whole = self.clone(args, kwargs)
        return self._app.functions[self.task](*whole.args, **whole.kwargs)

    def as_dict(self) -> dict[str, Any]:
        """The signature as JSON, without callbacks of its own."""
        return {
            "task": self.task,
            "args": self.args,
            "kwargs": self.kwargs,
            "immutable": self.immutable,
            "options": plain_options(self.options),
        }


class chain(Canvas):  # noqa: N801 - Celery's name
    """Signatures that follow each other, each with the result of the one before."""

    def __init__(self, *tasks: Any) -> None:
        self.tasks = [link for one in _given(tasks) for link in _links(one)]
        self.options = {}
        if not self.tasks:
            raise NotInShim("chain(): it needs at least one signature")

    @property
    def app(self) -> AppFace:
        """The app of its first task."""
        return self.tasks[0].app

    def __call__(self, *args: Any, **kwargs: Any) -> AsyncResult | GroupResult:
        """Send it."""
        return self.apply_async(args, kwargs)  # type: ignore[no-any-return]


class group(Canvas):  # noqa: N801 - Celery's name
    """Signatures that run beside each other. Groups in it are taken in."""

    def __init__(self, *tasks: Any) -> None:
        self.tasks = list(_flat(_given(tasks)))
        self.options = {}

    @property
    def app(self) -> AppFace:
        """The app of its first task."""
        if not self.tasks:
            raise NotInShim("group(): it needs at least one signature")
        return self.tasks[0].app

    def __call__(self, *args: Any, **kwargs: Any) -> GroupResult:
        """Send it."""
        return self.apply_async(args, kwargs)  # type: ignore[no-any-return]

    def group(self) -> group:
        """Itself: what ``chunks`` gives is a group already."""
        return self

    def __len__(self) -> int:
        """The number of its members."""
        return len(self.tasks)


class chord(Canvas):  # noqa: N801 - Celery's name
    """A group, and a body that is called with the list of its results."""

    def __init__(self, header: Any, body: Canvas | None = None) -> None:
        self.header = header if isinstance(header, group) else group(header)
        self.body = body
        self.options = {}

    @property
    def app(self) -> AppFace:
        """The app of its body."""
        return self.whole_body().app

    def __call__(self, body: Canvas | None = None, **options: Any) -> AsyncResult:
        """Send it, with a body if it had none."""
        return chord(self.header, body or self.whole_body()).apply_async(**options)  # type: ignore[no-any-return]

    def whole_body(self) -> Canvas:
        """Its body. Raises ``NotInShim`` where it was given none."""
        if self.body is None:
            raise NotInShim("chord(header): it needs a body: chord(header)(body)")
        return self.body


def chunked(signature: Signature, items: Iterable[Any], size: int) -> group:
    """The calls of a task for so many items at a time, each as one job."""
    if size < 1:
        raise NotInShim("chunks(items, n): n is at least 1")
    rest = iter(items)
    parts = iter(lambda: list(itertools.islice(rest, size)), [])
    return group([several("celery.starmap", signature, part) for part in parts])


def several(kind: str, signature: Signature, items: Iterable[Any]) -> Signature:
    """One job that calls a task for each of the items."""
    return Signature(kind, signature.app, (signature.task, list(items)), options=signature.options)


def check_options(given: Mapping[str, Any]) -> None:
    """Refuse options that ``apply_async`` has not here. Raises ``NotInShim``."""
    for name, value in given.items():
        if name == "serializer" and value == "json":
            continue
        refuse(CALL_OPTIONS.get(name), f"apply_async({name}=)")


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without callbacks, which are no JSON. Raises ``NotInShim`` where there are some."""
    if callbacks := options.keys() & {"link", "link_error"}:
        raise NotInShim(f"a callback with {', '.join(sorted(callbacks))} of its own: use a chain")
    return dict(options)


def callbacks(options: Mapping[str, Any], name: str) -> list[Canvas]:
    """The signatures given as ``link`` or ``link_error``, one or a list."""
    given = options.get(name) or ()
    return [given] if isinstance(given, Canvas) else [_canvas(one) for one in given]


def _added(options: dict[str, Any], name: str, one: Canvas) -> Canvas:
    options[name] = [*callbacks(options, name), _canvas(one)]
    return one


def _canvas(one: object) -> Canvas:
    if not isinstance(one, Canvas):
        raise NotInShim(f"a canvas is made of signatures, task.s(...), not {type(one).__name__}")
    return one


def _given(tasks: tuple[Any, ...]) -> list[Canvas]:
    """The signatures of ``chain(a, b)`` or ``chain([a, b])``."""
    several = tasks[0] if len(tasks) == 1 and not isinstance(tasks[0], Canvas) else tasks
    return [_canvas(one) for one in several]


def _links(one: Canvas) -> Iterator[Canvas]:
    if isinstance(one, chain) and not one.options:
        yield from one.tasks
    else:
        yield one


def _flat(several: Iterable[Canvas]) -> Iterator[Canvas]:
    for one in several:
        if isinstance(one, group) and not one.options:
            yield from one.tasks
        else:
            yield one
