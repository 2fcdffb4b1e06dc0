"""The extension of Flask: one app of ours for one application of Flask's."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from flask import Flask, g, has_request_context

from offpath.app import App
from offpath.config import Settings, load_settings
from offpath.contrib.flask.command_line import offpath
from offpath.errors import ConfigurationError, InvalidArgument
from offpath.store.backends import Backend

if TYPE_CHECKING:
    from flask import Response

    from offpath.extensions import Running
    from offpath.jobs.define.task import Sending
    from offpath.jobs.values.job import Job
    from offpath.jobs.values.runnable import Around

P = ParamSpec("P")
S = TypeVar("S")
G = TypeVar("G")

KEY: Final = "offpath"
"""The key of ``app.extensions`` under which Flask's application has ours."""
_PREFIX: Final = "OFFPATH_"
_REFUSED: Final = 400
"""The first status of an answer that drops what was left for later."""


class Offpath(App):
    """An :class:`offpath.App` for one application of Flask's; its decorators work at once.

    It takes what ``App`` does. ``init_app`` gives it the settings of ``app.config`` that begin with
    ``OFFPATH_``, as ``OFFPATH_URL``. Each attempt of a handler runs in an application context of
    its own, inside of every ``around``: ``current_app`` and ``db.session`` work, and are torn down.
    Enqueue in views by ``jobs.blocking``, with ``within=db.session`` in the session's transaction.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        around: Around | Sequence[Around] = (),
        **options: Any,  # noqa: ANN401 - those of App
    ) -> None:
        given = list(around) if isinstance(around, Sequence) else [around]
        options.setdefault("auto_start", False)
        super().__init__(url, around=[*given, self._in_context], **options)
        self._flask: Flask | None = None
        self.later = AfterRequest(self)
        """The work that a request leaves behind: ``jobs.later.add(task, …)``."""

    def init_app(self, app: Flask) -> None:
        """Serve an application of Flask's: settings, command line, contexts, ``later``.

        A factory may call it again, as tests do: the last application counts. Raises
        ``InvalidArgument`` when that names another store while this one is open, and
        ``ConfigurationError``.
        """
        settings = _settings(app, self.settings)
        if settings.url != self.settings.url:
            if self._core.loop() is not None:
                raise InvalidArgument(
                    "this Offpath is open on another store: make one Offpath for each application"
                )
            self._backend, self._store = Backend.of(settings, store=None, clock=None), None
        self.settings = settings
        self._flask = app
        app.extensions[KEY] = self
        app.after_request(self.later.write)
        app.cli.add_command(offpath)

    @contextmanager
    def _in_context(self, _run: Running) -> Iterator[None]:
        app = self._flask
        if app is None:
            raise ConfigurationError(
                "no Flask application: call jobs.init_app(app) where the worker imports it, as in "
                "`offpath worker shop:create_app()`"
            )
        with app.app_context():
            yield

    async def _start(self) -> Any:  # noqa: ANN401 - the app's session
        _refuse_green_threads()
        return await super()._start()


class AfterRequest:
    """The jobs that a request leaves behind, written before its answer goes out."""

    def __init__(self, jobs: App) -> None:
        self._jobs = jobs

    def add(self, task: Sending[P, S, G], /, *args: P.args, **kwargs: P.kwargs) -> Job[S, G]:
        """Add a job of a task, or of ``task.options(...)``; it has its id already.

        Raises ``InvalidArgument`` outside of a request, ``InvalidInput`` and ``TooLarge``.
        """
        if not has_request_context():
            raise InvalidArgument(
                "jobs.later is for requests: elsewhere use jobs.blocking.enqueue(task.job(...))"
            )
        job = task.job(*args, **kwargs)
        g.setdefault(KEY, []).append(job)
        return job

    def write(self, answer: Response) -> Response:
        """Write what was added, in one commit, unless the answer is an error. Flask calls it.

        What it raises becomes a 500.
        """
        added = g.pop(KEY, None)
        if added and answer.status_code < _REFUSED:
            self._jobs.blocking.enqueue(added)
        return answer


def _settings(app: Flask, before: Settings) -> Settings:
    """The settings with those of the application's config. Raises ``ConfigurationError``."""
    named = {
        name.removeprefix(_PREFIX).lower(): value
        for name, value in app.config.items()
        if name.startswith(_PREFIX)
    }
    if not named:
        return before
    if unknown := sorted(named.keys() - set(Settings.__struct_fields__)):
        raise ConfigurationError(f"there is no setting {_PREFIX}{unknown[0].upper()}")
    return load_settings(**named)


def _refuse_green_threads() -> None:
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    patched = gevent is not None and gevent.is_module_patched("threading")
    patched = patched or (eventlet is not None and eventlet.is_monkey_patched("thread"))
    if patched:
        raise ConfigurationError(
            "threads are patched by gevent or eventlet, under which no event loop runs beside: run "
            "the worker as a process of its own, and enqueue with within= a connection, which "
            "needs no event loop"
        )
