"""Celery's signals that the shim sends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from offpath.contrib.celery import catalogue

_log: Final = logging.getLogger("offpath.contrib.celery")
Receiver = Callable[..., Any]


class TaskSignal:
    """A signal: receivers are called in the order in which they were connected."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._receivers: list[tuple[Receiver, object]] = []

    def connect(
        self, receiver: Receiver | None = None, *, sender: object = None, weak: bool = True
    ) -> Any:  # noqa: ANN401 - the receiver, or a decorator
        """Connect a receiver, also as a decorator; ``sender`` restricts it to one task.

        Receivers are held strongly, whatever ``weak`` says.
        """
        if receiver is None:
            return lambda function: self.connect(function, sender=sender, weak=weak)
        self._receivers.append((receiver, sender))
        return receiver

    def disconnect(self, receiver: Receiver) -> bool:
        """Disconnect a receiver; whether it was connected."""
        left = [one for one in self._receivers if one[0] is not receiver]
        found = len(left) < len(self._receivers)
        self._receivers = left
        return found

    def send(self, sender: object, **named: Any) -> None:  # noqa: ANN401 - as receivers take them
        """Call the receivers. A fault of one is logged, and costs nothing else."""
        for receiver, wanted in tuple(self._receivers):
            if wanted is None or wanted is sender:
                try:
                    receiver(signal=self, sender=sender, **named)
                except Exception:  # noqa: BLE001 - as Celery does: told, and not raised
                    _log.exception("a receiver of %s failed", self.name)


task_prerun: Final = TaskSignal("task_prerun")
task_postrun: Final = TaskSignal("task_postrun")
task_success: Final = TaskSignal("task_success")
task_failure: Final = TaskSignal("task_failure")
task_retry: Final = TaskSignal("task_retry")
before_task_publish: Final = TaskSignal("before_task_publish")
SENT: Final = {
    one.name: one for one in (task_prerun, task_postrun, task_success, task_failure, task_retry)
}
"""Signals of a worker, by name."""


def __getattr__(name: str) -> object:
    """Refuse a signal of Celery's that is not sent here, by the word that is."""
    if name in catalogue.SIGNALS:
        raise ImportError(f"{name}: {catalogue.SIGNALS[name].text}", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
