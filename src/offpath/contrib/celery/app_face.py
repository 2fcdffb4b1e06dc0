"""The app as signatures, tasks and results see it, and the one that is current."""

# ruff: noqa: ANN401 - arguments are of any type

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from offpath.contrib.celery.exceptions import NotInShim

if TYPE_CHECKING:
    from offpath.app import App
    from offpath.contrib.celery.configuration import Configuration
    from offpath.jobs.blocking.views import BlockingHandle
    from offpath.jobs.define.task import Sending
    from offpath.model.job import JobRecord


class AppFace(Protocol):
    """The part of a Celery app that its tasks and results need."""

    offpath: App
    conf: Configuration

    @property
    def functions(self) -> Mapping[str, Any]:
        """The tasks by their names."""
        ...

    def send_canvas(
        self, one: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        """Enqueue a canvas in one commit."""
        ...

    def defaults_of(self, name: str) -> dict[str, Any]:
        """The options of a task's jobs, before those of the call."""
        ...

    def native_task(self, name: str, args: Sequence[Any]) -> Sending[..., Any, Any]:
        """The task of ours behind a name."""
        ...

    def handle(self, job: str) -> BlockingHandle[Any, Any]:
        """The handle of a job of any task."""
        ...

    def record(self, job: str) -> JobRecord:
        """Everything that is known about a job."""
        ...

    def records(self, jobs: Sequence[str]) -> list[JobRecord]:
        """Jobs in the order of their ids."""
        ...


_CURRENT: list[Any] = []


def has_current() -> bool:
    """True once there is an app."""
    return bool(_CURRENT)


def current() -> Any:
    """The app that was made last, or made current. Raises ``NotInShim`` where there is none."""
    if not _CURRENT:
        raise NotInShim("there is no Celery app yet: Celery('shop', offpath=...) comes first")
    return _CURRENT[0]


def set_current(app: object) -> None:
    """Make an app the current one."""
    _CURRENT[:] = [app]
