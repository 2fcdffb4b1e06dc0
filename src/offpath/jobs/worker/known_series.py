"""Counters that exist before their first event, so that an alert sees the first one.

Prometheus tells a rise from the sample before. A counter that is born at 1 has none, and the first
death of a process would be missed. Labels are known from what a worker is to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offpath.runtime.metrics import Metrics

DEFAULT_QUEUE = "default"

_Known = tuple[str, dict[str, str]]
"""A counter's name and labels."""


def of_loop(metrics: Metrics, loop: str) -> None:
    """Make the counters of what a loop moves."""
    kind, _, name = loop.partition(":")
    for counter, labels in _of(kind, name):
        metrics.keep(**{label: labels[label] for label in ("stream", "router") if label in labels})
        metrics.counter(counter, **labels)


def of_tasks(metrics: Metrics, tasks: Iterable[str], queues: Iterable[str]) -> None:
    """Make the counters of the tasks that a worker runs, in the queues that it serves by name."""
    for task in tasks:
        metrics.keep(task=task)
        for queue in tuple(queues) or (DEFAULT_QUEUE,):
            metrics.keep(task=task, queue=queue)
            for name in ("dead", "rescued"):
                metrics.counter(f"offpath_jobs_{name}_total", task=task, queue=queue)


def _of(kind: str, name: str) -> Iterator[_Known]:
    match kind:
        case "relay":
            yield from _messages("out", name)
        case "inbox":
            yield from _messages("in", name)
        case "router":
            yield "offpath_router_attempts_total", {"router": name, "status": "failed"}
        case "sweep":
            for outcome in ("degraded", "failed"):
                yield "offpath_sweep_passes_total", {"sweep": name, "outcome": outcome}
            yield "offpath_sweep_rows_total", {"sweep": name, "bucket": "dead_lettered"}
        case _:
            return


def _messages(box: str, stream: str) -> Iterator[_Known]:
    for outcome in ("failed", "dead"):
        yield "offpath_messages_total", {"box": box, "stream": stream, "outcome": outcome}
