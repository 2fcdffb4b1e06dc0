"""The names that may have metric series of their own: a bounded number of each kind.

Tasks, queues and streams are named by whoever writes work, so their number has no bound. Each
name costs some forty series in every process, for as long as the process lives. What is past the
cap is counted together under :data:`OTHER`; nothing is left out of a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted by name."""

IDLE_AFTER = 3_600.0
"""Seconds without a change after which the series of a name are dropped."""
OTHER = "other"
"""The value of a label whose name is past the cap."""
OPEN = frozenset({"task", "queue", "stream", "domain", "router", "what"})
"""Labels whose values others choose. The values of all other labels are in the code."""
MOST = 100
"""Names of one kind that have series of their own, where nothing else is set."""


class SeriesNames:
    """Decides which names have series of their own. A name keeps them until it is forgotten.

    A *name* is the labels of a series that others choose: ``(("stream", "mail"),)``, or a task
    and a queue together. Names with the same labels are of one kind.
    """

    def __init__(self, most: int, tell: Callable[[str], object]) -> None:
        self._most = most
        self._tell = tell
        self._known: dict[tuple[str, ...], set[Labels]] = {}
        self._kept: set[Labels] = set()
        self.crowded: dict[str, str] = {}
        """One line for each kind whose cap was reached."""

    def keep(self, name: Mapping[str, str]) -> None:
        """Give a name series of its own for ever, past the cap too: this process works for it."""
        self._kept.add(tuple(sorted(name.items())))

    def bounded(self, labels: Labels) -> Labels:
        """The labels under which a series is counted: these, or with :data:`OTHER` in them."""
        name = opened(labels)
        if not name or self._admitted(name):
            return labels
        # A queue past the cap is still counted by its task, as far as the task is within it.
        task = tuple(pair for pair in name if pair[0] == "task")
        known = task if len(name) > 1 and self._admitted(task) else ()
        return tuple(
            pair if pair[0] not in OPEN or pair in known else (pair[0], OTHER) for pair in labels
        )

    def lasting(self, name: Labels) -> bool:
        """True if a name is never forgotten: it is kept, or stands for others."""
        return name in self._kept or any(value == OTHER for _, value in name)

    def forget(self, name: Labels) -> None:
        """Make room for another name of this kind."""
        self._known.get(_kind(name), set()).discard(name)

    def _admitted(self, name: Labels) -> bool:
        if self.lasting(name):
            return True
        known = self._known.setdefault(_kind(name), set())
        if name in known:
            return True
        if len(known) < self._most:
            known.add(name)
            return True
        self._crowd(" and ".join(_kind(name)))
        return False

    def _crowd(self, kind: str) -> None:
        """Tell of a kind whose cap is reached, once for the life of the process."""
        if kind in self.crowded:
            return
        line = (
            f"metrics: more than {self._most} names of {kind} are in use; further ones are counted "
            f"together as {OTHER}: raise metric_names, or use fewer names"
        )
        self.crowded[kind] = line
        self._tell(line)


class Idleness:
    """Finds the names whose series did not change for an hour."""

    def __init__(self) -> None:
        self._changes: dict[Labels, tuple[float, float]] = {}

    def look(
        self, marks: Mapping[Labels, float], live: Collection[Labels], now: float
    ) -> list[Labels]:
        """Compare each name's mark with that of the last look; a live name is never idle."""
        before, self._changes = self._changes, {}
        for name, mark in marks.items():
            last = before.get(name)
            same = last is not None and last[0] == mark and name not in live
            self._changes[name] = last if same and last is not None else (mark, now)
        return [name for name, (_, at) in self._changes.items() if now - at >= IDLE_AFTER]


def opened(labels: Labels) -> Labels:
    """The part of these labels that others choose."""
    return tuple(pair for pair in labels if pair[0] in OPEN)


def _kind(name: Labels) -> tuple[str, ...]:
    return tuple(label for label, _ in name)
