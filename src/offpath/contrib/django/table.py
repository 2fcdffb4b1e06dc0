"""The tasks and the app of each backend, once a process.

Django makes a backend object for each thread, and workers need to know every task that was ever
defined: so both are kept here, by the backend's alias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from django.core.signals import setting_changed
from django.dispatch import receiver
from django.utils.module_loading import import_string

from offpath.app import App
from offpath.config import Settings, load_settings
from offpath.contrib.django.database import MODES, alias_of, url_of
from offpath.errors import ConfigurationError
from offpath.model.options import AppOptions
from offpath.model.retry import DEFAULT_POLICY, RetryOptions, RetryPolicy
from offpath.runtime.forks import ProcessLock

if TYPE_CHECKING:
    from offpath.jobs.values.runnable import Around

THREADS: Final = 16
"""Sync handlers at once where nothing says otherwise: each has a connection of Django's, of which a
Postgres as it is installed has 100 for all."""

_LOCK: Final = ProcessLock(reentrant=True)
_TABLES: Final[dict[str, TaskTable]] = {}


class TaskTable:
    """The tasks of one backend by their names, and the app that has them as native ones."""

    native: Callable[[TaskTable, str], Callable[..., Any]]
    """The maker of native handlers, and what is around each: the backend knows them."""
    around: Around
    sender: type[Any]
    """The class of the backend, in whose name signals are sent."""

    def __init__(self) -> None:
        self.tasks: dict[str, Any] = {}
        self.attempts: dict[str, int] = {}
        self.options: Mapping[str, Any] = {}
        self._app: App | None = None
        self._url: str | None = None

    @property
    def mode(self) -> str:
        """The way to enqueue: one of ``MODES``."""
        return str(self.options.get("enqueue", MODES[0]))

    @property
    def own_database(self) -> bool:
        """True if the jobs are in a database of Django's, so that its transactions hold them."""
        return "url" not in self.options

    @property
    def database(self) -> str:
        """The alias of that database."""
        return alias_of(dict(self.options))

    def add(self, task: Any) -> None:  # noqa: ANN401 - a Task of Django's
        """Keep a task; the first of its name counts, since ``using()`` makes others of it."""
        with _LOCK:
            path = task.module_path
            known = self.tasks.get(path)
            if known is None or known.func is not task.func:
                self.tasks[path] = task
            if self._app is not None and path not in self._app.tasks:
                self._make_native(self._app, task)

    def app(self) -> App:
        """The app. It is made anew when the alias means another database, as it does in tests."""
        with _LOCK:
            url = self._place()
            if self._app is None or url != self._url:
                self._app, self._url = self._made(url), url
                for task in self.tasks.values():
                    self._make_native(self._app, task)
            return self._app

    def forget(self) -> None:
        """Forget the app, whose settings have changed; the tasks stay defined."""
        self._app = None

    def _place(self) -> str:
        return str(self.options["url"]) if "url" in self.options else url_of(self.database)

    def _made(self, url: str) -> App:
        if path := self.options.get("app"):
            found = import_string(path)
            if not isinstance(found, App):
                raise ConfigurationError(f'OPTIONS["app"]: {path} is not an offpath.App')
            return found
        given = dict(self.options.get("settings", {}))
        level = {name: given.pop(name) for name in AppOptions.__annotations__ if name in given}
        return App(settings=_settings(url, given), auto_start=False, **cast("AppOptions", level))

    def _make_native(self, app: App, task: Any) -> None:  # noqa: ANN401 - a Task of Django's
        path = task.module_path
        self.attempts[path] = self._attempts(task)
        if path not in app.tasks:
            app.task(name=path, around=[self.around], **own_options(task))(self.native(self, path))

    def _attempts(self, task: Any) -> int:  # noqa: ANN401 - as above
        own = getattr(task, "retry", None)
        retry = (self.options.get("settings") or {}).get("retry") if own is None else own
        match retry:
            case int():
                return retry
            case RetryPolicy():
                return retry.attempts
            case RetryOptions(attempts=int(attempts)):
                return attempts
        return DEFAULT_POLICY.attempts


def own_options(task: Any) -> dict[str, Any]:  # noqa: ANN401 - a Task of Django's
    """The options that our kind of task has beside Django's."""
    names = ("retry", "timeout", "deadline", "tags", "retention", "limit", "fair_key", "unique")
    given = {name: getattr(task, name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _settings(url: str, given: Mapping[str, Any]) -> Settings:
    found = load_settings(url=url, **given)
    return found if found.threads is not None else load_settings(url=url, threads=THREADS, **given)


def table_of(alias: str) -> TaskTable:
    """The table of a backend, empty at first."""
    with _LOCK:
        return _TABLES.setdefault(alias, TaskTable())


@receiver(setting_changed)  # type: ignore[untyped-decorator] # Django ships no types
def _forget_apps(*, setting: str, **_: object) -> None:
    if setting in {"TASKS", "DATABASES"}:
        for table in _TABLES.values():
            table.forget()
