"""``app.conf``: Celery's settings that mean something here, and a refusal of those that do not."""

# ruff: noqa: ANN401 - settings are of any type

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from offpath.contrib.celery.exceptions import NotInShim, refuse
from offpath.contrib.celery.settings_catalogue import SETTINGS, setting_of

_JSON: Final = {
    "task_serializer": "json",
    "result_serializer": "json",
    "accept_content": ["json"],
    "result_accept_content": ["json"],
}


class Configuration:
    """Settings by their names since Celery 4; one that the shim has not raises ``NotInShim``."""

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {})

    def __setattr__(self, name: str, value: object) -> None:
        """Set one."""
        if name in _JSON:
            if value not in (_JSON[name], ["application/json"]):
                raise NotInShim(f"{name}={value!r}: {SETTINGS['result_serializer'].text}")
        else:
            refuse(SETTINGS.get(name), f"setting {name}")
        self._values[name] = value

    def __getattr__(self, name: str) -> Any:
        """Get one; of the beat an empty schedule, of others None."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self._values.setdefault(name, {} if name == "beat_schedule" else None)

    __setitem__ = __setattr__
    __getitem__ = __getattr__

    def get(self, name: str, default: Any = None) -> Any:
        """Get one, or a default."""
        value = self._values.get(name)
        return default if value is None else value

    def update(self, given: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Set several."""
        for name, value in {**(given or {}), **more}.items():
            setattr(self, setting_of(name) or name, value)

    def read(self, source: object, namespace: str | None) -> None:
        """Set what a module, an object or a mapping has."""
        for name, value in _pairs(_object(source) if isinstance(source, str) else source):
            if namespace:
                if not name.startswith(f"{namespace}_"):
                    continue
                name = "CELERY_" + name.removeprefix(f"{namespace}_").upper()  # noqa: PLW2901
            if (setting := setting_of(name)) is not None:
                setattr(self, setting, value)

    def queue_of(self, task: str) -> str | None:
        """The queue that ``task_routes`` gives a task."""
        routes = self.get("task_routes", {})
        if not isinstance(routes, Mapping):
            raise NotInShim("task_routes: names and patterns to queues; natively queue= of a task")
        for pattern, route in routes.items():
            if fnmatch.fnmatchcase(task, pattern):
                if not isinstance(route, Mapping) or route.keys() != {"queue"}:
                    raise NotInShim(f"task_routes[{pattern!r}]: it is {{'queue': name}} here")
                return str(route["queue"])
        return None


def _object(path: str) -> object:
    """``module`` or ``module:attribute``. Raises ``NotInShim`` where there is none."""
    module, _, attribute = path.partition(":")
    try:
        found: object = importlib.import_module(module)
    except ImportError as error:
        raise NotInShim(f"config_from_object({path!r}): {error}") from error
    return getattr(found, attribute) if attribute else found


def _pairs(source: object) -> Iterator[tuple[str, Any]]:
    if isinstance(source, Mapping):
        yield from source.items()
        return
    for name in dir(source):
        if not name.startswith("_"):
            yield name, getattr(source, name)
